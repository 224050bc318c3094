package control

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// large is 10,000 routes to as many clusters.
func large() *configv1.Snapshot {
	s := config("large", 0, 0)
	for i := range 10000 {
		name := fmt.Sprintf("c%d", i)
		s.Clusters = append(s.Clusters, &configv1.Cluster{
			Name: name, Endpoints: []*configv1.Endpoint{{Address: "127.0.0.1:9000"}},
		})
		s.Routes = append(s.Routes, &configv1.Route{
			Name: fmt.Sprintf("r%d", i), Hosts: []string{"api.example.com"},
			Matches: []*configv1.Match{{Path: &configv1.PathMatch{Kind: &configv1.PathMatch_Prefix{Prefix: fmt.Sprintf("/v1/%d", i)}}}},
			Action: &configv1.Route_Forward{Forward: &configv1.Forward{
				Backends: []*configv1.Backend{{Cluster: name}},
			}},
		})
	}
	return s
}

// BenchmarkOneRoute is one changed route among 10,000, from its arrival to
// ACTIVE, on a disk: as a whole snapshot that was decoded before, and as a patch.
func BenchmarkOneRoute(b *testing.B) {
	setup := func(b *testing.B) *Applier {
		store, err := OpenStore(b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		a := NewApplier(ApplierOptions{Node: &fakeNode{}, Store: store})
		b.Cleanup(func() { a.Close(); _ = store.Close() })
		if _, err := a.Apply(context.Background(), Request{Snapshot: large()}); err != nil {
			b.Fatal(err)
		}
		return a
	}
	b.Run("whole", func(b *testing.B) {
		a := setup(b)
		for i := range b.N {
			b.StopTimer()
			next := large()
			next.Routes[5000].Hosts[0] = fmt.Sprintf("h%d.example.com", i)
			b.StartTimer()
			if _, err := a.Apply(context.Background(), Request{Snapshot: next}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("patch", func(b *testing.B) {
		a := setup(b)
		for i := range b.N {
			_, active := a.Active()
			route := proto.CloneOf(active.Source.Routes[5000])
			route.Hosts[0] = fmt.Sprintf("h%d.example.com", i)
			s := staging{budget: &budget{}}
			s.start(&controlv1.PushBegin{Patch: true, Options: &controlv1.ApplyOptions{BaseDigest: active.Digest}})
			if err := s.add(&controlv1.PushResources{Resources: []*controlv1.Resource{
				{Resource: &controlv1.Resource_Route{Route: route}},
			}}); err != nil {
				b.Fatal(err)
			}
			next, err := s.finish(&controlv1.PushCommit{}, active)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := a.Apply(context.Background(), Request{Snapshot: next, patched: true}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
