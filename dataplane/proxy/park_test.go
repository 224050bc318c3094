package proxy

import (
	"testing"
	"time"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// plain is a route that asks for nothing in particular.
func plain() *snapshot.Route {
	cluster := &snapshot.Cluster{Name: "c", HTTP2: true, MaxConnections: 1024, MaxRetries: 3, Outlier: &snapshot.Outlier{}}
	return &snapshot.Route{Name: "r", Index: 1, Upgrades: []string{"websocket"}, Forward: &snapshot.Forward{
		Backends: []snapshot.Backend{{Cluster: cluster, Weight: 1}}, TotalWeight: 1, FirstByte: time.Second,
	}}
}

// A route of its kind may be parked as the language sets it by default, whatever
// is known not to wait is added; anything else keeps it from that.
func TestPromptRoutes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *snapshot.Route)
		prompt bool
	}{
		"plain":        {func(*snapshot.Route) {}, true},
		"edits":        {func(r *snapshot.Route) { r.RequestHeaders.Remove = []string{"a"} }, true},
		"two clusters": {func(r *snapshot.Route) { r.Forward.Backends = append(r.Forward.Backends, plain().Forward.Backends...) }, true},
		"HTTP/1":       {func(r *snapshot.Route) { r.Forward.Backends[0].Cluster.HTTP2 = false }, true},
		"one of two": {func(r *snapshot.Route) {
			r.Forward.Backends = append(r.Forward.Backends, snapshot.Backend{Cluster: &snapshot.Cluster{ALPN: true}})
		}, false},
		"a delay":          {func(r *snapshot.Route) { r.Fault = &snapshot.Fault{} }, false},
		"nothing upstream": {func(r *snapshot.Route) { r.Forward, r.Respond = nil, &snapshot.Respond{Status: 200} }, false},
	} {
		r := plain()
		c.change(r)
		if got := promptly(r); got != c.prompt {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestUnknownFieldsAreNotPrompt(t *testing.T) {
	type config struct{ Known, Unknown int }
	if u := besides(config{}, "Known"); !u.lacks(&config{Known: 1}) || u.lacks(&config{Known: 1, Unknown: 1}) {
		t.Error("a field that is not named makes the difference, if it is set")
	}
}

// An apply asks it of ten thousand routes.
func TestPromptRouteAllocs(t *testing.T) {
	r := plain()
	if n := testing.AllocsPerRun(100, func() { promptly(r) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
