package route

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/headgate/headgate/dataplane/message"
)

// reason says in words which condition does not hold.
func (r *rule) reason(q *query, f failure) string {
	switch f.part {
	case partHost:
		return fmt.Sprintf("host %s does not match %s", clip(string(q.req.Host)), oneOf(r.hosts))
	case partPath:
		return r.path.reason(q.path)
	case partMethod:
		return fmt.Sprintf("method is %s, not %s", methodName(q.req), oneOf(r.methods.names))
	case partHeader:
		c := &r.headers[f.index]
		value, ok := c.joined(q.req.Fields.All())
		return c.reason("header "+strings.ToLower(c.Name), value, ok)
	case partQuery:
		c := &r.query[f.index]
		value, ok := lookupQuery(q.req.Query, c.Name)
		return c.reason("query parameter "+c.Name, string(decode(value)), ok)
	case partSource:
		return r.sources.reason(q.source)
	}
	return ""
}

func (p *pathCondition) reason(path []byte) string {
	got := clip(string(path))
	switch p.kind {
	case PathExact:
		return fmt.Sprintf("path %s is not %s", got, p.written)
	case PathPrefix:
		return fmt.Sprintf("path %s is not under %s", got, p.written)
	}
	return fmt.Sprintf("path %s does not match regex %s", got, p.written)
}

func (c *fieldCondition) reason(what, value string, present bool) string {
	switch {
	case !present:
		return "no " + what
	case c.regex != nil:
		return fmt.Sprintf("%s is %q, which does not match regex %s", what, clip(value), c.Regex)
	}
	return fmt.Sprintf("%s is %q, not %q", what, clip(value), c.Exact)
}

// joined is the value of all lines of the header.
func (c *fieldCondition) joined(list []message.Field) (value string, present bool) {
	var lines []string
	for i := range list {
		if c.names(&list[i]) {
			lines = append(lines, string(list[i].Value))
		}
	}
	return strings.Join(lines, ", "), len(lines) > 0
}

func (s *sourceSet) reason(addr netip.Addr) string {
	if !addr.IsValid() {
		return "client address is not known"
	}
	names := make([]string, len(s.prefixes))
	for i, p := range s.prefixes {
		names[i] = p.String()
	}
	return fmt.Sprintf("client %s is not in %s", addr, oneOf(names))
}

// describe says under which host a rule won, and by what.
func (r *rule) describe(g *group) string {
	parts := []string{"any host"}
	if g.host != "" {
		parts[0] = "host " + g.host
	}
	if r.priority != 0 {
		parts = append(parts, fmt.Sprintf("priority %d", r.priority))
	}
	parts = append(parts, strings.TrimSpace(r.path.kind.String()+" "+r.path.written))
	if !r.methods.any() {
		parts = append(parts, "method "+oneOf(r.methods.names))
	}
	for i := range r.headers {
		parts = append(parts, "header "+strings.ToLower(r.headers[i].Name))
	}
	for i := range r.query {
		parts = append(parts, "query parameter "+r.query[i].Name)
	}
	if !r.sources.any() {
		parts = append(parts, "client address")
	}
	return strings.Join(parts, ", ")
}

// String is the kind in the words of the configuration.
func (k PathKind) String() string {
	switch k {
	case PathExact:
		return "path"
	case PathPrefix:
		return "prefix"
	case PathRegex:
		return "regex"
	}
	return "any path"
}

// outranked says why a rule that fits is not the winner. The rules of compare
// in words, in the same order.
func (n *narrator) outranked(g *group, r *rule) string {
	w := n.winner
	switch {
	case g != n.under:
		return "less specific: host " + n.under.host + " won"
	case w.priority != r.priority:
		return fmt.Sprintf("lower priority: %d, and %d won", r.priority, w.priority)
	case w.path.kind != r.path.kind:
		return "less specific: " + map[PathKind]string{PathExact: "exact path", PathPrefix: "prefix", PathRegex: "regex"}[w.path.kind] + " won"
	case w.elements != r.elements:
		return "less specific: longer prefix won"
	case w.methods.any() != r.methods.any():
		return "less specific: a match that names methods won"
	case len(w.headers) != len(r.headers):
		return "less specific: a match with more headers won"
	case len(w.query) != len(r.query):
		return "less specific: a match with more query parameters won"
	case w.sources.any() != r.sources.any():
		return "less specific: a match that names sources won"
	}
	return "later in the file than the winner"
}

func methodName(req *message.Request) string {
	for name, id := range methodIDs {
		if id == req.Method {
			return name
		}
	}
	return clip(string(req.MethodName))
}

// maxListed and maxShown bound what one reason repeats.
const (
	maxListed = 4
	maxShown  = 80 // bytes
)

// oneOf lists alternatives.
func oneOf(names []string) string {
	if more := len(names) - maxListed; more > 0 {
		return fmt.Sprintf("%s or %d more", strings.Join(names[:maxListed], ", "), more)
	}
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " or " + names[n-1]
	}
	return strings.Join(names, "")
}

// clip keeps a reason short, whatever the request sent.
func clip(s string) string {
	if len(s) > maxShown {
		return s[:maxShown] + "..."
	}
	return s
}
