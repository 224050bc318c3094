package route

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/headgate/headgate/dataplane/message"
)

func get(host string) *message.Request {
	return &message.Request{Method: message.MethodGet, Host: []byte(host)}
}

func TestNilTable(t *testing.T) {
	var table *Table
	if _, ok := table.Match(get("a.com"), []byte("/"), netip.Addr{}); ok {
		t.Error("a nil table matches")
	}
	if e := table.Explain(get("a.com"), []byte("/"), netip.Addr{}); e.Found || len(e.Candidates) > 0 {
		t.Errorf("a nil table explains %+v", e)
	}
	if s := table.Shadowed(); s != nil {
		t.Errorf("a nil table shadows %v", s)
	}
}

// TestTake: a listener has some of the routes; results count all of them, and
// faults of the others are not its own.
func TestTake(t *testing.T) {
	routes := []Route{path(PathExact, "/"), path(PathRegex, "("), path(PathPrefix, "/")}
	table, faults := New(routes, func(i int) bool { return i == 2 })
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	if got, ok := table.Match(get(""), []byte("/"), netip.Addr{}); !ok || got.Route != 2 {
		t.Errorf("got %+v %v", got, ok)
	}
	table, faults = New(routes, nil)
	if len(faults) != 1 || faults[0].Route != 1 || faults[0].Match != 0 || faults[0].Field != "matches[0].path.regex" || table != nil {
		t.Errorf("table %v, faults %v", table, faults)
	}
}

// TestRouteWithoutMatches takes everything, and its result names no match.
func TestRouteWithoutMatches(t *testing.T) {
	table := mustNew(t, []Route{{}})
	for _, p := range []string{"/", "/a/b", "*", ""} {
		if got, ok := table.Match(get("a.com"), []byte(p), netip.Addr{}); !ok || got != (Result{Route: 0, Match: -1}) {
			t.Errorf("%q: got %+v %v", p, got, ok)
		}
	}
}

func TestNoSuchKind(t *testing.T) {
	if _, faults := New([]Route{path(PathExact+1, "/")}, nil); len(faults) != 1 || faults[0].Field != "matches[0].path" {
		t.Errorf("faults %v", faults)
	}
}

func TestValueHasOneCondition(t *testing.T) {
	for _, v := range []Value{
		{Name: "a", Exact: "1", Regex: "1"},
		{Name: "a", Exact: "1", Present: true},
		{Name: "a", Regex: "1", Present: true},
	} {
		_, faults := New([]Route{{Matches: []Match{{Query: []Value{v}}}}}, nil)
		if len(faults) != 1 || faults[0].Field != "matches[0].queryParams[0]" {
			t.Errorf("%+v: faults %v", v, faults)
		}
	}
}

// TestManySources looks in the trie rather than the list.
func TestManySources(t *testing.T) {
	var sources []netip.Prefix
	for i := range 2 * few {
		sources = append(sources, netip.MustParsePrefix(fmt.Sprintf("::ffff:10.%d.0.0/112", i)), netip.MustParsePrefix(fmt.Sprintf("2001:db8:%d::/48", i)))
	}
	table := mustNew(t, []Route{{Matches: []Match{{Sources: sources}}}})
	tests := map[string]bool{
		"10.15.1.1": true, "::ffff:10.0.0.1": true, "10.16.0.1": false, "2001:db8:9::1": true, "2001:db8:99::1": false, "2001:db8:9::1%eth0": true,
	}
	for addr, want := range tests {
		if _, ok := table.Match(get(""), []byte("/"), netip.MustParseAddr(addr)); ok != want {
			t.Errorf("%s: found is %v", addr, ok)
		}
	}
	e := table.Explain(get(""), []byte("/"), netip.MustParseAddr("192.0.2.1"))
	if want := "client 192.0.2.1 is not in 10.0.0.0/16, 2001:db8::/48, 10.1.0.0/16, 2001:db8:1::/48 or 28 more"; e.Candidates[0].Reason != want {
		t.Errorf("reason %q", e.Candidates[0].Reason)
	}
}

// TestExplainBounds: the winner is listed even when it is far down, what is
// left out is counted.
func TestExplainBounds(t *testing.T) {
	const n = 3000
	routes := numbered(func(i int) Route {
		r := path(PathRegex, fmt.Sprintf("^/%d$", i))
		r.Hosts = []string{"a.com"}
		return r
	})(n)
	routes = append(routes, numbered(func(i int) Route { return Route{Hosts: []string{fmt.Sprintf("h%d.com", i)}} })(n)...)
	table := mustNew(t, routes)
	e := table.Explain(get("a.com"), []byte("/2500"), netip.Addr{})
	if !e.Found || e.Winner.Route != 2500 {
		t.Fatalf("winner %+v %v", e.Winner, e.Found)
	}
	listed, left := maxCandidates+1, n-maxCandidates-1
	if len(e.Candidates) != listed+maxOtherHosts || e.LeftOut != left || e.OtherHosts != n-maxOtherHosts {
		t.Errorf("%d candidates, %d left out, %d of other hosts", len(e.Candidates), e.LeftOut, e.OtherHosts)
	}
	if c := e.Candidates[listed-1]; c.Verdict != Won || c.Route != 2500 {
		t.Errorf("last of the host: %+v", c)
	}
	long := table.Explain(get("b.com"), []byte("/"+strings.Repeat("x", 5000)), netip.Addr{})
	for _, c := range append(long.Candidates, e.Candidates...) {
		if len(c.Reason) > 300 {
			t.Fatalf("a reason of %d bytes", len(c.Reason))
		}
	}
}

// TestManyChildren: a node keeps its children when they become many.
func TestManyChildren(t *testing.T) {
	for n := range 3 * fewChildren {
		table := mustNew(t, numbered(func(i int) Route { return path(PathPrefix, fmt.Sprintf("/%d/x", i)) })(n))
		for i := range n {
			p := fmt.Sprintf("/%d/x", i)
			if got, ok := table.Match(get(""), []byte(p), netip.Addr{}); !ok || got != (Result{Route: i, PrefixLen: len(p)}) {
				t.Errorf("%d children, %s: got %+v %v", n, p, got, ok)
			}
		}
	}
}

// TestHostLength: a wildcard takes any name that can be one, and no more.
func TestHostLength(t *testing.T) {
	table := mustNew(t, []Route{{Hosts: []string{"*.example.com"}}})
	for n, want := range map[int]bool{1: true, maxHost - len(".example.com"): true, maxHost: false, 9000: false} {
		if _, ok := table.Match(get(strings.Repeat("a", n)+".example.com"), []byte("/"), netip.Addr{}); ok != want {
			t.Errorf("%d bytes before the suffix: found is %v", n, ok)
		}
	}
}

func TestAnchoredLiteral(t *testing.T) {
	tests := map[string]string{
		`^/a/b`: "/a/b", `^/a/(\d+)$`: "/a/", `\A/a.*`: "/a", `^/a\.php$`: "/a.php", `^/ab?`: "/a", `^/é/`: "/é/",
		`/a`: "", `^/a|^/b`: "", `^/a|/b`: "", `(?i)^/a`: "", `(?m)^/a`: "", `^`: "", `.*`: "", `^(/a)`: "", "^/\uFFFDx": "/", `^(?:/a)*`: "",
	}
	for expr, want := range tests {
		if got := string(anchoredLiteral(expr)); got != want {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}
