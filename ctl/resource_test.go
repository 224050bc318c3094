package ctl

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// manyRoutes is a snapshot of several MiB, with one resource of every other
// kind.
func manyRoutes(n int) *configv1.Snapshot {
	s := &configv1.Snapshot{
		Listeners:    []*configv1.Listener{{Name: "web"}},
		Certificates: []*configv1.Certificate{{Name: "site"}},
		CaBundles:    []*configv1.CaBundle{{Name: "staff"}},
		Clusters:     []*configv1.Cluster{{Name: "users"}},
		RateLimits:   []*configv1.RateLimit{{Name: "everyone"}},
		Tiers:        []*configv1.Tier{{Name: "free"}},
		ApiKeys:      []*configv1.ApiKey{{Id: "key_001"}},
		Telemetry:    &configv1.Telemetry{},
	}
	for i := range n {
		s.Routes = append(s.Routes, &configv1.Route{Name: "r" + number(i), Hosts: []string{strings.Repeat("h", 200)}})
	}
	return s
}

// Whatever its size, a snapshot goes in messages under the limit, and comes
// together as it was.
func TestPieces(t *testing.T) {
	whole := manyRoutes(20000)
	groups, err := pieces(resourcesOf(whole))
	if err != nil {
		t.Fatal(err)
	}
	if len(groups) < 10 {
		t.Errorf("%d pieces", len(groups))
	}
	again := new(configv1.Snapshot)
	for _, group := range groups {
		if size := proto.Size(&controlv1.PushResources{Resources: group}); size > pieceBytes {
			t.Errorf("a piece has %d bytes", size)
		}
		for _, part := range group {
			addResource(again, part)
		}
	}
	if !proto.Equal(whole, again) {
		t.Error("the pieces do not make the whole")
	}
}

func TestPieceTooLarge(t *testing.T) {
	s := &configv1.Snapshot{Routes: []*configv1.Route{{Name: "huge", Hosts: []string{strings.Repeat("h", maxMessageBytes)}}}}
	_, err := pieces(resourcesOf(s))
	if err == nil || !strings.HasPrefix(err.Error(), "route huge is 10") {
		t.Errorf("error %v", err)
	}
}

func TestFind(t *testing.T) {
	s := manyRoutes(3)
	for _, k := range kinds {
		name := map[string]string{
			"listener": "web", "certificate": "site", "caBundle": "staff", "cluster": "users",
			"rateLimit": "everyone", "tier": "free", "apiKey": "key_001", "route": "r2",
		}[k.singular]
		if find(s, k, name) == nil {
			t.Errorf("no %s %q", k.singular, name)
		}
		if k.key != "" && find(s, k, "nobody") != nil {
			t.Errorf("found a %s that is not there", k.singular)
		}
	}
	if find(nil, kinds[0], "web") != nil {
		t.Error("found something in nothing")
	}
}
