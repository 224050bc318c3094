package route

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"github.com/headgate/headgate/dataplane/message"
)

// Error is one fault of one route.
type Error struct {
	Route int
	Match int    // index into Route.Matches; -1 if the fault is not in a match
	Field string // from the route on, such as "matches[0].path.regex"
	Err   error
}

// Error names the field.
func (e Error) Error() string { return fmt.Sprintf("routes[%d].%s: %v", e.Route, e.Field, e.Err) }

// Unwrap returns the cause.
func (e Error) Unwrap() error { return e.Err }

// A compiler turns routes into rules and collects every fault.
type compiler struct {
	rules   []*rule
	errors  []Error
	regexes map[string]*pathRegex // path expressions by their text

	at    int // the route
	match int // -1 outside matches
}

func (c *compiler) fault(err error, format string, args ...any) {
	if err != nil {
		c.errors = append(c.errors, Error{Route: c.at, Match: c.match, Field: fmt.Sprintf(format, args...), Err: err})
	}
}

func (c *compiler) route(i int, r *Route) {
	c.at, c.match = i, -1
	for j, host := range r.Hosts {
		c.fault(checkHost(host), "hosts[%d]", j)
	}
	if len(r.Matches) == 0 {
		c.rules = append(c.rules, &rule{result: Result{Route: i, Match: -1}, hosts: r.Hosts, priority: r.Priority})
	}
	for j := range r.Matches {
		c.match = j
		c.rules = append(c.rules, c.rule(r, &r.Matches[j]))
	}
}

// rule compiles one match.
func (c *compiler) rule(r *Route, m *Match) *rule {
	compiled := &rule{
		result:   Result{Route: c.at, Match: c.match},
		hosts:    r.Hosts,
		priority: r.Priority,
		path:     c.path(m.Path),
		methods:  c.methods(m.Methods),
		headers:  c.headers(m.Headers),
		query:    c.queryParams(m.Query),
		sources:  c.sources(m.Sources),
	}
	if m.Path.Kind == PathPrefix {
		compiled.result.PrefixLen = len(compiled.path.value)
		compiled.elements = strings.Count(compiled.path.value, "/")
	}
	return compiled
}

func (c *compiler) path(p Path) pathCondition {
	var regex *pathRegex
	switch p.Kind {
	case PathAny:
	case PathExact:
		c.fault(checkPath(p.Value), "matches[%d].path.exact", c.match)
	case PathPrefix:
		c.fault(checkPath(p.Value), "matches[%d].path.prefix", c.match)
	case PathRegex:
		var err error
		regex, err = c.regex(p.Value)
		c.fault(err, "matches[%d].path.regex", c.match)
	default:
		c.fault(fmt.Errorf("no such kind of path: %d", p.Kind), "matches[%d].path", c.match)
	}
	return newPathCondition(p, regex)
}

// regex compiles each text once.
func (c *compiler) regex(expr string) (*pathRegex, error) {
	if expr == "" {
		return nil, errors.New("is empty; leave the path out to match any")
	}
	if re := c.regexes[expr]; re != nil {
		return re, nil
	}
	re, err := compileRegex(expr)
	if err == nil {
		c.regexes[expr] = re
	}
	return re, err
}

func (c *compiler) methods(names []string) methodSet {
	for i, name := range names {
		c.fault(checkMethod(name), "matches[%d].methods[%d]", c.match, i)
	}
	return newMethodSet(names)
}

func (c *compiler) headers(values []Value) []fieldCondition {
	conditions := c.values("headers", values)
	for i := range conditions {
		cond := &conditions[i]
		if !isToken(cond.Name) {
			c.fault(fmt.Errorf("%q is not a field name", cond.Name), "matches[%d].headers[%d].name", c.match, i)
		}
		cond.id = message.Intern(cond.name)
	}
	return conditions
}

func (c *compiler) queryParams(values []Value) []fieldCondition {
	for i := range values {
		if values[i].Name == "" {
			c.fault(errors.New("is empty"), "matches[%d].queryParams[%d].name", c.match, i)
		}
	}
	return c.values("queryParams", values)
}

func (c *compiler) values(list string, values []Value) []fieldCondition {
	if len(values) == 0 {
		return nil
	}
	conditions := make([]fieldCondition, len(values))
	for i, v := range values {
		conditions[i] = fieldCondition{Value: v, name: []byte(v.Name)}
		if v.Present && (v.Exact != "" || v.Regex != "") || v.Exact != "" && v.Regex != "" {
			c.fault(errors.New("only one of exact, regex and present may be set"), "matches[%d].%s[%d]", c.match, list, i)
		}
		if v.Regex == "" {
			continue
		}
		re, err := regexp.Compile(v.Regex)
		c.fault(err, "matches[%d].%s[%d].regex", c.match, list, i)
		conditions[i].regex = re
	}
	return conditions
}

func (c *compiler) sources(prefixes []netip.Prefix) sourceSet {
	sound := true
	for i, p := range prefixes {
		if !p.IsValid() {
			sound = false
			c.fault(errors.New("is not an address prefix"), "matches[%d].sources[%d]", c.match, i)
		}
	}
	if !sound {
		return sourceSet{}
	}
	return newSourceSet(prefixes)
}
