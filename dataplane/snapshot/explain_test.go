package snapshot

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

const explained = `
version: v1
listeners: [{name: web, address: ":80", trustedProxies: [10.0.0.0/8]}, {name: other, address: ":81"}]
clusters: [{name: users}, {name: users-v2}]
routes:
- name: users
  listeners: [web]
  hosts: [api.example.com]
  matches: [{path: {prefix: /v1}, methods: [GET]}]
  forward:
    backends: [{cluster: users, weight: 3}, {cluster: users-v2}]
    rewrite: {prefix: /, host: users.internal}
  requestHeaders: {set: [{name: x-env, value: prod}], add: [{name: x-via, value: gate}], remove: [x-internal]}
- {name: home, matches: [{path: {exact: /home}}], redirect: {status: 301, scheme: https}}
- {name: ping, matches: [{path: {exact: /ping}}], respond: {body: pong}}
`

// explain gives the answer without its candidates.
func explain(t *testing.T, request string) *controlv1.Explanation {
	t.Helper()
	s := mustCompile(t, nil, read(t, explained))
	in := &controlv1.ExplainRequest{}
	if err := protojson.Unmarshal([]byte(request), in); err != nil {
		t.Fatal(err)
	}
	out, err := Explain(s, in)
	if err != nil {
		t.Fatal(err)
	}
	return out.GetExplanation()
}

func TestExplain(t *testing.T) {
	for _, test := range []struct{ name, request, want string }{
		{
			"forward",
			`{"request": {"host": "API.example.com:8080", "path": "/x/../v1//a%2fb?q=1", "sourceAddress": "192.0.2.1", "headers": [{"name": "Connection", "value": "X-A"}, {"name": "X-A", "value": "1"}]}}`,
			`{"route": "users", "matchIndex": 0, "normalizedHost": "api.example.com", "normalizedPath": "/v1/a%2fb", "routeCount": 3, "snapshotVersion": "v1",
			  "action": {"forward": {"backends": [{"cluster": "users", "weight": 3, "share": 0.75}, {"cluster": "users-v2", "weight": 1, "share": 0.25}],
			    "path": "/a%2fb?q=1", "host": "users.internal", "removedHeaders": ["x-internal", "connection", "x-a"],
			    "headers": [{"name": "X-Forwarded-For", "value": "192.0.2.1"}, {"name": "X-Forwarded-Proto", "value": "http"}, {"name": "X-Forwarded-Host", "value": "API.example.com:8080"},
			      {"name": "x-env", "value": "prod"}, {"name": "x-via", "value": "gate"}]}}}`,
		},
		{
			"redirect",
			`{"request": {"host": "a.example.com:80", "path": "/home?x", "listener": "other"}}`,
			`{"listener": "other", "route": "home", "routeIndex": 1, "matchIndex": 0, "normalizedHost": "a.example.com", "normalizedPath": "/home", "routeCount": 3, "snapshotVersion": "v1",
			  "action": {"redirect": {"status": 301, "location": "https://a.example.com/home?x"}}}`,
		},
		{
			"respond",
			`{"request": {"path": "/ping"}}`,
			`{"route": "ping", "routeIndex": 2, "matchIndex": 0, "normalizedPath": "/ping", "routeCount": 3, "snapshotVersion": "v1", "action": {"respond": {"status": 200, "bodyBytes": 4}}}`,
		},
		{
			"nothing",
			`{"request": {"path": "/v1", "host": "api.example.com", "method": "POST"}}`,
			`{"normalizedHost": "api.example.com", "normalizedPath": "/v1", "routeCount": 3, "snapshotVersion": "v1"}`,
		},
		{
			"refused",
			`{"request": {"path": "/%00"}}`,
			`{"routeCount": 3, "snapshotVersion": "v1", "refusal": "400: path: escaped control byte"}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, want := explain(t, test.request), &controlv1.Explanation{}
			if err := protojson.Unmarshal([]byte(test.want), want); err != nil {
				t.Fatal(err)
			}
			if want.Listener == "" {
				want.Listener = "web" // the first
			}
			got.Candidates = nil
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("explanation (-want +got):\n%s", diff)
			}
		})
	}
}

// Those that lost are told with their reason.
func TestExplainCandidates(t *testing.T) {
	got := explain(t, `{"request": {"path": "/v1", "host": "api.example.com", "method": "POST"}, "maxCandidates": 1}`)
	if len(got.Candidates) != 1 || got.Candidates[0].Route != "users" || got.Candidates[0].Verdict != controlv1.Verdict_VERDICT_NOT_MATCHED || got.Candidates[0].Reason == "" {
		t.Error(got.Candidates)
	}
	won := explain(t, `{"request": {"path": "/ping"}}`).Candidates[0]
	if won.Route != "ping" || won.Verdict != controlv1.Verdict_VERDICT_CHOSEN {
		t.Error(won)
	}
}

func TestExplainErrors(t *testing.T) {
	s := mustCompile(t, nil, read(t, explained))
	ask := func(d *controlv1.RequestDescription) error {
		_, err := Explain(s, &controlv1.ExplainRequest{Request: d})
		return err
	}
	if err := ask(&controlv1.RequestDescription{Listener: "wbe"}); err == nil || err.Error() != `no listener is named "wbe": did you mean "web"?` {
		t.Error(err)
	}
	if err := ask(&controlv1.RequestDescription{SourceAddress: "nowhere"}); err == nil {
		t.Error("an address that is none")
	}
	if _, err := Explain(nil, nil); err == nil {
		t.Error("nothing to ask")
	}
	if _, err := Explain(&Snapshot{}, nil); err == nil {
		t.Error("no listener to ask")
	}
}

// A candidate is asked instead, and refused as it would be if it were applied.
func TestExplainCandidate(t *testing.T) {
	candidate := read(t, explained)
	candidate.Routes[2].Name = "pong"
	in := &controlv1.ExplainRequest{Candidate: candidate, Request: &controlv1.RequestDescription{Path: "/ping"}}
	out, err := Explain(nil, in)
	if err != nil || out.GetExplanation().GetRoute() != "pong" {
		t.Error(out, err)
	}
	candidate.Routes[1].Name, candidate.Routes[0].Name = "pong", "pong"
	var invalid *InvalidError
	if _, err := Explain(nil, in); !errors.As(err, &invalid) || len(invalid.Violations) != 2 {
		t.Error(err)
	}
	if err := invalid.Error(); err != `routes[1].name: "pong" is the name of routes[0] too (and 1 more)` {
		t.Error(err)
	}
}

func TestExplainPicksTheListener(t *testing.T) {
	in := &configv1.Snapshot{
		Listeners: []*configv1.Listener{{Name: "a", Address: "127.0.0.1:8090"}, {Name: "b", Address: ":8091"}, {Name: "c", Address: "unix:/run/c"}},
		Routes:    []*configv1.Route{{Name: "r", Action: &configv1.Route_Respond{Respond: &configv1.Respond{Status: 200}}}},
	}
	s, violations := Compile(in)
	if s == nil {
		t.Fatal(violations)
	}
	for _, test := range []struct{ name, host, want string }{
		{"", "", "a"},
		{"", "x", "a"},
		{"", "x:8091", "b"},
		{"", "[::1]:8091", "b"},
		{"", "x:1", "a"},
		{"c", "x:8091", "c"},
	} {
		answer, err := Explain(s, &controlv1.ExplainRequest{Request: &controlv1.RequestDescription{Listener: test.name, Host: test.host, Path: "/"}})
		if err != nil || answer.Explanation.Listener != test.want {
			t.Errorf("listener %q, host %q: asked %q, not %q (%v)", test.name, test.host, answer.GetExplanation().GetListener(), test.want, err)
		}
	}
}
