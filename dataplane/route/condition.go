package route

import (
	"net/netip"
	"regexp"

	"github.com/gaissmai/bart"

	"github.com/headgate/headgate/dataplane/message"
)

// A fieldCondition is a Value made ready for comparison.
type fieldCondition struct {
	Value
	id    message.ID // of a header
	name  []byte
	regex *regexp.Regexp
}

// holds compares one value.
func (c *fieldCondition) holds(value []byte) bool {
	switch {
	case c.Present:
		return true
	case c.regex != nil:
		return c.regex.Match(value)
	}
	return string(value) == c.Exact
}

// holdsForHeader tries every field line of the name. An exact value may also
// be that of all the lines, joined by ", " (RFC 9110 section 5.3); a regex is
// tried on single lines only.
func (c *fieldCondition) holdsForHeader(fields *message.Fields) bool {
	if c.id != message.Other && !fields.Has(c.id) {
		return false
	}
	lines := 0
	list := fields.All()
	for i := range list {
		if !c.names(&list[i]) {
			continue
		}
		if c.holds(list[i].Value) {
			return true
		}
		lines++
	}
	return lines > 1 && c.regex == nil && c.holdsForJoined(list)
}

// names reports whether the field is the one that is asked for.
func (c *fieldCondition) names(f *message.Field) bool {
	return f.ID == c.id && (c.id != message.Other || message.EqualFold(f.Name, c.name))
}

// holdsForJoined compares without joining.
func (c *fieldCondition) holdsForJoined(list []message.Field) bool {
	rest, started := c.Exact, false
	for i := range list {
		if !c.names(&list[i]) {
			continue
		}
		if started {
			if len(rest) < 2 || rest[:2] != ", " {
				return false
			}
			rest = rest[2:]
		}
		started = true
		n := len(list[i].Value)
		if len(rest) < n || rest[:n] != string(list[i].Value) {
			return false
		}
		rest = rest[n:]
	}
	return rest == ""
}

// holdsForQuery looks at the first parameter of the name only; a later one of
// the same name does not count.
func (c *fieldCondition) holdsForQuery(query []byte) bool {
	value, ok := lookupQuery(query, c.Name)
	if !ok {
		return false
	}
	if c.regex != nil && encoded(value) {
		value = decode(value)
	}
	if c.Present || c.regex != nil {
		return c.holds(value)
	}
	return equalDecoded(value, c.Exact)
}

// few is how many prefixes are scanned rather than looked up in a trie.
const few = 8

// A sourceSet is the client addresses that a rule takes; empty is all of them.
type sourceSet struct {
	prefixes []netip.Prefix // as written; IPv4 in IPv6 form made IPv4
	trie     *bart.Lite     // nil if they are few
}

func newSourceSet(prefixes []netip.Prefix) sourceSet {
	if len(prefixes) == 0 {
		return sourceSet{}
	}
	s := sourceSet{prefixes: make([]netip.Prefix, len(prefixes))}
	for i, p := range prefixes {
		s.prefixes[i] = unmap(p)
	}
	if len(prefixes) > few {
		s.trie = new(bart.Lite)
		for _, p := range s.prefixes {
			s.trie.Insert(p)
		}
	}
	return s
}

// unmap turns ::ffff:10.0.0.0/104 into 10.0.0.0/8, because addresses are
// compared in that form.
func unmap(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked()
}

func (s *sourceSet) any() bool { return len(s.prefixes) == 0 }

// has takes an address without zone that is not IPv4 in IPv6 form. An invalid
// address, such as that of a unix socket, is in no prefix.
func (s *sourceSet) has(addr netip.Addr) bool {
	switch {
	case s.any():
		return true
	case !addr.IsValid():
		return false
	case s.trie != nil:
		return s.trie.Lookup(addr)
	}
	for _, p := range s.prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
