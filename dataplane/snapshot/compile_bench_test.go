package snapshot

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

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

// processor reports the processor time of an operation, which other work on
// the machine does not blur as it does the time on the clock.
func processor(b *testing.B) func() {
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	start := used()
	return func() { b.ReportMetric(float64((used()-start).Nanoseconds())/float64(b.N), "cpu-ns/op") }
}

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
	defer processor(b)()
	for b.Loop() {
		mustCompile(b, nil, in)
	}
}

// A weight of one route has changed: the tables stay.
func BenchmarkCompileFromAction10000(b *testing.B) {
	prev := mustCompile(b, nil, large(many))
	next := large(many)
	next.Routes[many/2].GetForward().GetBackends()[0].Weight = proto.Uint32(7)
	defer processor(b)()
	for b.Loop() {
		mustCompile(b, prev, next)
	}
}

// The path of one route has changed: the table is made anew.
func BenchmarkCompileFromMatch10000(b *testing.B) {
	prev := mustCompile(b, nil, large(many))
	next := large(many)
	next.Routes[many/2].Matches[0].Path = &configv1.PathMatch{Kind: &configv1.PathMatch_Prefix{Prefix: "/v2"}}
	defer processor(b)()
	for b.Loop() {
		mustCompile(b, prev, next)
	}
}

// One route of a patch has changed: the other messages are the same ones.
func BenchmarkCompilePatched10000(b *testing.B) {
	in := large(many)
	prev := mustCompile(b, nil, in)
	next := &configv1.Snapshot{Version: "2", Listeners: in.Listeners, Clusters: in.Clusters, Routes: slices.Clone(in.Routes)}
	changed := proto.CloneOf(in.Routes[many/2])
	changed.GetForward().GetBackends()[0].Weight = proto.Uint32(7)
	next.Routes[many/2] = changed
	defer processor(b)()
	for b.Loop() {
		if s, violations := CompilePatched(prev, next); s == nil {
			b.Fatal(violations)
		}
	}
}

func BenchmarkDigest10000(b *testing.B) {
	in := large(many)
	defer processor(b)()
	for b.Loop() {
		Digest(in)
	}
}
