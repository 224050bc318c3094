package snapshot

import (
	"testing"

	"buf.build/go/protoyaml"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
)

// read is a configuration from YAML.
func read(tb testing.TB, text string) *configv1.Snapshot {
	tb.Helper()
	in := &configv1.Snapshot{}
	if err := protoyaml.Unmarshal([]byte(text), in); err != nil {
		tb.Fatal(err)
	}
	return in
}

const small = `
listeners:
  - {name: web, address: "127.0.0.1:8080"}
clusters:
  - name: users
    endpoints: [{address: "127.0.0.1:9001", weight: 3}, {address: "127.0.0.1:9002"}]
routes:
  - name: users
    matches: [{path: {prefix: /v1}}]
    forward: {backends: [{cluster: users}], rewrite: {prefix: /}}
`

func TestSmall(t *testing.T) {
	s, violations := Compile(read(t, small))
	for _, v := range violations {
		t.Error(v)
	}
	if s == nil {
		t.Fatal("refused")
	}
	if s.Routes[0].Forward.Backends[0].Cluster != s.Clusters[0] {
		t.Error("the backend is not the cluster")
	}
}
