package route

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/headgate/headgate/dataplane/message"
)

// The shapes of large tables, by the number of routes.
var shapes = []struct {
	name  string
	build func(n int) []Route
	ask   func(n int) (host, path string) // meets the last route
}{
	{"Hosts", numbered(func(i int) Route { return Route{Hosts: []string{fmt.Sprintf("h%d.example.com", i)}} }),
		func(n int) (string, string) { return fmt.Sprintf("h%d.example.com", n-1), "/v1/users" }},
	{"Wildcards", numbered(func(i int) Route { return Route{Hosts: []string{fmt.Sprintf("*.h%d.example.com", i)}} }),
		func(n int) (string, string) { return fmt.Sprintf("a.b.h%d.example.com", n-1), "/v1/users" }},
	{"Prefixes", numbered(func(i int) Route { return path(PathPrefix, fmt.Sprintf("/v1/p%d", i)) }),
		func(n int) (string, string) { return "example.com", fmt.Sprintf("/v1/p%d/x", n-1) }},
	{"Exact", numbered(func(i int) Route { return path(PathExact, fmt.Sprintf("/v1/p%d", i)) }),
		func(n int) (string, string) { return "example.com", fmt.Sprintf("/v1/p%d", n-1) }},
	{"Priorities", numbered(func(i int) Route {
		r := path(PathPrefix, fmt.Sprintf("/v1/p%d", i))
		r.Priority = i
		return r
	}), func(n int) (string, string) { return "example.com", fmt.Sprintf("/v1/p%d/x", n-1) }},
	{"Deep", numbered(func(i int) Route {
		return path(PathPrefix, fmt.Sprintf("%s/p%d", strings.Repeat("/e", 29), i))
	}), func(n int) (string, string) {
		return "example.com", fmt.Sprintf("%s/p%d/x", strings.Repeat("/e", 29), n-1)
	}},
}

func numbered(route func(i int) Route) func(n int) []Route {
	return func(n int) []Route {
		routes := make([]Route, n)
		for i := range routes {
			routes[i] = route(i)
		}
		return routes
	}
}

func path(kind PathKind, value string) Route {
	return Route{Matches: []Match{{Path: Path{Kind: kind, Value: value}}}}
}

func mustNew(t testing.TB, routes []Route) *Table {
	t.Helper()
	table, faults := New(routes, nil)
	if len(faults) > 0 {
		t.Fatalf("faults: %v", faults[:min(3, len(faults))])
	}
	return table
}

// TestStepsDoNotGrow counts map lookups and matches tried, not time.
func TestStepsDoNotGrow(t *testing.T) {
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			few, many := steps(t, shape.build(10), shape.ask, 10), steps(t, shape.build(10_000), shape.ask, 10_000)
			if few != many {
				t.Errorf("%d steps with 10 routes, %d with 10,000", few, many)
			}
		})
	}
}

func steps(t *testing.T, routes []Route, ask func(int) (string, string), n int) int {
	table := mustNew(t, routes)
	host, path := ask(n)
	req := &message.Request{Method: message.MethodGet, Host: []byte(host)}
	got, ok := table.Match(req, []byte(path), netip.Addr{})
	if !ok || got.Route != n-1 {
		t.Fatalf("%s%s: got %+v %v", host, path, got, ok)
	}
	return table.Explain(req, []byte(path), netip.Addr{}).Steps
}

// TestStepsBounded holds what a client can make a lookup cost to what the table
// has, whatever it sends.
func TestStepsBounded(t *testing.T) {
	table := mustNew(t, []Route{
		{Hosts: []string{"*.example.com"}, Matches: []Match{{Path: Path{PathPrefix, "/a/b"}}}},
		{Matches: []Match{{Path: Path{PathPrefix, "/a/a/a"}}}},
	})
	tests := []struct{ name, host, path string }{
		{"many labels", strings.Repeat("a.", 120) + "com", "/"},
		{"many elements", "a.example.com", strings.Repeat("/a", 4000)},
		{"many slashes", "a.example.com", strings.Repeat("/", 8000)},
		{"long host", strings.Repeat("a", 8000) + ".example.com", "/a/b"},
	}
	for _, test := range tests {
		req := &message.Request{Method: message.MethodGet, Host: []byte(test.host)}
		if n := table.Explain(req, []byte(test.path), netip.Addr{}).Steps; n > 14 {
			t.Errorf("%s: %d steps", test.name, n)
		}
	}
}

func TestMatchDoesNotAllocate(t *testing.T) {
	routes := newRoutes(t, strings.Split(`api host=api.example.com,*.example.com priority=1
  prefix=/v1/users methods=GET,PURGE header:x-a=1 header:x-b~^b+$ header:accept=a,+b query:v=2 query:w~^3$ source=10.0.0.0/8
  regex=^/v2/([a-z]+)/(\d+)$
  regex=(?i)\.php$
many host=*.other.com
  any source=10.0.0.0/8,10.1.0.0/16,10.2.0.0/16,10.3.0.0/16,10.4.0.0/16,10.5.0.0/16,10.6.0.0/16,10.7.0.0/16,10.8.0.0/16`, "\n"))
	table := mustNew(t, routes)
	for _, line := range []string{
		"GET API.example.com/v1/users/7?x=1&v=%32&w=3 x-a:1 X-B:bbb accept:a accept:b from=::ffff:10.1.1.1",
		"PURGE a.b.example.com/v1/users?v=2&w=3 x-a:0 x-a:1 x-b:b accept:a,+b from=10.1.1.1",
		"GET api.example.com/v2/users/17 from=10.1.1.1",
		"GET api.example.com/index.PHP from=10.1.1.1",
		"GET a.other.com/ from=10.9.1.1",
		"GET nowhere.org/",
	} {
		req, path, source := newRequest(t, line)
		_, found := table.Match(req, path, source)
		if want := !strings.Contains(line, "nowhere"); found != want {
			t.Errorf("%s: found is %v", line, found)
		}
		if n := testing.AllocsPerRun(100, func() { table.Match(req, path, source) }); n != 0 {
			t.Errorf("%s: %v allocations", line, n)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	for _, shape := range shapes {
		b.Run("10000"+shape.name, func(b *testing.B) {
			table := mustNew(b, shape.build(10_000))
			host, path := shape.ask(10_000)
			benchmarkMatch(b, table, host, path)
		})
	}
	b.Run("HostileHost", func(b *testing.B) {
		table := mustNew(b, []Route{{Hosts: []string{"*." + strings.Repeat("a.", 100) + "com"}}})
		benchmarkMatch(b, table, strings.Repeat("b.", 120)+"com", "/")
	})
	b.Run("HostilePath", func(b *testing.B) {
		table := mustNew(b, shapes[5].build(10_000))
		benchmarkMatch(b, table, "example.com", strings.Repeat("/e", 4000))
	})
}

func benchmarkMatch(b *testing.B, table *Table, host, path string) {
	req := &message.Request{Method: message.MethodGet, Host: []byte(host)}
	raw := []byte(path)
	b.ReportAllocs()
	for b.Loop() {
		table.Match(req, raw, netip.Addr{})
	}
}

// BenchmarkRegexes is the one lookup whose cost grows: the last of many
// expressions under a host.
func BenchmarkRegexes(b *testing.B) {
	table := mustNew(b, numbered(func(i int) Route { return path(PathRegex, fmt.Sprintf("^/service%d/", i)) })(1000))
	benchmarkMatch(b, table, "example.com", "/service999/x")
}

func BenchmarkNew(b *testing.B) {
	for _, shape := range shapes {
		b.Run("10000"+shape.name, func(b *testing.B) {
			routes := shape.build(10_000)
			for b.Loop() {
				mustNew(b, routes)
			}
		})
	}
}

func BenchmarkShadowed(b *testing.B) {
	for _, shape := range shapes {
		b.Run("10000"+shape.name, func(b *testing.B) {
			table := mustNew(b, shape.build(10_000))
			for b.Loop() {
				table.Shadowed()
			}
		})
	}
}
