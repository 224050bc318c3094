package message

import (
	"bytes"
	"iter"
)

// List iterates over the members of a comma-separated list, without the white
// space around them; empty members are passed over (RFC 9110 section 5.6.1).
// Quoted strings are not recognised: it is for lists of tokens.
func List(value []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for more := true; more; {
			var member []byte
			member, value, more = CutMember(value)
			if len(member) > 0 && !yield(member) {
				return
			}
		}
	}
}

// CutMember takes the first member, which may be empty, off a comma-separated
// list; more says that there was a comma after it.
func CutMember(value []byte) (member, rest []byte, more bool) {
	member, rest, more = bytes.Cut(value, comma)
	return TrimSpace(member), rest, more
}

var comma = []byte{','}

// ListContains reports whether a comma-separated list has a member, which is
// given in lower case and compared in any.
func ListContains(value []byte, member string) bool {
	if EqualToken(value, member) {
		return true
	}
	if len(value) <= len(member) {
		return false
	}
	for m := range List(value) {
		if EqualToken(m, member) {
			return true
		}
	}
	return false
}

// TrimSpace cuts optional white space, SP and HTAB, off both ends (RFC 9110
// section 5.6.3).
func TrimSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}
