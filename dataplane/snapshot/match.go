package snapshot

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"

	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/route"
)

// compileConditions makes the form in which the table takes a route.
func compileConditions(in *configv1.Route, f *faults) route.Route {
	out := route.Route{Name: in.GetName(), Priority: int(in.GetPriority())}
	for _, host := range in.GetHosts() {
		out.Hosts = append(out.Hosts, strings.ToLower(host))
	}
	for i, m := range in.GetMatches() {
		out.Matches = append(out.Matches, compileMatch(m, item("matches", i), f))
	}
	return out
}

func compileMatch(in *configv1.Match, path string, f *faults) route.Match {
	out := route.Match{
		Path:    compilePath(in.GetPath(), path+".path", f),
		Methods: in.GetMethods(),
	}
	for i, h := range in.GetHeaders() {
		at := item(path+".headers", i)
		name := strings.ToLower(h.GetName())
		out.Headers = append(out.Headers, compileValue(name, h, at, f))
	}
	for i, q := range in.GetQueryParams() {
		at := item(path+".queryParams", i)
		out.Query = append(out.Query, compileValue(q.GetName(), q, at, f))
	}
	if len(in.GetSources()) > 0 {
		out.Sources = prefixes(in.GetSources(), path+".sources", f)
	}
	return out
}

// valueMatch is a condition on a header field or a query parameter: the two
// are the same but for their Go types.
type valueMatch interface {
	GetExact() string
	GetRegex() string
	GetPresent() bool
}

func compileValue(name string, in valueMatch, path string, f *faults) route.Value {
	out := route.Value{Name: name, Exact: in.GetExact(), Regex: in.GetRegex(), Present: in.GetPresent()}
	if out.Regex != "" {
		checkRegex(out.Regex, path+".regex", f)
	}
	if absent(in) {
		f.add(RuleUnsupported, path+".present", "not supported yet: %s: false", f.path(path+".present"))
	}
	return out
}

// absent reports whether a condition asks that there be no such value.
func absent(in valueMatch) bool {
	switch m := in.(type) {
	case *configv1.HeaderMatch:
		_, ok := m.GetValue().(*configv1.HeaderMatch_Present)
		return ok && !m.GetPresent()
	case *configv1.QueryParamMatch:
		_, ok := m.GetValue().(*configv1.QueryParamMatch_Present)
		return ok && !m.GetPresent()
	}
	return false
}

func compilePath(in *configv1.PathMatch, path string, f *faults) route.Path {
	switch kind := in.GetKind().(type) {
	case *configv1.PathMatch_Exact:
		checkNormal(kind.Exact, path+".exact", f)
		return route.Path{Kind: route.PathExact, Value: kind.Exact}
	case *configv1.PathMatch_Prefix:
		checkNormal(kind.Prefix, path+".prefix", f)
		return route.Path{Kind: route.PathPrefix, Value: kind.Prefix}
	case *configv1.PathMatch_Regex:
		checkRegex(kind.Regex, path+".regex", f)
		return route.Path{Kind: route.PathRegex, Value: kind.Regex}
	}
	return route.Path{}
}

// checkNormal refuses a path that no request has after normalization, so that
// the condition would never hold.
func checkNormal(p, path string, f *faults) {
	normal, err := message.NormalizePath(nil, []byte(p), false)
	var bad *message.PathError
	switch {
	case errors.As(err, &bad):
		f.add(RuleMatch, path, "%s is the path of no request: %s at byte %d", quote(p), bad.Reason, bad.Offset)
	case err == nil && string(normal) != p:
		f.add(RuleMatch, path, "%s is the path of no request once it is normalized: write %s", quote(p), quote(string(normal)))
	}
}

// checkRegex parses an expression as RE2 does and says where it fails.
func checkRegex(expression, path string, f *faults) {
	if _, err := regexp.Compile(expression); err != nil {
		f.add(RuleRegex, path, "%s", regexFault(expression, err))
	}
}

// regexFault is RE2's own message with the position of the part that it names.
func regexFault(expression string, err error) string {
	var bad *syntax.Error
	if !errors.As(err, &bad) {
		return err.Error()
	}
	at := strings.Index(expression, bad.Expr)
	if at < 0 || bad.Expr == "" || bad.Expr == expression {
		return string(bad.Code) + " in " + verbatim(expression)
	}
	return string(bad.Code) + ": " + verbatim(bad.Expr) + " at byte " + itoa(at) + " of " + verbatim(expression)
}

// verbatim shows an expression with its backslashes as they are written.
func verbatim(expression string) string {
	if strings.Contains(expression, `"`) || strings.ContainsFunc(expression, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return quote(expression)
	}
	return `"` + expression + `"`
}

// sameConditions reports whether the table would take two routes for the same.
func sameConditions(a, b *route.Route) bool {
	return a.Name == b.Name && a.Priority == b.Priority &&
		slices.Equal(a.Hosts, b.Hosts) && slices.EqualFunc(a.Matches, b.Matches, sameMatch)
}

func sameMatch(a, b route.Match) bool {
	return a.Path == b.Path && slices.Equal(a.Methods, b.Methods) && slices.Equal(a.Headers, b.Headers) &&
		slices.Equal(a.Query, b.Query) && slices.Equal(a.Sources, b.Sources)
}
