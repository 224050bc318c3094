package http2

import (
	"bytes"
	"net/netip"
)

// Classes of bytes, as bits of one table.
const (
	classToken uint8 = 1 << iota // tchar (RFC 9110 section 5.6.2)
	className                    // tchar without upper case (RFC 9113 section 8.2.1)
	classPath                    // may stand in :path before "?"
	classQuery                   // may stand in :path after "?"
	classHost                    // may stand in a registered name
	classValue                   // HTAB, SP, VCHAR, obs-text
	classDigit
)

var classes = func() (table [256]uint8) {
	for c := range 256 {
		if c >= 0x20 && c != 0x7f || c == '\t' {
			table[c] |= classValue
		}
		if 0x21 <= c && c <= 0x7e && c != '#' {
			table[c] |= classPath | classQuery
		}
	}
	mark := func(chars string, class uint8) {
		for i := range len(chars) {
			table[chars[i]] |= class
		}
	}
	const digits = "0123456789"
	const small = "abcdefghijklmnopqrstuvwxyz"
	const large = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	mark(digits+small+"!#$%&'*+-.^_`|~", classToken|className)
	mark(large, classToken)
	mark(digits+small+large+"-._~", classHost)
	mark(digits, classDigit)
	table['\\'] &^= classPath
	table['?'] &^= classPath
	return table
}()

// all reports whether every byte is of a class.
func all[T string | []byte](s T, class uint8) bool {
	for i := range len(s) {
		if classes[s[i]]&class == 0 {
			return false
		}
	}
	return true
}

// cutHost takes the port off an authority (RFC 9110 section 7.2, RFC 3986
// section 3.2): port is -1 when there is none or it is empty. The reason says why
// it is not one.
func cutHost(b []byte) (name []byte, port int, reason string) {
	end, reason := hostEnd(b)
	switch {
	case reason != "":
		return nil, 0, reason
	case end == len(b):
		return b, -1, ""
	case bytes.IndexByte(b[end:], '@') >= 0:
		return nil, 0, "user information"
	case b[end] != ':':
		return nil, 0, "byte not allowed in a host"
	case end == 0:
		return nil, 0, "port without a host"
	}
	port, ok := parsePort(b[end+1:])
	if !ok {
		return nil, 0, "bad port"
	}
	return b[:end], port, ""
}

// hostEnd is where the host of an authority ends. Names that are not the same
// name to everybody, for an empty label, are refused.
func hostEnd(b []byte) (end int, reason string) {
	if len(b) > 0 && b[0] == '[' {
		end = bytes.IndexByte(b, ']')
		if end < 0 || !isIPv6(b[1:end]) {
			return 0, "bad IPv6 address"
		}
		return end + 1, ""
	}
	before := byte('.')
	for i, c := range b {
		if c == '.' && before == '.' {
			return 0, "empty label in a host"
		}
		if classes[c]&classHost == 0 {
			return i, ""
		}
		before = c
	}
	return len(b), ""
}

// isIPv6 checks an address without a zone.
func isIPv6(b []byte) bool {
	addr, err := netip.ParseAddr(string(b))
	return err == nil && addr.Is6() && addr.Zone() == ""
}

// parsePort reads up to five digits; none at all is no port (RFC 3986 section
// 3.2.3).
func parsePort(b []byte) (int, bool) {
	if len(b) == 0 {
		return -1, true
	}
	if len(b) > 5 || !all(b, classDigit) {
		return 0, false
	}
	port := 0
	for _, c := range b {
		port = port*10 + int(c-'0')
	}
	return port, port <= 65535
}

// parseLength reads the digits of a Content-Length (RFC 9110 section 8.6).
func parseLength(value []byte) (int64, bool) {
	// 18 digits always fit.
	if len(value) == 0 || len(value) > 18 || !all(value, classDigit) {
		return 0, false
	}
	n := int64(0)
	for _, c := range value {
		n = n*10 + int64(c-'0')
	}
	return n, true
}
