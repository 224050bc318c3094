// Package route decides which route a request takes. Match and Explain are one
// walk over one compiled table, so that what is explained is what happens. It
// is pure and knows nothing of what a route does.
package route

import (
	"net/netip"
)

// Route is one route as it is written.
type Route struct {
	Name     string
	Hosts    []string // lower-case, exact or "*.suffix"; empty: any
	Priority int      // higher first
	Matches  []Match  // one of these; empty: everything
}

// Match is one alternative of a route: all of it must hold.
type Match struct {
	Path    Path
	Methods []string // upper-case tokens; empty: any
	Headers []Value
	Query   []Value
	Sources []netip.Prefix // of the client's address; empty: any
}

// PathKind says how a path is compared.
type PathKind uint8

// The kinds of path match, from the least to the most specific.
const (
	PathAny PathKind = iota
	PathRegex
	PathPrefix // by whole elements: /v1 matches /v1 and /v1/x, not /v10
	PathExact
)

// Path is a condition on the normalized path.
type Path struct {
	Kind  PathKind
	Value string // the path, the prefix or the expression (RE2, unanchored as written)
}

// Value is a condition on a header field or a query parameter.
type Value struct {
	Name    string // header names without regard to case
	Exact   string
	Regex   string // used when not empty
	Present bool   // only presence is asked for
}
