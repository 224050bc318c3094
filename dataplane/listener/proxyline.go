package listener

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"strconv"
	"strings"
)

// What stands before the first byte of a connection when a proxy says for whom
// it was made: the PROXY protocol of HAProxy (doc/proxy-protocol.txt), in its
// versions 1 and 2.
const (
	// maxLine is the longest line of version 1, with its CRLF (section 2.1).
	maxLine = 107
	// headLength is the fixed part of version 2 (section 2.2).
	headLength = 16
	// maxRest bounds what follows it, in bytes: addresses take up to 216, and
	// whoever sends certificates in TLVs some thousands.
	maxRest = 4096
	// shortest is what every form of both versions has at least: the line
	// "PROXY UNKNOWN\r\n".
	shortest = 15
)

const signature = "\r\n\r\n\x00\r\nQUIT\n"

// errProxyLine is what is said of everything that is not the PROXY protocol.
var errProxyLine = errors.New("listener: not a PROXY line")

// proxyLine is what a proxy says of a connection.
type proxyLine struct {
	client netip.AddrPort // the zero AddrPort: nothing, the connection is the proxy's own
}

// parseProxyLine reads what a connection begins with. n is its length in bytes,
// or 0 if more must come. What is not exactly as specified is an error: a line
// that two readers could read in two ways lets clients lie.
func parseProxyLine(b []byte) (line proxyLine, n int, err error) {
	known := min(len(b), len(signature))
	if string(b[:known]) == signature[:known] {
		return parseVersion2(b)
	}
	return parseVersion1(b)
}

// certain is how many bytes after b belong to the PROXY line for sure. It is 0
// if that cannot be told, which is so in the middle of a line of version 1.
func certain(b []byte) int {
	switch {
	case len(b) < shortest:
		return shortest - len(b)
	case b[0] != signature[0]:
		return 0
	case len(b) < headLength:
		return headLength - len(b)
	}
	return headLength + int(binary.BigEndian.Uint16(b[14:])) - len(b)
}

func parseVersion1(b []byte) (line proxyLine, n int, err error) {
	const prefix = "PROXY "
	known := min(len(b), len(prefix))
	if string(b[:known]) != prefix[:known] {
		return line, 0, errProxyLine
	}
	end := bytes.IndexByte(b[:min(len(b), maxLine)], '\n')
	switch {
	case end < 0 && len(b) < maxLine:
		return line, 0, nil
	case end < 0 || b[end-1] != '\r':
		return line, 0, errProxyLine
	}
	line, err = parseWords(string(b[len(prefix) : end-1]))
	return line, end + 1, err
}

// parseWords reads what is behind "PROXY ".
func parseWords(text string) (line proxyLine, err error) {
	protocol, rest, _ := strings.Cut(text, " ")
	if protocol == "UNKNOWN" {
		return line, nil // whatever follows is to be ignored
	}
	words := strings.Split(rest, " ")
	if protocol != "TCP4" && protocol != "TCP6" || len(words) != 4 {
		return line, errProxyLine
	}
	source, fromOK := parseAddress(words[0], words[2], protocol == "TCP4")
	_, toOK := parseAddress(words[1], words[3], protocol == "TCP4")
	if !fromOK || !toOK {
		return line, errProxyLine
	}
	return proxyLine{client: source}, nil
}

// parseAddress reads an address in its usual form and a port without leading
// zeros.
func parseAddress(address, port string, v4 bool) (netip.AddrPort, bool) {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Is4() != v4 || ip.Zone() != "" {
		return netip.AddrPort{}, false
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || strconv.FormatUint(number, 10) != port {
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(number)), true
}

// The second halves of the bytes 13 and 14 of version 2.
const (
	commandLocal = 0
	commandProxy = 1

	familyUnspecified = 0x00
	familyTCP4        = 0x11
	familyTCP6        = 0x21
	familyUnix        = 0x31
)

func parseVersion2(b []byte) (line proxyLine, n int, err error) {
	if len(b) < headLength {
		return line, 0, nil
	}
	length := int(binary.BigEndian.Uint16(b[14:]))
	if b[12]>>4 != 2 || length > maxRest {
		return line, 0, errProxyLine
	}
	if n = headLength + length; len(b) < n {
		return line, 0, nil
	}
	switch b[12] & 0x0f {
	case commandLocal:
		return line, n, nil // the family and what follows are to be ignored
	case commandProxy:
		line, err = parseAddresses(b[13], b[headLength:n])
		return line, n, err
	}
	return line, 0, errProxyLine
}

// parseAddresses reads the addresses of version 2. TLVs may follow them; none is
// of interest, but they must be whole.
func parseAddresses(family byte, rest []byte) (line proxyLine, err error) {
	var size int
	switch family {
	case familyUnspecified:
		return line, nil
	case familyTCP4:
		size = 4 + 4 + 2 + 2
	case familyTCP6:
		size = 16 + 16 + 2 + 2
	case familyUnix:
		size = 108 + 108
	default: // datagrams among them, which no connection is made of
		return line, errProxyLine
	}
	if len(rest) < size || !wholeTLVs(rest[size:]) {
		return line, errProxyLine
	}
	if family == familyUnix {
		return line, nil // a path is no address of a client
	}
	half := (size - 4) / 2
	ip, _ := netip.AddrFromSlice(rest[:half])
	return proxyLine{client: netip.AddrPortFrom(ip.Unmap(), binary.BigEndian.Uint16(rest[2*half:]))}, nil
}

// wholeTLVs reports whether bytes are a sequence of type, length and value.
func wholeTLVs(b []byte) bool {
	for len(b) > 0 {
		if len(b) < 3 {
			return false
		}
		length := 3 + int(binary.BigEndian.Uint16(b[1:]))
		if len(b) < length {
			return false
		}
		b = b[length:]
	}
	return true
}
