package route

import (
	"bytes"
	"iter"
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
	for rest := []byte(r.path.value); len(rest) > 0; {
		c, after := n.children.next(rest)
		if c == nil {
			c = new(node)
			var element string
			element, after = cutElement(rest)
			n.children.add(element, c)
		}
		n, rest = c, after
	}
	n.rules = append(n.rules, r)
}

// cutElement splits "/a/b" into "a" and "/b".
func cutElement(path []byte) (element string, rest []byte) {
	path = path[1:]
	if i := bytes.IndexByte(path, '/'); i >= 0 {
		return string(path[:i]), path[i:]
	}
	return string(path), nil
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
		q.steps++
		c, rest := n.children.next(path)
		if c == nil {
			break
		}
		n, path = c, rest
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

// next follows the first element of a path, which begins with a slash, to a
// child, or to nil. Where children are few, the end of the element need not be
// looked for.
func (c *children) next(path []byte) (to *node, rest []byte) {
	path = path[1:]
	for i := range c.few {
		e := &c.few[i]
		n := len(e.element)
		if len(path) >= n && string(path[:n]) == e.element && (len(path) == n || path[n] == '/') {
			return e.to, path[n:]
		}
	}
	if c.many == nil {
		return nil, nil
	}
	end := bytes.IndexByte(path, '/')
	if end < 0 {
		end = len(path)
	}
	return c.many[string(path[:end])], path[end:]
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
