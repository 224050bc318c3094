package snapshot

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Networks of addresses, as package net names them.
const (
	networkTCP  = "tcp"
	networkUnix = "unix"
)

// maxUnixPath is what fits in a sockaddr_un on Linux, with its NUL.
const maxUnixPath = 107

// listenAddress takes apart host:port, [v6]:port, :port or unix:/path, and
// gives what package net wants of it.
func listenAddress(s string) (network, address string, err error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		return networkUnix, path, unixPath(path)
	}
	host, port, err := hostPort(s)
	if err != nil {
		return "", "", err
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.String()
	}
	return networkTCP, net.JoinHostPort(host, strconv.Itoa(port)), nil
}

// errHostName is the refusal of an endpoint that would have to be looked up.
var errHostName = errors.New("is a host name: an endpoint is an IP address and a port, or unix:/path; to look names up use dns instead of endpoints")

// endpointAddress brings IP:port, [v6]:port or unix:/path to one form.
func endpointAddress(s string) (string, error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		return s, unixPath(path)
	}
	host, port, err := hostPort(s)
	if err != nil {
		return "", err
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil && host == "":
		return "", errors.New("needs an IP address before the port")
	case err != nil && strings.Trim(host, "0123456789.") == "":
		return "", errors.New("is not an IPv4 address")
	case err != nil && strings.Contains(host, ":"):
		return "", errors.New("is not an IPv6 address")
	case err != nil:
		return "", errHostName
	case ip.IsUnspecified():
		return "", errors.New("cannot be connected to: the address is unspecified")
	case port == 0:
		return "", errors.New("needs a port from 1 to 65535")
	}
	return netip.AddrPortFrom(ip, uint16(port)).String(), nil
}

// hostPort splits at the last colon and reads the port.
func hostPort(s string) (string, int, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", 0, errors.New("must be host:port, [v6]:port or unix:/path")
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", 0, errors.New("needs a port from 0 to 65535")
	}
	return host, int(number), nil
}

func unixPath(path string) error {
	switch {
	case !strings.HasPrefix(path, "/"):
		return errors.New("needs an absolute path, as in unix:/path")
	case len(path) > maxUnixPath:
		return errors.New("is too long for a unix socket: at most 107 bytes")
	case strings.IndexByte(path, 0) >= 0:
		return errors.New("contains a NUL byte")
	}
	return nil
}

// overlap reports whether two listeners cannot both be bound: they have the
// same address, or the same port where one of them takes every address of the
// machine. Ports that the kernel chooses never collide.
func overlap(a, b *Listener) bool {
	if a.Network != b.Network || a.Network == networkUnix {
		return a.Network == b.Network && a.Address == b.Address
	}
	hostA, portA, _ := net.SplitHostPort(a.Address)
	hostB, portB, _ := net.SplitHostPort(b.Address)
	if portA != portB || portA == "0" {
		return false
	}
	return hostA == hostB || covers(hostA, hostB) || covers(hostB, hostA)
}

// covers reports whether a host stands for every address, the other included.
// "0.0.0.0" is every IPv4 address; "" and "::" are IPv6 ones too.
func covers(all, host string) bool {
	switch all {
	case "", "::":
		return true
	case "0.0.0.0":
		ip, err := netip.ParseAddr(host)
		return err != nil || ip.Is4()
	}
	return false
}

// prefixes reads addresses and CIDR prefixes.
func prefixes(list []string, field string, f *faults) []netip.Prefix {
	var out []netip.Prefix
	for i, s := range list {
		prefix, err := parsePrefix(s)
		if err != nil {
			f.add(RuleAddress, item(field, i), "%s is not an IP address or a prefix such as 10.0.0.0/8", quote(s))
			continue
		}
		out = append(out, prefix)
	}
	return out
}

// parsePrefix reads one of them. An IPv4 address in IPv6 clothes is the IPv4
// one, which is what the address of a client is compared as.
func parsePrefix(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		ip, err := netip.ParseAddr(s)
		if err != nil {
			return netip.Prefix{}, err
		}
		ip = ip.WithZone("").Unmap()
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, err
	}
	if ip := prefix.Addr(); ip.Is4In6() && prefix.Bits() >= 96 {
		prefix = netip.PrefixFrom(ip.Unmap(), prefix.Bits()-96)
	}
	return prefix.Masked(), nil
}
