package snapshot

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/route"
)

// edit changes a configuration in one of the ways that writers do.
func edit(t *rapid.T, in *configv1.Snapshot) {
	at := func(n int) int { return rapid.IntRange(0, n).Draw(t, "at") }
	switch rapid.IntRange(0, 8).Draw(t, "edit") {
	case 0:
		in.Routes = slices.Insert(in.Routes, at(len(in.Routes)), someRoute(t))
	case 1:
		in.Clusters = slices.Insert(in.Clusters, at(len(in.Clusters)), someCluster(t))
	case 2:
		in.Listeners = append(in.Listeners, &configv1.Listener{Name: someName(t, "l"), Address: fmt.Sprintf("127.0.0.1:%d", 1+at(9))})
	case 3:
		if n := len(in.Routes); n > 0 {
			i := at(n - 1)
			in.Routes = slices.Delete(in.Routes, i, i+1)
		}
	case 4:
		if n := len(in.Clusters); n > 0 {
			i := at(n - 1)
			in.Clusters = slices.Delete(in.Clusters, i, i+1)
		}
	case 5:
		if n := len(in.Routes); n > 0 {
			in.Routes[at(n-1)] = someRoute(t)
		}
	case 6:
		if n := len(in.Clusters); n > 0 {
			in.Clusters[at(n-1)] = someCluster(t)
		}
	case 7:
		if n := len(in.Routes); n > 1 {
			i := at(n - 2)
			in.Routes[i], in.Routes[i+1] = in.Routes[i+1], in.Routes[i]
		}
	case 8:
		in.Version = someName(t, "v")
	}
}

func someName(t *rapid.T, kind string) string {
	return fmt.Sprintf("%s%d", kind, rapid.IntRange(0, 5).Draw(t, "name"))
}

func someCluster(t *rapid.T) *configv1.Cluster {
	return &configv1.Cluster{
		Name:      someName(t, "c"),
		Endpoints: []*configv1.Endpoint{{Address: fmt.Sprintf("10.0.0.%d:80", rapid.IntRange(1, 3).Draw(t, "endpoint"))}},
	}
}

func someRoute(t *rapid.T) *configv1.Route {
	out := &configv1.Route{Name: someName(t, "r")}
	if rapid.Bool().Draw(t, "of a listener") {
		out.Listeners = []string{someName(t, "l")}
	}
	prefix := rapid.SampledFrom([]string{"/", "/a", "/a/b"}).Draw(t, "prefix")
	out.Matches = []*configv1.Match{{Path: &configv1.PathMatch{Kind: &configv1.PathMatch_Prefix{Prefix: prefix}}}}
	out.Action = &configv1.Route_Respond{Respond: &configv1.Respond{}}
	if rapid.Bool().Draw(t, "forwards") {
		out.Action = &configv1.Route_Forward{Forward: &configv1.Forward{
			Backends: []*configv1.Backend{{Cluster: someName(t, "c")}, {Cluster: someName(t, "c"), Weight: proto.Uint32(2)}},
		}}
	}
	return out
}

// However a configuration came about, its snapshot is the same as if it were the
// first; and a configuration that was refused leaves nothing behind.
func TestCompileFromIsCompile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := &configv1.Snapshot{}
		var prev *Snapshot
		for range rapid.IntRange(1, 12).Draw(t, "edits") {
			in = &configv1.Snapshot{Version: in.Version, Listeners: slices.Clone(in.Listeners), Clusters: slices.Clone(in.Clusters), Routes: slices.Clone(in.Routes)}
			edit(t, in)
			want, wantViolations := Compile(proto.CloneOf(in))
			for name, f := range map[string]func() (*Snapshot, []Violation){
				"from":    func() (*Snapshot, []Violation) { return CompileFrom(prev, proto.CloneOf(in)) },
				"patched": func() (*Snapshot, []Violation) { return CompilePatched(prev, in) },
			} {
				got, gotViolations := f()
				if diff := cmp.Diff(wantViolations, gotViolations); diff != "" {
					t.Fatalf("%s: violations (-want +got):\n%s", name, diff)
				}
				sameSnapshot(t, name, want, got)
			}
			if want != nil {
				prev, _ = CompilePatched(prev, in)
			}
		}
	})
}

// sameSnapshot compares all that can be seen, and what the tables decide.
func sameSnapshot(t *rapid.T, name string, want, got *Snapshot) {
	if (want == nil) != (got == nil) {
		t.Fatalf("%s: accepted %v, not %v", name, got != nil, want != nil)
	}
	if want == nil {
		return
	}
	ignore := []cmp.Option{
		cmpopts.IgnoreFields(Snapshot{}, "Source"), cmpopts.IgnoreUnexported(Snapshot{}),
		cmpopts.IgnoreTypes(&route.Table{}),
	}
	if diff := cmp.Diff(want, got, ignore...); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", name, diff)
	}
	for _, c := range got.Routes {
		for _, b := range forwardOf(c).Backends {
			if got.Clusters[b.Cluster.Index] != b.Cluster {
				t.Fatalf("%s: route %s forwards to a cluster of another snapshot", name, c.Name)
			}
		}
	}
	for _, l := range want.Listeners {
		for _, path := range []string{"/", "/a", "/a/b/c"} {
			ask := &controlv1.ExplainRequest{Request: &controlv1.RequestDescription{Path: path, Listener: l.Name}}
			a, errA := Explain(want, ask)
			b, errB := Explain(got, ask)
			if errA != nil || errB != nil || !proto.Equal(a, b) {
				t.Fatalf("%s: %s on %s: %v, not %v", name, path, l.Name, b, a)
			}
		}
	}
}

func forwardOf(r *Route) *Forward {
	if r.Forward == nil {
		return &Forward{}
	}
	return r.Forward
}

// What did not change is the same object, so that live state can hang on it.
func TestUnchangedIsKept(t *testing.T) {
	in := large(10)
	prev := mustCompile(t, nil, in)
	next := large(10)
	next.Routes[3].GetForward().GetBackends()[0].Weight = proto.Uint32(2)
	next.Clusters[7].Endpoints[0].Weight = proto.Uint32(0)
	s := mustCompile(t, prev, next)
	for i := range s.Routes {
		if kept := s.Routes[i] == prev.Routes[i]; kept != (i != 3 && i != 7) {
			t.Errorf("route %d kept: %v", i, kept)
		}
		if kept := s.Clusters[i] == prev.Clusters[i]; kept != (i != 7) {
			t.Errorf("cluster %d kept: %v", i, kept)
		}
		if same := s.Clusters[i].Identity == prev.Clusters[i].Identity; same != (i != 7) {
			t.Errorf("cluster %d has the same identity: %v", i, same)
		}
	}
	if s.Listeners[0].Table != prev.Listeners[0].Table {
		t.Error("the table was made anew, and no condition has changed")
	}
	if s.Digest == prev.Digest {
		t.Error("the digest is the same")
	}
}

// A resource that moves keeps its content and identity under a new index.
func TestMovedIsKept(t *testing.T) {
	prev := mustCompile(t, nil, large(100))
	next := large(100)
	next.Routes, next.Clusters = next.Routes[1:], next.Clusters[1:]
	s := mustCompile(t, prev, next)
	for i, c := range s.Clusters {
		if c.Index != i || c.Identity != prev.Clusters[i+1].Identity || prev.Clusters[i+1].Index != i+1 {
			t.Fatalf("cluster %d: %+v", i, c)
		}
		if r := s.Routes[i]; r.Index != i || r.Forward.Backends[0].Cluster != c || prev.Routes[i+1].Index != i+1 {
			t.Fatalf("route %d: %+v", i, r)
		}
	}
}

// The version is a label, the order is content.
func TestDigest(t *testing.T) {
	in := large(3)
	before := Digest(in)
	in.Version = "another"
	if Digest(in) != before {
		t.Error("the version counts")
	}
	if s := mustCompile(t, nil, in); s.Digest != before || s.Version != "another" {
		t.Error(s.Digest, s.Version)
	}
	in.Routes[0], in.Routes[1] = in.Routes[1], in.Routes[0]
	if Digest(in) == before {
		t.Error("the order does not count")
	}
	in.Version = ""
	if s := mustCompile(t, nil, in); s.Version != s.Digest[:12] {
		t.Error(s.Version)
	}
}
