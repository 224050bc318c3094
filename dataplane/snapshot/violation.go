package snapshot

import (
	"fmt"
	"strconv"
)

// Violation is one fault of a configuration.
type Violation struct {
	Path    string // in the manifest's names, such as routes[3].forward.backends[0].cluster; "": the whole
	Message string // one line that says what is wrong and, where it is known, what would be right
	Rule    string // a stable identifier, such as "reference" or "string.resource_name"
	Warning bool   // the configuration can be applied all the same
}

// Error is the path and the message.
func (v Violation) Error() string {
	if v.Path == "" {
		return v.Message
	}
	return v.Path + ": " + v.Message
}

// Rules of this package; those of one message alone are the identifiers of
// the validation language in the protos.
const (
	RuleText        = "text"        // text that is not UTF-8
	RuleUnsupported = "unsupported" // the field's behaviour is not built
	RuleUnknown     = "unknown"     // a field number that this program does not know
	RuleEmpty       = "empty"       // a resource that is nil
	RuleRedacted    = "redacted"    // a secret that was taken out by Redact
	RuleDuplicate   = "name.duplicate"
	RuleTaken       = "address.duplicate" // two listeners, or two endpoints of a cluster, on one address
	RuleReference   = "reference.unknown" // a name that nothing has
	RuleAddress     = "address"           // an address that cannot be used
	RuleHTTP3       = "http3"             // HTTP/3 where it cannot be
	RuleDuration    = "duration"          // a duration that is not one
	RuleWeights     = "weights"           // no weight above zero
	RuleRewrite     = "rewrite"           // a rewrite that cannot work
	RuleRegex       = "regex"             // an expression that RE2 refuses
	RuleHeader      = "header"            // a field that is not the user's to change
	RuleStatus      = "status"            // a status, or a range, that makes no sense
	RuleMatch       = "match"             // a condition that the route table refuses
	RuleUnreachable = "unreachable"       // warning: another match always wins
	RuleUnused      = "unused"            // warning: nothing refers to it
	RulePEM         = "pem"               // text that holds no certificate or key, or not those that belong together
	RuleExpired     = "expired"           // warning: a certificate that nobody should accept any more
	RuleACME        = "acme"              // what an authority cannot be asked for
)

// faults collects the violations of one resource. Paths given to it are
// relative to the resource, so that none is written out where all is well.
type faults struct {
	kind  string // "routes"; "" for the snapshot itself
	index int    // in the list of its kind; -1: there is one only
	list  []Violation
}

// add records an error, unless the field has one already: what follows from a
// fault is not one more.
func (f *faults) add(rule, path, format string, args ...any) {
	f.put(Violation{Path: f.path(path), Message: fmt.Sprintf(format, args...), Rule: rule})
}

// warn records a warning.
func (f *faults) warn(rule, path, format string, args ...any) {
	f.put(Violation{Path: f.path(path), Message: fmt.Sprintf(format, args...), Rule: rule, Warning: true})
}

func (f *faults) put(v Violation) {
	for i := range f.list {
		if f.list[i].Path == v.Path && f.list[i].Warning == v.Warning {
			return
		}
	}
	f.list = append(f.list, v)
}

// path completes a path that is relative to the resource.
func (f *faults) path(relative string) string {
	at := f.kind
	if f.index >= 0 && at != "" {
		at = item(at, f.index)
	}
	return join(at, relative)
}

// join puts a dot between two paths that are not empty.
func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "." + b
}

// item is the path of an element of a list.
func item(list string, index int) string {
	return list + "[" + strconv.Itoa(index) + "]"
}
