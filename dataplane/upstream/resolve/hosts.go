package resolve

import (
	"net/netip"
	"strings"
)

// maxHosts bounds the lines of the hosts file that are read.
const maxHosts = 100_000

// hosts is what hosts(5) says: addresses by name, without case and final dot.
type hosts map[string][]netip.Addr

func parseHosts(text string) hosts {
	h := hosts{}
	n := 0
	for line := range strings.Lines(text) {
		if n++; n > maxHosts {
			break
		}
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		address, err := netip.ParseAddr(words[0])
		if err != nil {
			continue
		}
		for _, name := range words[1:] {
			name = plain(name)
			h[name] = append(h[name], address)
		}
	}
	return h
}

// plain is a name as it is compared.
func plain(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// known is what is known of a name without asking anybody: it is an address, or
// in the hosts file, or this host itself (RFC 6761 section 6.3).
func (h hosts) known(name string) (a Answers, ok bool) {
	name = plain(name)
	if address, err := netip.ParseAddr(name); err == nil {
		return answersOf([]netip.Addr{address}), true
	}
	if list := h[name]; len(list) > 0 {
		return answersOf(list), true
	}
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return answersOf([]netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}), true
	}
	return a, false
}

// answersOf sorts addresses by family. They may change at any time.
func answersOf(list []netip.Addr) (a Answers) {
	for _, address := range list {
		f := familyOf(address.Unmap())
		a[f].Addresses = append(a[f].Addresses, address.Unmap())
	}
	return a
}
