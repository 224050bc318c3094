package route

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Shadow is a match that can never win: whatever fits it fits one that comes
// before it.
type Shadow struct {
	Route, Match int // as in Result
	By           int // the route of the other, which may be the same one
}

// Shadowed returns the matches that can never win, in the order of the file.
// All that it returns are such; it does not find all of them: of the rules that
// cover a path it knows those with the same headers and query parameters and
// those with none, and it does not compare regexes with each other unless they
// have the same text.
func (t *Table) Shadowed() []Shadow {
	if t == nil {
		return nil
	}
	c := coverage{hidden: make(map[*rule]hidden), open: make(map[cover][]*rule)}
	c.group(t.any)
	for _, g := range t.exact {
		c.group(g)
	}
	for _, g := range t.wild {
		c.group(g)
	}
	var out []Shadow
	for _, r := range t.rules {
		if h := c.hidden[r]; h.groups > 0 && h.groups == r.groups() {
			out = append(out, Shadow{Route: r.result.Route, Match: r.result.Match, By: h.by.result.Route})
		}
	}
	slices.SortFunc(out, func(a, b Shadow) int {
		return cmp.Or(cmp.Compare(a.Route, b.Route), cmp.Compare(a.Match, b.Match))
	})
	return out
}

// groups is how many hosts the rule is under.
func (r *rule) groups() int {
	if len(r.hosts) == 0 {
		return 1
	}
	return len(slices.Compact(slices.Sorted(slices.Values(r.hosts))))
}

// A coverage holds, for one host at a time, the rules that nothing hides, by
// what they cover.
type coverage struct {
	hidden map[*rule]hidden
	open   map[cover][]*rule
	covers []cover // those of the rule at hand; its room is used again
}

// hidden says in how many groups a rule is hidden, and by which rules: the one
// of the highest precedence stands for them.
type hidden struct {
	groups int
	by     *rule
}

func (h hidden) add(by *rule) hidden {
	if h.by == nil || by.rank < h.by.rank {
		h.by = by
	}
	h.groups++
	return h
}

// A cover is what is looked up: a path condition, and the headers and query
// parameters beside it.
type cover struct {
	kind   PathKind
	path   string
	values string
}

// maxCompared bounds how many rules with the same cover are compared, which may
// differ in methods and sources only.
const maxCompared = 64

// group goes through the rules in the order of precedence.
func (c *coverage) group(g *group) {
	if len(g.rules) < 2 {
		return
	}
	clear(c.open)
	for _, r := range g.rules {
		values := r.signature()
		if by := c.find(r, values); by != nil {
			c.hidden[r] = c.hidden[r].add(by)
			continue
		}
		key := cover{r.path.kind, r.path.value, values}
		if len(c.open[key]) < maxCompared {
			c.open[key] = append(c.open[key], r)
		}
	}
}

// find returns a rule that comes before r and fits whatever fits r, or nil.
func (c *coverage) find(r *rule, values string) *rule {
	c.covers = r.path.appendCovers(c.covers[:0])
	for _, path := range c.covers {
		path.values = values
		if by := c.broader(path, r); by != nil {
			return by
		}
		if values == "" {
			continue
		}
		path.values = ""
		if by := c.broader(path, r); by != nil {
			return by
		}
	}
	return nil
}

// broader compares what a cover does not.
func (c *coverage) broader(key cover, r *rule) *rule {
	for _, other := range c.open[key] {
		if other.methods.includes(&r.methods) && other.sources.includes(&r.sources) {
			return other
		}
	}
	return nil
}

// appendCovers lists the path conditions that hold wherever p holds.
func (p *pathCondition) appendCovers(list []cover) []cover {
	list = append(list, cover{kind: p.kind, path: p.value})
	switch p.kind {
	case PathExact, PathPrefix:
		list = appendPrefixes(list, p.value)
	case PathRegex:
		// What comes after the last slash of the literal may go on, so
		// the elements before it are sure.
		if text := string(p.regex.literal); strings.HasPrefix(text, "/") {
			list = appendPrefixes(list, text[:strings.LastIndexByte(text, '/')])
		}
		if p.regex.onlySlash() {
			list = append(list, cover{kind: PathPrefix})
		}
	}
	if p.kind != PathAny {
		list = append(list, cover{kind: PathAny})
	}
	return list
}

// maxElements bounds how many prefixes of one path are looked at.
const maxElements = 64

// appendPrefixes lists "", "/a" and "/a/b" for "/a/b".
func appendPrefixes(list []cover, path string) []cover {
	for i := 0; i <= len(path) && len(list) < maxElements; i++ {
		if i == len(path) || path[i] == '/' {
			list = append(list, cover{kind: PathPrefix, path: path[:i]})
		}
	}
	return list
}

// signature is equal for equal headers and query parameters in any order, and
// empty where there are none.
func (r *rule) signature() string {
	if len(r.headers)+len(r.query) == 0 {
		return ""
	}
	var parts []string
	for i := range r.headers {
		parts = append(parts, r.headers[i].signature("header", strings.ToLower(r.headers[i].Name)))
	}
	for i := range r.query {
		parts = append(parts, r.query[i].signature("query", r.query[i].Name))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

func (c *fieldCondition) signature(where, name string) string {
	return strings.Join([]string{
		where, strconv.Quote(name), strconv.Quote(c.Exact), strconv.Quote(c.Regex), strconv.FormatBool(c.Present),
	}, ":")
}

// includes reports whether every method of o is in s.
func (s *methodSet) includes(o *methodSet) bool {
	if s.any() || o.any() {
		return s.any()
	}
	for _, name := range o.names {
		if !slices.Contains(s.names, name) {
			return false
		}
	}
	return true
}

// includes reports whether every address of o is in s; it may say no where
// several prefixes of s together make up one of o.
func (s *sourceSet) includes(o *sourceSet) bool {
	if s.any() || o.any() {
		return s.any()
	}
	for _, p := range o.prefixes {
		if !slices.ContainsFunc(s.prefixes, func(q netip.Prefix) bool { return q.Bits() <= p.Bits() && q.Contains(p.Addr()) }) {
			return false
		}
	}
	return true
}
