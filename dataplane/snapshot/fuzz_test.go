package snapshot

import (
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"buf.build/go/protoyaml"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
)

// whole holds what must be true of any configuration.
func whole(t *testing.T, in *configv1.Snapshot) {
	s, violations := Compile(in)
	errors := 0
	for _, v := range violations {
		if v.Message == "" || v.Rule == "" || v.Rule == "internal" {
			t.Fatalf("%+v", v)
		}
		if !v.Warning {
			errors++
		}
	}
	if (s == nil) != (errors > 0) {
		t.Fatalf("accepted %v with %d errors", s != nil, errors)
	}
	Diff(nil, in)
	Redact(in)
	if s == nil {
		return
	}
	if s.Digest != Digest(in) {
		t.Fatal("two digests")
	}
	if again, _ := CompileFrom(s, proto.CloneOf(in)); again == nil || again.Digest != s.Digest {
		t.Fatal("refused the second time")
	}
	runnable(t, s)
}

// runnable checks what the data plane takes for granted.
func runnable(t *testing.T, s *Snapshot) {
	for i, r := range s.Routes {
		actions := 0
		for _, set := range []bool{r.Forward != nil, r.Redirect != nil, r.Respond != nil} {
			if set {
				actions++
			}
		}
		if actions != 1 || r.Index != i {
			t.Fatalf("route %d: %+v", i, r)
		}
		for _, b := range forwardOf(r).Backends {
			if b.Cluster == nil || r.Forward.TotalWeight <= 0 {
				t.Fatalf("route %d: %+v", i, r.Forward)
			}
		}
	}
	for _, l := range s.Listeners {
		if l.Address == "" || l.Network == "" || l.Table == nil {
			t.Fatalf("listener %+v", l)
		}
	}
}

func FuzzCompile(f *testing.F) {
	reference, err := os.ReadFile("testdata/reference.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{string(reference), base, small, explained} {
		data, err := proto.Marshal(read(f, text))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := &configv1.Snapshot{}
		if proto.Unmarshal(data, in) == nil {
			whole(t, in)
		}
	})
}

func FuzzCompileYAML(f *testing.F) {
	for _, test := range violationTests {
		f.Add(base + test.yaml)
		f.Add(test.yaml)
	}
	f.Fuzz(func(t *testing.T, text string) {
		// protoyaml counts newlines only, and panics on a fault past another kind of break.
		if strings.ContainsAny(text, "\r\u0085\u2028\u2029") || !utf8.ValidString(text) {
			t.Skip()
		}
		in := &configv1.Snapshot{}
		if protoyaml.Unmarshal([]byte(text), in) == nil {
			whole(t, in)
		}
	})
}

// Go code can make messages that the wire cannot carry.
func TestNils(t *testing.T) {
	Compile(nil)
	whole(t, &configv1.Snapshot{
		Listeners: []*configv1.Listener{nil},
		Clusters:  []*configv1.Cluster{nil, {Name: "c", Endpoints: []*configv1.Endpoint{nil}, Protocol: &configv1.Cluster_Http1{}}},
		Routes: []*configv1.Route{
			nil,
			{Name: "r", Matches: []*configv1.Match{nil, {Path: &configv1.PathMatch{Kind: &configv1.PathMatch_Exact{}}, Headers: []*configv1.HeaderMatch{nil}, QueryParams: []*configv1.QueryParamMatch{nil}}}, Action: &configv1.Route_Forward{}},
			{Name: "s", Action: &configv1.Route_Forward{Forward: &configv1.Forward{Backends: []*configv1.Backend{nil}, Rewrite: &configv1.Rewrite{Path: &configv1.Rewrite_Regex{}}}}},
			{Name: "t", Action: &configv1.Route_Redirect{}},
			{Name: "u", Action: &configv1.Route_Respond{}, RequestHeaders: &configv1.HeaderOperations{Set: []*configv1.Header{nil}}},
		},
		Tiers:     []*configv1.Tier{nil},
		Telemetry: &configv1.Telemetry{},
		Version:   "\xff",
	})
}
