package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// named is a backend that answers with its number.
func named(t *testing.T, n int) string {
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, n) }))
}

// twins is a manifest of one cluster with three backends and some settings.
func twins(t *testing.T, settings string) string {
	return manifest(
		fmt.Sprintf(`clusters: [{name: c, endpoints: [{address: "%s"}, {address: "%s"}, {address: "%s"}], %s}]`, named(t, 1), named(t, 2), named(t, 3), settings),
		`routes: [{name: all, forward: {backends: [{cluster: c}]}}]`)
}

// ask sends a request with fields and returns the answer and its body.
func ask(t *testing.T, g *gate, path string, fields http.Header) (*http.Response, string) {
	t.Helper()
	v := visit(t, g)
	request, err := http.NewRequest(http.MethodGet, v.base+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = fields
	resp, err := v.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(whole(t, resp))
}

func TestAffinity(t *testing.T) {
	config := twins(t, `sessionAffinity: {cookie: {name: hg, ttl: 1h}}`)
	g := start(t, config)
	resp, first := ask(t, g, "/", nil)
	cookies := resp.Cookies()
	if len(cookies) != 1 || cookies[0].Name != "hg" || cookies[0].MaxAge != 3600 || cookies[0].Path != "/" || !cookies[0].HttpOnly {
		t.Fatalf("cookies: %v", cookies)
	}
	bound := http.Header{"Cookie": {"other=1; " + cookies[0].Name + "=" + cookies[0].Value}}
	for i := range 10 {
		if i == 5 {
			g.apply(strings.Replace(config, "version: test", "version: another", 1))
		}
		resp, name := ask(t, g, "/", bound)
		if name != first || len(resp.Cookies()) != 0 {
			t.Errorf("request %d with the cookie of %s went to %s; it set %v", i, first, name, resp.Cookies())
		}
	}
	seen := map[string]bool{}
	for range 3 {
		_, name := ask(t, g, "/", http.Header{"Cookie": {"hg=nonsense"}})
		seen[name] = true
	}
	if len(seen) != 3 {
		t.Errorf("a cookie that means nothing led to %v alone", seen)
	}
}

func TestConsistentHash(t *testing.T) {
	for _, test := range []struct {
		policy string
		ask    func(g *gate, value int) string
	}{
		{"header: X-User", func(g *gate, value int) string {
			_, name := ask(t, g, "/", http.Header{"X-User": {fmt.Sprint(value)}})
			return name
		}},
		{"cookie: user", func(g *gate, value int) string {
			_, name := ask(t, g, "/", http.Header{"Cookie": {fmt.Sprintf("a=b; user=%d", value)}})
			return name
		}},
		{"queryParam: u", func(g *gate, value int) string {
			_, name := ask(t, g, fmt.Sprintf("/?v=1&u=%d", value), nil)
			return name
		}},
		{"path: {}", func(g *gate, value int) string {
			_, name := ask(t, g, fmt.Sprintf("/%d", value), nil)
			return name
		}},
	} {
		t.Run(test.policy, func(t *testing.T) {
			g := start(t, twins(t, "loadBalancing: {consistentHash: {"+test.policy+"}}"))
			seen := map[string]bool{}
			for value := range 20 {
				first := test.ask(g, value)
				seen[first] = true
				for range 3 {
					if again := test.ask(g, value); again != first {
						t.Errorf("%d went to %s, then to %s", value, first, again)
					}
				}
			}
			if len(seen) != 3 {
				t.Errorf("all values went to %v", seen)
			}
		})
	}
}
