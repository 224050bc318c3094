package route

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/dataplane/message"
)

// The reference decides by looking at everything: it lists every pair of a host
// and a match, sorts them by precedence and takes the first that fits. It
// shares no code with the table.

type pair struct {
	host         string // pattern; "" is any
	route, match int    // match is -1 where the route has none
	r            *Route
	m            Match
}

func allPairs(routes []Route) []pair {
	var pairs []pair
	for i := range routes {
		hosts := routes[i].Hosts
		if len(hosts) == 0 {
			hosts = []string{""}
		}
		for _, h := range hosts {
			if len(routes[i].Matches) == 0 {
				pairs = append(pairs, pair{host: h, route: i, match: -1, r: &routes[i]})
			}
			for j, m := range routes[i].Matches {
				pairs = append(pairs, pair{host: h, route: i, match: j, r: &routes[i], m: m})
			}
		}
	}
	sort.SliceStable(pairs, func(i, j int) bool { return slices.Compare(pairs[i].key(), pairs[j].key()) < 0 })
	return pairs
}

// key is smaller for what comes first.
func (p *pair) key() []int {
	hostKind := 2
	switch {
	case strings.HasPrefix(p.host, "*."):
		hostKind = 1
	case p.host != "":
		hostKind = 0
	}
	elements := 0
	if p.m.Path.Kind == PathPrefix {
		for e := range strings.SplitSeq(p.m.Path.Value, "/") {
			if e != "" {
				elements++
			}
		}
	}
	return []int{
		hostKind, -strings.Count(p.host, "."), -p.r.Priority, -int(p.m.Path.Kind), -elements,
		boolInt(len(p.m.Methods) == 0), -len(p.m.Headers), -len(p.m.Query), boolInt(len(p.m.Sources) == 0), p.route, p.match,
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

type sample struct {
	host, method, path string
	headers            [][2]string
	query              string
	source             netip.Addr
}

func (s *sample) request() *message.Request {
	req := &message.Request{Method: methodIDs[s.method], MethodName: []byte(s.method), Host: []byte(s.host), Query: []byte(s.query)}
	if req.Method == message.MethodNone {
		req.Method = message.MethodOther
	}
	for _, h := range s.headers {
		req.Fields.Add([]byte(h[0]), []byte(h[1]))
	}
	return req
}

func (p *pair) fitsHost(s *sample) bool {
	host := strings.TrimSuffix(strings.ToLower(s.host), ".")
	if rest, ok := strings.CutPrefix(p.host, "*"); ok {
		return strings.HasSuffix(host, rest) && len(host) > len(rest)
	}
	return p.host == "" || p.host == host
}

func (p *pair) fits(s *sample) bool {
	return p.fitsPath(s.path) && (len(p.m.Methods) == 0 || slices.Contains(p.m.Methods, s.method)) &&
		p.fitsHeaders(s) && p.fitsQuery(s.query) && p.fitsSource(s.source)
}

func (p *pair) fitsPath(path string) bool {
	want := p.m.Path.Value
	switch p.m.Path.Kind {
	case PathExact:
		return path == want
	case PathPrefix:
		return strings.HasPrefix(path+"/", strings.TrimRight(want, "/")+"/") && strings.HasPrefix(path, "/")
	case PathRegex:
		return regexp.MustCompile(want).MatchString(path)
	}
	return true
}

func (p *pair) fitsHeaders(s *sample) bool {
	for _, v := range p.m.Headers {
		var lines []string
		for _, h := range s.headers {
			if strings.EqualFold(h[0], v.Name) {
				lines = append(lines, h[1])
			}
		}
		if !slices.ContainsFunc(lines, v.fits) && !(len(lines) > 1 && v.Regex == "" && v.fits(strings.Join(lines, ", "))) {
			return false
		}
	}
	return true
}

func (v Value) fits(s string) bool {
	switch {
	case v.Present:
		return true
	case v.Regex != "":
		return regexp.MustCompile(v.Regex).MatchString(s)
	}
	return s == v.Exact
}

func (p *pair) fitsQuery(query string) bool {
	values, _ := url.ParseQuery(query)
	for _, v := range p.m.Query {
		if !values.Has(v.Name) || !v.fits(values.Get(v.Name)) {
			return false
		}
	}
	return true
}

func (p *pair) fitsSource(addr netip.Addr) bool {
	return len(p.m.Sources) == 0 ||
		slices.ContainsFunc(p.m.Sources, func(prefix netip.Prefix) bool { return prefix.Contains(addr.Unmap()) })
}

// Alphabets are small, so that conditions meet requests often.
var (
	hostPatterns = []string{"a.x", "b.a.x", "c.b.a.x", "x", "*.x", "*.a.x", "*.b.a.x"}
	hosts        = []string{"", "x", "a.x", "A.X", "a.x.", "b.a.x", "c.b.a.x", "d.c.b.a.x", "z.x", "a.y", ".x", "xa.x"}
	prefixes     = []string{"/", "/a", "/a/", "/a/b", "/a/b/c", "/ab", "/b", "/a/a/a/a"}
	paths        = []string{"", "*", "/", "/a", "/a/", "/ab", "/a/b", "/a/b/", "/a/b/c", "/a/bc", "/b/c/d", "/a/a/a/a/a", "//", "/a//b"}
	expressions  = []string{"^/a", "^/a/b/", "a$", ".*", "^/(a|b)$", "(?i)^/A", "^/ab?", `^\*$`, "^/b", "b"}
	verbs        = []string{"GET", "HEAD", "POST", "PURGE", "MOVE"}
	headerNames  = []string{"x-a", "X-B", "accept", "Origin"}
	paramNames   = []string{"a", "b c"}
	valueTexts   = []string{"", "1", "2", "1, 2", "a b"}
	queryPieces  = []string{"a", "a=1", "a=2", "a=%31", "b+c=1", "b%20c=a+b", "a=1%2c%202", "", "z=1", "a="}
	sources      = []string{"10.0.0.0/8", "10.1.0.0/16", "::/0", "0.0.0.0/0", "2001:db8::/32"}
	addresses    = []string{"10.1.2.3", "10.2.0.1", "::ffff:10.1.0.1", "2001:db8::1", "192.0.2.1"}
)

func drawRoutes(t *rapid.T) []Route {
	return rapid.SliceOfN(rapid.Custom(drawRoute), 0, 12).Draw(t, "routes")
}

func drawRoute(t *rapid.T) Route {
	return Route{
		Hosts:    some(t, "hosts", hostPatterns, 2),
		Priority: rapid.SampledFrom([]int{0, 0, 0, 1, -1}).Draw(t, "priority"),
		Matches:  rapid.SliceOfN(rapid.Custom(drawMatch), 0, 3).Draw(t, "matches"),
	}
}

func drawMatch(t *rapid.T) Match {
	m := Match{
		Methods: some(t, "methods", verbs, 2),
		Headers: drawValues(t, headerNames),
		Query:   drawValues(t, paramNames),
	}
	for _, s := range some(t, "sources", sources, 2) {
		m.Sources = append(m.Sources, netip.MustParsePrefix(s))
	}
	m.Path.Kind = PathKind(rapid.IntRange(0, 3).Draw(t, "kind"))
	switch m.Path.Kind {
	case PathExact, PathPrefix:
		m.Path.Value = rapid.SampledFrom(prefixes).Draw(t, "path")
	case PathRegex:
		m.Path.Value = rapid.SampledFrom(expressions).Draw(t, "regex")
	}
	return m
}

func drawValues(t *rapid.T, names []string) []Value {
	var values []Value
	for _, name := range some(t, "values", names, 2) {
		v := Value{Name: name}
		switch rapid.IntRange(0, 2).Draw(t, "how") {
		case 0:
			v.Present = true
		case 1:
			v.Regex = rapid.SampledFrom([]string{"1", "^$", "^[0-9]$", " "}).Draw(t, "regex")
		default:
			v.Exact = rapid.SampledFrom(valueTexts).Draw(t, "exact")
		}
		values = append(values, v)
	}
	return values
}

// some draws few of a list, often none.
func some(t *rapid.T, what string, from []string, most int) []string {
	n := max(0, rapid.IntRange(-2, most).Draw(t, what))
	var out []string
	for range n {
		out = append(out, rapid.SampledFrom(from).Draw(t, what))
	}
	return out
}

func drawSample(t *rapid.T) sample {
	s := sample{
		host:   rapid.SampledFrom(hosts).Draw(t, "host"),
		method: rapid.SampledFrom(verbs).Draw(t, "method"),
		path:   rapid.SampledFrom(paths).Draw(t, "path"),
		query:  strings.Join(some(t, "query", queryPieces, 3), "&"),
		source: netip.MustParseAddr(rapid.SampledFrom(addresses).Draw(t, "source")),
	}
	for _, name := range some(t, "headers", append(headerNames, "ACCEPT", "X-A"), 4) {
		s.headers = append(s.headers, [2]string{name, rapid.SampledFrom(valueTexts).Draw(t, "value")})
	}
	return s
}

// TestReference compares Match, Explain and Shadowed with the reference.
func TestReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		routes := drawRoutes(t)
		table, faults := New(routes, nil)
		if len(faults) > 0 {
			t.Fatalf("faults: %v", faults)
		}
		pairs := allPairs(routes)
		shadows := table.Shadowed()
		for range 20 {
			s := drawSample(t)
			want := judge(pairs, &s)
			compareMatch(t, table, &s, want)
			compareExplain(t, table, &s, want)
			if len(want) > 0 {
				compareShadows(t, shadows, &s, want)
			}
		}
	})
}

type judged struct {
	pair
	verdict Verdict
}

// judge lists the pairs whose host fits in order, each match once.
func judge(pairs []pair, s *sample) []judged {
	var out []judged
	seen := make(map[[2]int]bool)
	won := false
	for _, p := range pairs {
		id := [2]int{p.route, p.match}
		if !p.fitsHost(s) || seen[id] {
			continue
		}
		seen[id] = true
		j := judged{pair: p}
		if p.fits(s) {
			j.verdict = Shadowed
			if !won {
				j.verdict, won = Won, true
			}
		}
		out = append(out, j)
	}
	return out
}

func compareMatch(t *rapid.T, table *Table, s *sample, want []judged) {
	got, ok := table.Match(s.request(), []byte(s.path), s.source)
	i := slices.IndexFunc(want, func(j judged) bool { return j.verdict == Won })
	if ok != (i >= 0) {
		t.Fatalf("%+v: found is %v", *s, ok)
	}
	if !ok {
		return
	}
	if w := want[i]; got.Route != w.route || got.Match != w.match {
		t.Fatalf("%+v: got %+v, want %d %d", *s, got, w.route, w.match)
	}
	if kind := want[i].m.Path.Kind; kind != PathPrefix && got.PrefixLen != 0 {
		t.Fatalf("%+v: %+v covers a prefix", *s, got)
	}
	if rest := s.path[got.PrefixLen:]; want[i].m.Path.Kind == PathPrefix && rest != "" && rest[0] != '/' {
		t.Fatalf("%+v: %+v leaves %q", *s, got, rest)
	}
}

func compareExplain(t *rapid.T, table *Table, s *sample, want []judged) {
	got := table.Explain(s.request(), []byte(s.path), s.source)
	result, ok := table.Match(s.request(), []byte(s.path), s.source)
	if got.Winner != result || got.Found != ok {
		t.Fatalf("%+v: explained %+v, matched %+v", *s, got.Winner, result)
	}
	for i, w := range want {
		if c := got.Candidates[i]; c.Route != w.route || c.Match != w.match || c.Verdict != w.verdict || c.Reason == "" {
			t.Fatalf("%+v: candidate %d is %+v, want %d %d %v", *s, i, c, w.route, w.match, w.verdict)
		}
	}
	for _, c := range got.Candidates[len(want):] {
		if !strings.HasPrefix(c.Reason, "host ") || c.Verdict != Lost {
			t.Fatalf("%+v: %+v lost by something else than its host", *s, c)
		}
	}
}

func compareShadows(t *rapid.T, shadows []Shadow, s *sample, want []judged) {
	for _, w := range want {
		for _, sh := range shadows {
			if w.verdict == Won && sh.Route == w.route && sh.Match == w.match {
				t.Fatalf("%+v: %+v is shadowed and won", *s, sh)
			}
		}
	}
}
