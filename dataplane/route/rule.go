package route

import (
	"cmp"
	"strings"

	"github.com/headgate/headgate/dataplane/message"
)

// Precedence, by example. All of these fit GET http://api.example.com/v1/users:
//
//	1  host api.example.com    priority 5  any path
//	2  host api.example.com    path exact /v1/users
//	3  host api.example.com    path prefix /v1/users, header x-canary
//	4  host api.example.com    path prefix /v1/users
//	5  host api.example.com    path prefix /v1, methods GET, headers x-a and x-b
//	6  host api.example.com    path prefix /
//	7  host api.example.com    path regex ^/v1
//	8  host api.example.com    any path
//	9  host *.example.com      priority 99, path exact /v1/users
//	10 host *.com              path exact /v1/users
//	11 any host                priority 99, path exact /v1/users
//
// and the first one wins. If it did not fit, the second would win, and so on:
//
//   - The host decides first: the exact name, then the longest wildcard, then
//     routes for any host. When nothing under a host fits, the next less
//     specific host is tried. Priority never crosses hosts.
//   - Then priority, the higher first.
//   - Then the path: exact, then the prefix of more elements, then regex, then
//     none. A prefix of / is a prefix, and so comes before every regex; a route
//     without a path comes after them.
//   - Then a match that names methods; then the one with more headers; then
//     the one with more query parameters; then one that names sources.
//   - Then the order in the file, of routes and then of matches in a route. So
//     among regexes alone the first that matches wins.
//
// This is the order of the Gateway API (HTTPRouteRule), with priority, regexes
// and sources added.

// A rule is one compiled match of one route, under all hosts of that route.
type rule struct {
	result   Result
	hosts    []string // as written
	priority int
	rank     int // place in the order of precedence within a host; lower wins
	elements int // of a prefix

	path    pathCondition
	methods methodSet
	headers []fieldCondition
	query   []fieldCondition
	sources sourceSet
}

// compare orders two rules of the same host by precedence.
func compare(a, b *rule) int {
	return cmp.Or(
		cmp.Compare(b.priority, a.priority),
		cmp.Compare(b.path.kind, a.path.kind),
		cmp.Compare(b.elements, a.elements),
		first(a.methods.any(), b.methods.any()),
		cmp.Compare(len(b.headers), len(a.headers)),
		cmp.Compare(len(b.query), len(a.query)),
		first(a.sources.any(), b.sources.any()),
		cmp.Compare(a.result.Route, b.result.Route),
		cmp.Compare(a.result.Match, b.result.Match),
	)
}

// first puts what is restricted before what is not.
func first(aAny, bAny bool) int {
	switch {
	case aAny == bAny:
		return 0
	case bAny:
		return -1
	}
	return 1
}

// A part names the condition of a rule that does not hold.
type part uint8

const (
	partNone part = iota
	partHost
	partPath
	partMethod
	partHeader
	partQuery
	partSource
)

// A failure is the first condition of a rule that does not hold; the zero value
// says that all hold.
type failure struct {
	part  part
	index int // of the header or query parameter
}

// check tries the conditions, the cheap ones before the regexes. A rule that
// the index found has its exact path or prefix proved already.
func (r *rule) check(q *query) failure {
	q.steps++
	if !r.methods.has(q.req) {
		return failure{part: partMethod}
	}
	if r.path.kind == PathRegex && !r.path.matches(q.path) {
		return failure{part: partPath}
	}
	fields := &q.req.Fields
	for i := range r.headers {
		if !r.headers[i].holdsForHeader(fields) {
			return failure{part: partHeader, index: i}
		}
	}
	for i := range r.query {
		if !r.query[i].holdsForQuery(q.req.Query) {
			return failure{part: partQuery, index: i}
		}
	}
	if !r.sources.has(q.source) {
		return failure{part: partSource}
	}
	return failure{}
}

// A methodSet is the methods that a rule takes; empty is all of them.
type methodSet struct {
	known uint32   // bit of each message.Method
	names []string // all of them, as written
}

var methodIDs = map[string]message.Method{
	"GET": message.MethodGet, "HEAD": message.MethodHead, "POST": message.MethodPost,
	"PUT": message.MethodPut, "DELETE": message.MethodDelete, "CONNECT": message.MethodConnect,
	"OPTIONS": message.MethodOptions, "TRACE": message.MethodTrace, "PATCH": message.MethodPatch,
}

func newMethodSet(names []string) methodSet {
	s := methodSet{names: names}
	for _, name := range names {
		s.known |= 1 << methodIDs[name]
	}
	return s
}

func (s *methodSet) any() bool { return len(s.names) == 0 }

// has is exact: a rule for GET does not take HEAD.
func (s *methodSet) has(req *message.Request) bool {
	if s.any() {
		return true
	}
	if req.Method != message.MethodNone && req.Method != message.MethodOther {
		return s.known&(1<<req.Method) != 0
	}
	for _, name := range s.names { //nolint:modernize // a comparison converts without allocating, a call may not
		if string(req.MethodName) == name {
			return true
		}
	}
	return false
}

// A pathCondition is a Path made ready for comparison.
type pathCondition struct {
	kind    PathKind
	value   string // the exact path, the prefix without its last slash, or the expression
	regex   *pathRegex
	written string
}

// matches is the definition of a path match, which the index must agree with.
func (p *pathCondition) matches(path []byte) bool {
	switch p.kind {
	case PathExact:
		return string(path) == p.value
	case PathPrefix:
		return underPrefix(path, p.value)
	case PathRegex:
		return p.regex.match(path)
	}
	return true
}

// underPrefix reports whether path is the prefix or goes on with a new element
// after it. The prefix has no slash at its end, so that "" is everything that
// begins with a slash.
func underPrefix(path []byte, prefix string) bool {
	n := len(prefix)
	if len(path) < n || string(path[:n]) != prefix {
		return false
	}
	if len(path) == n {
		return n > 0
	}
	return path[n] == '/'
}

func newPathCondition(p Path, regex *pathRegex) pathCondition {
	c := pathCondition{kind: p.Kind, value: p.Value, regex: regex, written: p.Value}
	if p.Kind == PathPrefix {
		c.value = strings.TrimRight(p.Value, "/")
	}
	return c
}
