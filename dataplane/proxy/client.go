package proxy

import (
	"bytes"
	"net/netip"
	"slices"

	"github.com/headgate/headgate/dataplane/message"
)

// identify finds who sent the request. Behind trusted proxies it is the
// right-most address in X-Forwarded-For that is not a trusted one: what stands
// further left was written by somebody that nobody vouches for.
func (x *exchange) identify() {
	x.client = x.conn.peer
	trusted := x.site.listener.Trusted
	if len(trusted) == 0 || !contains(trusted, x.conn.peer) {
		return
	}
	x.trusted = true
	fields := x.req.Fields.All()
	for i := range slices.Backward(fields) {
		if fields[i].ID == message.XForwardedFor && !x.walkForwarded(fields[i].Value, trusted) {
			return
		}
	}
}

// walkForwarded takes the addresses of one X-Forwarded-For line from the right.
// It reports whether the walk goes on to the line before.
func (x *exchange) walkForwarded(list []byte, trusted []netip.Prefix) bool {
	for len(list) > 0 {
		i := bytes.LastIndexByte(list, ',')
		addr, ok := parseAddr(message.TrimSpace(list[i+1:]))
		if !ok {
			return false
		}
		x.client = addr
		if !contains(trusted, addr) || i < 0 {
			return contains(trusted, addr)
		}
		list = list[:i]
	}
	return true
}

// parseAddr reads an address with or without a port, in the forms that proxies
// write. The most common is read without making a string of it.
func parseAddr(b []byte) (netip.Addr, bool) {
	if addr, ok := parseIPv4(b); ok {
		return addr, true
	}
	if addr, err := netip.ParseAddr(string(bytes.Trim(b, "[]"))); err == nil {
		return addr.Unmap(), true
	}
	if ap, err := netip.ParseAddrPort(string(b)); err == nil {
		return ap.Addr().Unmap(), true
	}
	return netip.Addr{}, false
}

// parseIPv4 reads four decimal numbers without leading zeros.
func parseIPv4(b []byte) (netip.Addr, bool) {
	var octets [4]byte
	for i := range octets {
		n, digits := 0, 0
		leading := len(b) > 0 && b[0] == '0'
		for ; len(b) > 0 && '0' <= b[0] && b[0] <= '9' && n < 256; b = b[1:] {
			n = n*10 + int(b[0]-'0')
			digits++
		}
		if digits == 0 || n > 255 || digits > 1 && leading {
			return netip.Addr{}, false
		}
		octets[i] = byte(n)
		if i == 3 {
			break
		}
		if len(b) == 0 || b[0] != '.' {
			return netip.Addr{}, false
		}
		b = b[1:]
	}
	return netip.AddrFrom4(octets), len(b) == 0
}

func contains(prefixes []netip.Prefix, addr netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// appendForwarded writes the X-Forwarded fields on HTTP/1.
func (x *exchange) appendForwarded(dst []byte) []byte {
	chain, proto, host := x.forwarded()
	if chain {
		dst = append(dst, "X-Forwarded-For: "...)
		dst = append(x.appendChain(dst), "\r\n"...)
	}
	if proto {
		dst = appendField(dst, "X-Forwarded-Proto", x.scheme())
	}
	if host {
		dst = appendField(dst, "X-Forwarded-Host", x.req.Authority)
	}
	return dst
}

// addForwarded adds the X-Forwarded fields on HTTP/2.
func (x *exchange) addForwarded() {
	chain, proto, host := x.forwarded()
	if chain {
		x.addOut(message.XForwardedFor, x.appendChain(x.out))
	}
	if proto {
		x.addOut(message.XForwardedProto, append(x.out, x.scheme()...))
	}
	if host {
		x.fields.AddID(message.XForwardedHost, message.XForwardedHost.Bytes(), x.req.Authority)
	}
}

// forwarded says which of the X-Forwarded fields are written. The chain of
// X-Forwarded-For is kept and the peer appended; the others are ours unless the
// peer is trusted. What the route removes or sets is left to it.
func (x *exchange) forwarded() (chain, proto, host bool) {
	fields, edits := &x.req.Fields, &x.route.request
	chain = (x.conn.peer.IsValid() || fields.Has(message.XForwardedFor)) && !edits.dropsID(message.XForwardedFor)
	proto = (!x.trusted || !fields.Has(message.XForwardedProto)) && !edits.dropsID(message.XForwardedProto)
	host = len(x.req.Authority) > 0 && (!x.trusted || !fields.Has(message.XForwardedHost)) && !edits.dropsID(message.XForwardedHost)
	return chain, proto, host
}

// cameByTLS reports whether the client used https, as the proxies say that are
// trusted.
func (x *exchange) cameByTLS() bool {
	if x.trusted && x.req.Fields.Has(message.XForwardedProto) {
		proto := x.req.Fields.Get(message.XForwardedProto)
		return message.EqualToken(proto, "https") || message.EqualToken(proto, "wss")
	}
	return x.req.HTTPS
}

func (x *exchange) scheme() string {
	if x.req.HTTPS {
		return "https"
	}
	return "http"
}

func (x *exchange) appendChain(dst []byte) []byte {
	sep := ""
	if x.req.Fields.Has(message.XForwardedFor) {
		fields := x.req.Fields.All()
		for i := range fields {
			if fields[i].ID == message.XForwardedFor && len(fields[i].Value) > 0 {
				dst = append(append(dst, sep...), fields[i].Value...)
				sep = ", "
			}
		}
	}
	if !x.conn.peer.IsValid() {
		return dst
	}
	return x.conn.peer.AppendTo(append(dst, sep...))
}
