package route

import (
	"bytes"
	"iter"
	"strings"
)

// A node is a path prefix: the elements on the way to it from the root, which
// is the prefix "/". A path is walked down element by element, each hashed
// once, and no further than the table has prefixes; the nodes that have rules
// are then met from the longest to the shortest by following up.
type node struct {
	rules    []*rule
	up       *node // the nearest node above that has rules
	children children
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
	c := n.children.find([]byte(element))
	if c == nil {
		c = new(node)
		n.children.add(element, c)
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
	for c := range n.children.all() {
		c.link(up)
	}
}

// deepest returns the longest prefix of the path that has rules, or nil.
func (n *node) deepest(q *query) *node {
	path := q.path
	if len(path) == 0 || path[0] != '/' {
		return nil
	}
	for len(path) > 0 && !n.children.empty() {
		end := bytes.IndexByte(path[1:], '/') + 1
		if end == 0 {
			end = len(path)
		}
		q.steps++
		c := n.children.find(path[1:end])
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

// fewChildren is up to how many children are compared one by one, which is
// faster than hashing; most nodes have one or two.
const fewChildren = 4

// children are the nodes below a node by element: a list while they are few,
// then a map.
type children struct {
	few  []edge
	many map[string]*node
}

// An edge leads to a child.
type edge struct {
	element string
	to      *node
}

func (c *children) empty() bool { return c.few == nil && c.many == nil }

func (c *children) find(element []byte) *node {
	for i := range c.few {
		if c.few[i].element == string(element) {
			return c.few[i].to
		}
	}
	return c.many[string(element)]
}

func (c *children) add(element string, to *node) {
	if c.many == nil && len(c.few) < fewChildren {
		c.few = append(c.few, edge{element, to})
		return
	}
	if c.many == nil {
		c.many = make(map[string]*node)
		for _, e := range c.few {
			c.many[e.element] = e.to
		}
		c.few = nil
	}
	c.many[element] = to
}

func (c *children) all() iter.Seq[*node] {
	return func(yield func(*node) bool) {
		for _, e := range c.few {
			if !yield(e.to) {
				return
			}
		}
		for _, to := range c.many {
			if !yield(to) {
				return
			}
		}
	}
}
