package snapshot

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
)

// large is a configuration of n routes and n clusters, each with a host of its
// own, as a fleet of small services has.
func large(n int) *configv1.Snapshot {
	in := &configv1.Snapshot{
		Version:   "1",
		Listeners: []*configv1.Listener{{Name: "web", Address: "127.0.0.1:8080"}},
	}
	for i := range n {
		cluster := fmt.Sprintf("service-%d", i)
		in.Clusters = append(in.Clusters, &configv1.Cluster{
			Name: cluster,
			Endpoints: []*configv1.Endpoint{
				{Address: fmt.Sprintf("10.%d.%d.1:9000", i/250, i%250)},
				{Address: fmt.Sprintf("10.%d.%d.2:9000", i/250, i%250), Weight: proto.Uint32(3)},
			},
			HealthCheck: &configv1.HealthCheck{Probe: &configv1.HealthCheck_Http{Http: &configv1.HttpProbe{Path: "/healthz"}}},
		})
		in.Routes = append(in.Routes, &configv1.Route{
			Name:  fmt.Sprintf("route-%d", i),
			Hosts: []string{fmt.Sprintf("s%d.example.com", i)},
			Matches: []*configv1.Match{
				{Path: &configv1.PathMatch{Kind: &configv1.PathMatch_Prefix{Prefix: "/v1"}}, Methods: []string{"GET"}},
			},
			Action: &configv1.Route_Forward{Forward: &configv1.Forward{
				Backends: []*configv1.Backend{{Cluster: cluster}},
				Rewrite:  &configv1.Rewrite{Path: &configv1.Rewrite_Prefix{Prefix: "/"}},
			}},
		})
	}
	return in
}

const many = 10000

func mustCompile(tb testing.TB, prev *Snapshot, in *configv1.Snapshot) *Snapshot {
	tb.Helper()
	s, violations := CompileFrom(prev, in)
	if s == nil {
		tb.Fatalf("refused: %v", violations[0])
	}
	return s
}

func BenchmarkCompile10000(b *testing.B) {
	in := large(many)
	mustCompile(b, nil, in)
	for b.Loop() {
		mustCompile(b, nil, in)
	}
}

// A weight of one route has changed: the tables stay.
func BenchmarkCompileFromAction10000(b *testing.B) {
	prev := mustCompile(b, nil, large(many))
	next := large(many)
	next.Routes[many/2].GetForward().GetBackends()[0].Weight = proto.Uint32(7)
	for b.Loop() {
		mustCompile(b, prev, next)
	}
}

// The path of one route has changed: the table is made anew.
func BenchmarkCompileFromMatch10000(b *testing.B) {
	prev := mustCompile(b, nil, large(many))
	next := large(many)
	next.Routes[many/2].Matches[0].Path = &configv1.PathMatch{Kind: &configv1.PathMatch_Prefix{Prefix: "/v2"}}
	for b.Loop() {
		mustCompile(b, prev, next)
	}
}

func BenchmarkDigest10000(b *testing.B) {
	in := large(many)
	for b.Loop() {
		Digest(in)
	}
}
