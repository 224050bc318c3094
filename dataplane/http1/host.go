package http1

import "bytes"

// host is an authority without userinfo: uri-host [ ":" port ] (RFC 9110 section
// 7.2, RFC 3986 section 3.2).
type host struct {
	name []byte // brackets of an IPv6 address included; may be empty
	port int    // -1 when there is none, or it is empty
}

// parseHost splits an authority; the reason says why it is not one.
func parseHost(b []byte) (h host, reason string) {
	var end int
	if len(b) > 0 && b[0] == '[' {
		end, reason = bracketed(b)
	} else {
		end, reason = registeredName(b)
	}
	if reason != "" {
		return h, reason
	}
	h.name, h.port = b[:end], -1
	if end == len(b) {
		return h, ""
	}
	if b[end] != ':' {
		if bytes.IndexByte(b[end:], '@') >= 0 {
			return h, "user information"
		}
		return h, "byte not allowed in a host"
	}
	if end == 0 {
		return h, "port without a host"
	}
	return h, h.parsePort(b[end+1:])
}

// bracketed is where an IPv6 address in brackets ends.
func bracketed(b []byte) (end int, reason string) {
	end = bytes.IndexByte(b, ']')
	if end < 0 || !isIPv6(b[1:end]) {
		return 0, "bad IPv6 address"
	}
	return end + 1, ""
}

// registeredName is where a name ends. Names that are not the same name to
// everybody, for an empty label, are refused; one dot at the end is the root's.
func registeredName(b []byte) (end int, reason string) {
	before := byte('.')
	for i, c := range b {
		if c == '.' && before == '.' {
			return 0, "empty label in a host"
		}
		if !is(c, classHost) {
			return i, ""
		}
		before = c
	}
	return len(b), ""
}

// parsePort reads up to five digits; none at all is no port (RFC 3986 section
// 3.2.3).
func (h *host) parsePort(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if bytes.IndexByte(b, '@') >= 0 {
		return "user information"
	}
	port := 0
	for _, c := range b {
		if !is(c, classDigit) || len(b) > 5 {
			return "bad port"
		}
		port = port*10 + int(c-'0')
	}
	if port > 65535 {
		return "bad port"
	}
	h.port = port
	return ""
}

// isIPv6 checks the text form of an address (RFC 4291 section 2.2), without a
// zone.
func isIPv6(b []byte) bool {
	groups, gap := 0, false
	if bytes.HasPrefix(b, colons) {
		gap, b = true, b[2:]
	}
	for len(b) > 0 {
		n := wordEnd(b, 0, 5, classHex)
		if n < len(b) && b[n] == '.' {
			return isIPv4(b) && fillsIPv6(groups+2, gap)
		}
		if n == 0 || n > 4 {
			return false
		}
		groups, b = groups+1, b[n:]
		switch {
		case len(b) == 0:
		case bytes.HasPrefix(b, colons) && !gap:
			gap, b = true, b[2:]
		case b[0] == ':' && len(b) > 1:
			b = b[1:]
		default:
			return false
		}
	}
	return fillsIPv6(groups, gap)
}

// fillsIPv6 reports whether there are eight groups; a gap stands for at least
// one.
func fillsIPv6(groups int, gap bool) bool { return groups == 8 && !gap || groups < 8 && gap }

var colons = []byte("::")

// isIPv4 checks four decimal numbers without leading zeros.
func isIPv4(b []byte) bool {
	for part := range 4 {
		n, value := 0, 0
		for ; n < len(b) && n < 4 && is(b[n], classDigit); n++ {
			value = value*10 + int(b[n]-'0')
		}
		if n == 0 || value > 255 || n > 1 && b[0] == '0' {
			return false
		}
		b = b[n:]
		if part < 3 {
			if len(b) == 0 || b[0] != '.' {
				return false
			}
			b = b[1:]
		}
	}
	return len(b) == 0
}
