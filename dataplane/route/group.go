package route

import (
	"bytes"
	"strings"
)

// A group holds the rules of one host pattern, indexed by path. A rule is in
// exactly one bucket, every bucket is in the order of precedence, and a path
// meets at most one exact bucket, one bucket for each of its prefixes, the
// regexes and the rules without a path.
type group struct {
	host  string // as written; "" is any
	less  *group // of the next less specific host that covers this one; nil after "any"
	rules []*rule

	exact    map[string][]*rule
	prefixes node
	regexes  []*rule
	rest     []*rule
}

// add takes rules in the order of precedence.
func (g *group) add(r *rule) {
	if n := len(g.rules); n > 0 && g.rules[n-1] == r {
		return // the route names the host twice
	}
	g.rules = append(g.rules, r)
	switch r.path.kind {
	case PathExact:
		if g.exact == nil {
			g.exact = make(map[string][]*rule)
		}
		g.exact[r.path.value] = append(g.exact[r.path.value], r)
	case PathPrefix:
		g.prefixes.add(r)
	case PathRegex:
		g.regexes = append(g.regexes, r)
	default:
		g.rest = append(g.rest, r)
	}
}

// find returns the rule of the group that wins, or nil. Buckets are visited in
// the order in which they win when priorities are equal; because they need not
// be, the best rule so far is carried along, and a bucket is left as soon as it
// has only worse ones.
func (g *group) find(q *query, rec *recorder) *rule {
	var best *rule
	if g.exact != nil {
		q.steps++
		best = better(best, g.exact[string(q.path)], q, rec)
	}
	for n := g.prefixes.deepest(q); n != nil; n = n.up {
		best = better(best, n.rules, q, rec)
	}
	best = better(best, g.regexes, q, rec)
	return better(best, g.rest, q, rec)
}

// better returns the first rule of a bucket that holds, unless best outranks
// it.
func better(best *rule, bucket []*rule, q *query, rec *recorder) *rule {
	for _, r := range bucket {
		if best != nil && best.rank < r.rank {
			break
		}
		f := r.check(q)
		if rec != nil {
			rec.tried(r, f)
		}
		if f.part == partNone {
			return r
		}
	}
	return best
}

// A node is a path prefix: the elements on the way to it from the root, which
// is the prefix "/". A path is walked down element by element, each hashed
// once, and no further than the table has prefixes; the nodes that have rules
// are then met from the longest to the shortest by following up.
type node struct {
	rules    []*rule
	up       *node // the nearest node above that has rules
	children map[string]*node
}

// add puts a rule at the node of its prefix.
func (n *node) add(r *rule) {
	for rest := r.path.value; rest != ""; {
		var element string
		element, rest = cutElement(rest)
		n = n.child(element)
	}
	n.rules = append(n.rules, r)
}

func (n *node) child(element string) *node {
	c := n.children[element]
	if c == nil {
		c = new(node)
		if n.children == nil {
			n.children = make(map[string]*node)
		}
		n.children[element] = c
	}
	return c
}

// cutElement splits "/a/b" into "a" and "/b".
func cutElement(path string) (element, rest string) {
	path = path[1:]
	if i := strings.IndexByte(path, '/'); i >= 0 {
		return path[:i], path[i:]
	}
	return path, ""
}

// link sets up throughout, once all rules are there.
func (n *node) link(up *node) {
	n.up = up
	if len(n.rules) > 0 {
		up = n
	}
	for _, c := range n.children {
		c.link(up)
	}
}

// deepest returns the longest prefix of the path that has rules, or nil.
func (n *node) deepest(q *query) *node {
	path := q.path
	if len(path) == 0 || path[0] != '/' {
		return nil
	}
	for len(path) > 0 && n.children != nil {
		end := bytes.IndexByte(path[1:], '/') + 1
		if end == 0 {
			end = len(path)
		}
		q.steps++
		c := n.children[string(path[1:end])]
		if c == nil {
			break
		}
		n, path = c, path[end:]
	}
	if len(n.rules) == 0 {
		return n.up
	}
	return n
}
