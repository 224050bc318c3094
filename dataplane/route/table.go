package route

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/headgate/headgate/dataplane/message"
)

// Table is the compiled form of routes. It is never written after New, and so
// is safe for concurrent use. A nil Table matches nothing.
//
// A lookup costs one map lookup for the host, one for each label of it that
// wildcards may cover, and one for each element of the path that prefixes may
// cover, however many routes there are. Only regexes, and matches that share
// one path and differ in their other conditions, are tried one by one.
type Table struct {
	rules []*rule // by rank
	exact map[string]*group
	wild  map[string]*group // by ".suffix"
	any   *group
	reach int // bytes of the longest key of wild
}

// Result is the match that a request takes.
type Result struct {
	Route     int // index into the routes that New was given
	Match     int // index into Route.Matches; -1 if the route has none
	PrefixLen int // bytes of the path that a prefix covers; what follows is empty or begins with "/"; 0 for other kinds
}

// New compiles those routes that take returns true for; a nil take is all of
// them. Results are indices into routes whichever are taken. If any taken route
// is at fault, the table is nil and every fault is returned. The table keeps
// what routes point to, which must not be written afterwards.
func New(routes []Route, take func(i int) bool) (*Table, []Error) {
	c := compiler{regexes: make(map[string]*pathRegex)}
	for i := range routes {
		if take == nil || take(i) {
			c.route(i, &routes[i])
		}
	}
	if len(c.errors) > 0 {
		return nil, c.errors
	}
	slices.SortFunc(c.rules, compare)
	t := &Table{rules: c.rules, exact: make(map[string]*group), wild: make(map[string]*group), any: new(group)}
	for rank, r := range t.rules {
		r.rank = rank
		t.add(r)
	}
	t.link()
	return t, nil
}

// add puts a rule in the group of each of its hosts.
func (t *Table) add(r *rule) {
	if len(r.hosts) == 0 {
		t.any.add(r)
	}
	for _, host := range r.hosts {
		groups, key := t.exact, host
		if suffix, ok := strings.CutPrefix(host, "*"); ok {
			groups, key = t.wild, suffix
			t.reach = max(t.reach, len(suffix))
		}
		g := groups[key]
		if g == nil {
			g = &group{host: host}
			groups[key] = g
		}
		g.add(r)
	}
}

// link joins each group with the next less specific one.
func (t *Table) link() {
	t.any.prefixes.link(nil)
	for name, g := range t.exact {
		g.less = t.covering(name)
		g.prefixes.link(nil)
	}
	for suffix, g := range t.wild {
		g.less = t.covering(suffix)
		g.prefixes.link(nil)
	}
}

// covering returns the group of the longest wildcard that covers a name, or of
// any host. A wildcard stands for one label or more.
func (t *Table) covering(name string) *group {
	for i := 1; i < len(name); i++ {
		if name[i] == '.' {
			if g := t.wild[name[i:]]; g != nil {
				return g
			}
		}
	}
	return t.any
}

// A query is what is looked up.
type query struct {
	req    *message.Request
	path   []byte
	source netip.Addr
	steps  int // map lookups and rules tried so far
}

func newQuery(req *message.Request, path []byte, source netip.Addr) query {
	return query{req: req, path: path, source: source.Unmap().WithZone("")}
}

// Match returns the match that wins the request, and whether there is one. The
// path is normalized and has no query: it begins with "/", or is "*" or empty
// where the target has no path. The source is the client's address; the zero
// Addr is in no prefix. Match does not allocate, unless a regex is to be
// compared with a query parameter that is percent-encoded.
func (t *Table) Match(req *message.Request, path []byte, source netip.Addr) (Result, bool) {
	if t == nil {
		return Result{}, false
	}
	q := newQuery(req, path, source)
	r := t.walk(&q, nil)
	if r == nil {
		return Result{}, false
	}
	return r.result, true
}

// walk is the lookup itself. With a recorder it does the same, and takes notes.
func (t *Table) walk(q *query, rec *recorder) *rule {
	g := t.group(q)
	if rec != nil {
		rec.first = g
	}
	for ; g != nil; g = g.less {
		if r := g.find(q, rec); r != nil {
			return r
		}
	}
	return nil
}

// maxHost is how many bytes a host name may have to be looked up: names in the
// DNS have at most 253 (RFC 1035 section 2.3.4, in text). A longer one meets
// the routes for any host only.
const maxHost = 255

// group returns the most specific group for the host of the request, whose
// case and last dot do not matter.
func (t *Table) group(q *query) *group {
	host := q.req.Host
	if len(host) == 0 || len(host) > maxHost {
		return t.any
	}
	if host[len(host)-1] == '.' {
		host = host[:len(host)-1]
	}
	var buf [maxHost]byte
	lowered := lower(&buf, host)
	q.steps++
	if g := t.exact[string(lowered)]; g != nil {
		return g
	}
	return t.wildcard(lowered, q)
}

// wildcard is covering for a request. It looks at no longer suffix than the
// table has.
func (t *Table) wildcard(host []byte, q *query) *group {
	for i := max(1, len(host)-t.reach); i < len(host); i++ {
		if host[i] == '.' {
			q.steps++
			if g := t.wild[string(host[i:])]; g != nil {
				return g
			}
		}
	}
	return t.any
}

// lower writes a host in lower case to buf.
func lower(buf *[maxHost]byte, host []byte) []byte {
	for i, c := range host {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		buf[i] = c
	}
	return buf[:len(host)]
}
