package route

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// checkHost takes a host name, an IP address (IPv6 in brackets) or a wildcard.
func checkHost(host string) error {
	name, wild := strings.CutPrefix(host, "*.")
	switch {
	case host == "":
		return errors.New("is empty; leave hosts out to match any")
	case host == "*":
		return errors.New(`"*" alone is not allowed; leave hosts out to match any`)
	case len(host) > maxHost-2:
		return fmt.Errorf("has %d bytes; a host name has at most %d", len(host), maxHost-2)
	case !wild && strings.HasPrefix(name, "["):
		return checkIPv6(name)
	}
	for label := range strings.SplitSeq(name, ".") {
		if err := checkLabel(label); err != nil {
			return fmt.Errorf("%q: %w", host, err)
		}
	}
	return nil
}

// checkIPv6 wants the canonical form, because hosts are compared as text.
func checkIPv6(host string) error {
	inner, ok := strings.CutSuffix(host[1:], "]")
	addr, err := netip.ParseAddr(inner)
	if !ok || err != nil || !addr.Is6() || addr.Zone() != "" {
		return fmt.Errorf("%q is not an IPv6 address in brackets, without port", host)
	}
	if addr.String() != inner {
		return fmt.Errorf("%q is to be written [%s]", host, addr)
	}
	return nil
}

// checkLabel takes letters, digits, "-" and "_" (which DNS names of services
// have, though host names do not).
func checkLabel(label string) error {
	if label == "" {
		return errors.New("has an empty label")
	}
	if len(label) > 63 {
		return errors.New("has a label of more than 63 bytes")
	}
	for i := range len(label) {
		c := label[i]
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
		case 'A' <= c && c <= 'Z':
			return errors.New("is to be written in lower case")
		case c == '*':
			return errors.New(`"*" may only stand for whole labels at the front, as in *.example.com`)
		case c == ':':
			return errors.New("has a port; ports are not compared")
		default:
			return fmt.Errorf("has a byte %q", c)
		}
	}
	return nil
}

// checkPath takes what a normalized path can be or begin with; anything else
// would be a route that silently never matches.
func checkPath(path string) error {
	if !strings.HasPrefix(path, "/") {
		return fmt.Errorf(`%q does not begin with "/"`, path)
	}
	for i := range len(path) {
		switch c := path[i]; {
		case c == '?' || c == '#':
			return fmt.Errorf("%q has a %q: only the path is compared", path, c)
		case c <= ' ' || c >= 0x7f:
			return fmt.Errorf("%q has a byte 0x%02X; paths carry it as %%%02X", path, c, c)
		case c == '%':
			if err := checkEscape(path[i:]); err != nil {
				return fmt.Errorf("%q: %w", path, err)
			}
		}
	}
	for element := range strings.SplitSeq(path[1:], "/") {
		if element == "." || element == ".." {
			return fmt.Errorf("%q has an element %q, which no normalized path has", path, element)
		}
	}
	return nil
}

// checkEscape refuses an escape that normalizing would have decoded or refused
// (RFC 3986 section 6.2.2.2).
func checkEscape(s string) error {
	c, size := decodeByte([]byte(s))
	switch {
	case size != 3:
		return errors.New("has a bad percent escape")
	case c < ' ' || c == 0x7f:
		return fmt.Errorf("has the control byte %s, which no path has", s[:3])
	case isUnreserved(c):
		return fmt.Errorf("%s is to be written %c", s[:3], c)
	}
	return nil
}

// isUnreserved follows RFC 3986 section 2.3.
func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// checkMethod takes an upper-case token. Methods are compared with regard to
// case (RFC 9110 section 9.1).
func checkMethod(name string) error {
	if !isToken(name) {
		return fmt.Errorf("%q is not a method", name)
	}
	if upper := strings.ToUpper(name); upper != name {
		return fmt.Errorf("%q is to be written %s", name, upper)
	}
	return nil
}

// isToken follows RFC 9110 section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}
