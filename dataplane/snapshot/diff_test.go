package snapshot

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
)

// told writes changes down, one a line.
func told(changes []ResourceChange) string {
	var b strings.Builder
	for _, c := range changes {
		kind := strings.ToLower(strings.TrimPrefix(c.Kind.String(), "RESOURCE_KIND_"))
		fmt.Fprintf(&b, "%c %s %s", " +-~"[c.Change], kind, c.Name)
		if c.Moved {
			b.WriteString(" moved")
		}
		b.WriteByte('\n')
		for _, f := range c.Fields {
			fmt.Fprintf(&b, "    %v\n", f)
		}
	}
	return b.String()
}

func TestChanges(t *testing.T) {
	before := `
clusters:
- name: users
  endpoints: [{address: "10.0.0.1:80"}, {address: "10.0.0.2:80", weight: 1}, {address: "10.0.0.3:80"}]
  slowStart: 30s
- {name: gone}
routes:
- {name: a, hosts: [x, y], respond: {status: 200}}
- {name: b, respond: {}}
- {name: c, respond: {}}
`
	after := `
clusters:
- name: users
  endpoints: [{address: "10.0.0.0:80"}, {address: "10.0.0.1:80"}, {address: "10.0.0.2:80", weight: 3}, {address: "10.0.0.3:80"}]
  slowStart: 90s
- {name: new}
routes:
- {name: c, respond: {}}
- {name: a, hosts: [x, z], redirect: {path: /}, upgrades: []}
- {name: b, respond: {}}
telemetry: {recentRequests: 0}
`
	want := `~ cluster users
    endpoints[0].address: "10.0.0.1:80" -> "10.0.0.0:80"
    endpoints[1].address: "10.0.0.2:80" -> "10.0.0.1:80"
    endpoints[1].weight: 1 -> (unset)
    endpoints[2]: {"address":"10.0.0.2:80","weight":3}
    slowStart: 30s -> 1m30s
+ cluster new
- cluster gone
~ route c moved
~ route a
    hosts: ["x", "y"] -> ["x", "z"]
    redirect: {"path":"/"}
    respond: {"status":200} -> (unset)
    upgrades: []
+ telemetry ` + `
`
	if diff := cmp.Diff(want, told(Changes(read(t, before), read(t, after), true))); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

// There are changes if and only if the digests differ.
func TestChangesAreTheDigest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := &configv1.Snapshot{}
		for range rapid.IntRange(0, 6).Draw(t, "first") {
			edit(t, a)
		}
		b := proto.CloneOf(a)
		for range rapid.IntRange(0, 3).Draw(t, "second") {
			edit(t, b)
		}
		there, back := Changes(a, b, true), Changes(b, a, true)
		equal := Digest(a) == Digest(b)
		if (len(there) == 0) != equal || (len(back) == 0) != equal {
			t.Fatalf("%v and back %v, equal %v", there, back, equal)
		}
	})
}

// Lists in a message have a bound; counts have none.
func TestDiffIsBounded(t *testing.T) {
	d := Diff(nil, large(1500))
	if len(d.Added) != maxChanges || d.AddedCount != 3001 || len(d.Changed)+len(d.Removed) != 0 {
		t.Error(len(d.Added), d.AddedCount)
	}
	s := mustCompile(t, nil, large(2))
	if d := s.DiffFrom(nil); d.AddedCount != 5 {
		t.Error(d)
	}
	if d := s.DiffFrom(s); !proto.Equal(d, Diff(nil, nil)) {
		t.Error(d)
	}
}

func secretConfig(key string) *configv1.Snapshot {
	return &configv1.Snapshot{Certificates: []*configv1.Certificate{{
		Name:       "site",
		PrivateKey: &configv1.Certificate_PrivateKeyPem{PrivateKeyPem: key},
	}}}
}

func TestRedact(t *testing.T) {
	in := secretConfig("very secret")
	out := Redact(in)
	if out.Certificates[0].GetPrivateKeyPem() != Redacted || in.Certificates[0].GetPrivateKeyPem() != "very secret" {
		t.Error(out, in)
	}
	plain := &configv1.Snapshot{Listeners: []*configv1.Listener{{Name: "l"}}}
	if Redact(plain) != plain || Redact(nil) != nil {
		t.Error("copied without need")
	}
}

// Differences do not tell secrets either.
func TestChangesKeepSecrets(t *testing.T) {
	got := told(Changes(secretConfig("very secret"), secretConfig("also secret"), true))
	if want := "~ certificate site\n    privateKeyPem: [redacted] -> [redacted]\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := told(Changes(nil, secretConfig("very secret"), true)); strings.Contains(got, "secret") {
		t.Error(got)
	}
}

func TestShrinks(t *testing.T) {
	for _, test := range []struct {
		before, after int
		want          string
	}{
		{20, 9, "it drops 11 of 20 routes and 22 of 40 endpoints"},
		{20, 10, ""},
		{19, 10, ""},
		{10, 4, "it drops 12 of 20 endpoints"},
		{9, 0, ""},
	} {
		shrinks, text := Shrinks(mustCompile(t, nil, large(test.before)), mustCompile(t, nil, large(test.after)))
		if text != test.want || shrinks != (test.want != "") {
			t.Errorf("%d to %d: %v %q", test.before, test.after, shrinks, text)
		}
	}
	if shrinks, _ := Shrinks(nil, &Snapshot{}); shrinks {
		t.Error("the first one shrinks")
	}
}
