package snapshot

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/dataplane/message"
)

func TestRewritePrefix(t *testing.T) {
	for _, test := range []struct{ match, prefix, path, want string }{
		{"/v1", "/", "/v1", "/"},
		{"/v1", "/", "/v1/", "/"},
		{"/v1", "/", "/v1/x", "/x"},
		{"/v1", "/api", "/v1", "/api"},
		{"/v1", "/api", "/v1/x", "/api/x"},
		{"/v1", "/api/", "/v1", "/api/"},
		{"/v1", "/api/", "/v1/x", "/api/x"},
		{"/v1/", "/api", "/v1/x", "/api/x"},
		{"/v1/", "/", "/v1/x/y/", "/x/y/"},
		{"/", "/api", "/", "/api"},
		{"/", "/api", "/x", "/api/x"},
		{"/v1", "/v1", "/v1//x", "/v1//x"},
	} {
		r := Rewrite{HasPrefix: true, Prefix: test.prefix}
		if got := string(r.Apply(nil, []byte(test.path), len(test.match))); got != test.want {
			t.Errorf("%s for %s in %s: %s, want %s", test.prefix, test.match, test.path, got, test.want)
		}
	}
}

func TestRewriteRegex(t *testing.T) {
	for _, test := range []struct{ pattern, replacement, path, want string }{
		{`^/soundpodcast/`, `/`, "/soundpodcast/a/b", "/a/b"},
		{`^/v1/(\w+)/(\d+)$`, `/$2/$1`, "/v1/users/7", "/7/users"},
		{`^/v1/(\w+)/(\d+)$`, `/$2/$1`, "/v2/users/7", "/v2/users/7"}, // no match: kept
		{`/a`, `/b`, "/a/a", "/b/a"},                                  // the first match only
		{`^/(.)(.)(.)(.)(.)(.)(.)(.)(.)$`, `/$9$8$7$6$5$4$3$2$1`, "/abcdefghi", "/ihgfedcba"},
		{`^/(\w+)$`, `/$1x`, "/a", "/ax"}, // not the group "1x"
		{`^/(\w+)$`, `/$12`, "/a", "/a2"}, // not the group 12
		{`^/(\w+)$`, `/$$1`, "/a", "/$1"},
		{`^/(\w+)$`, `$0$0`, "/a", "/a/a"},
		{`^/(a)|(b)$`, `/x$2`, "/a", "/x"}, // a group that took no part
		{`^/a`, ``, "/a", "/"},             // never empty
		{`^/`, ``, "/a", "/a"},             // always from the root
		{`/-/`, `/`, "/.-/./x", "/.-/./x"}, // no match
		{`x`, ``, "/a/.x./b", "/b"},        // dots that come together
		{`^/(%2)F`, `/$1`, "/%2F", "/%2"},  // half of an escape is left as it is
	} {
		r := Rewrite{Regex: regexp.MustCompile(test.pattern), Replacement: test.replacement}
		if got := string(r.Apply(nil, []byte(test.path), 0)); got != test.want {
			t.Errorf("%s -> %s in %s: %s, want %s", test.pattern, test.replacement, test.path, got, test.want)
		}
	}
}

// Whatever is rewritten is a path, and what was in dst stays.
func TestRewriteIsRooted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[/.a$%2F]{0,6}`)
		path := "/" + text.Draw(t, "path")
		r := Rewrite{HasPrefix: rapid.Bool().Draw(t, "prefix"), Prefix: "/" + text.Draw(t, "new")}
		if !r.HasPrefix {
			r = Rewrite{Regex: regexp.MustCompile(rapid.SampledFrom([]string{"/", ".", "a*", "(.)(.*)", "^", "$"}).Draw(t, "pattern")), Replacement: text.Draw(t, "replacement")}
		}
		got := string(r.Apply([]byte("kept"), []byte(path), rapid.IntRange(0, len(path)+1).Draw(t, "matched")))
		if !strings.HasPrefix(got, "kept/") {
			t.Fatalf("%q", got)
		}
	})
}

// A prefix is put into a buffer that is there.
func TestRewriteAllocates(t *testing.T) {
	r := Rewrite{HasPrefix: true, Prefix: "/api"}
	path, buf := []byte("/v1/users/7"), make([]byte, 0, 64)
	if n := testing.AllocsPerRun(100, func() { buf = r.Apply(buf[:0], path, 3) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestLocation(t *testing.T) {
	for _, test := range []struct {
		name     string
		redirect Redirect
		host     string
		want     string
	}{
		{"path", Redirect{Path: "/new"}, "a.example.com:8080", "/new"},
		{"path with a query", Redirect{Path: "/new?y=2"}, "a.example.com:8080", "/new?y=2"},
		{"host", Redirect{Host: "b.example.com"}, "a.example.com:8080", "http://b.example.com:8080/old?x=1"},
		{"scheme", Redirect{Scheme: "https"}, "a.example.com:8080", "https://a.example.com/old?x=1"},
		{"scheme and port", Redirect{Scheme: "https", Port: 8443}, "a.example.com:8080", "https://a.example.com:8443/old?x=1"},
		{"the scheme's own port", Redirect{Port: 80}, "a.example.com:8080", "http://a.example.com/old?x=1"},
		{"IPv6", Redirect{Scheme: "https"}, "[::1]:8080", "https://[::1]/old?x=1"},
		{"all", Redirect{Scheme: "https", Host: "b", Port: 1, Path: "/"}, "", "https://b:1/"},
		{"no host to name", Redirect{Scheme: "https"}, "", "/old?x=1"},
	} {
		req := message.Request{Authority: []byte(test.host), Host: []byte(withoutPort(test.host)), Query: []byte("x=1"), HasQuery: true}
		if got := string(test.redirect.Location(nil, &req, []byte("/old"))); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// A path that begins with two slashes is not taken for a host.
func TestLocationIsNoAuthority(t *testing.T) {
	r := Redirect{Status: 302}
	if got := string(r.Location(nil, &message.Request{}, []byte("//evil.example/x"))); got != "/.//evil.example/x" {
		t.Error(got)
	}
}
