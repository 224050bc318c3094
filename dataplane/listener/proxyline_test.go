package listener

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

// version2 is a line of version 2 with its length filled in.
func version2(command, family byte, rest string) string {
	head := append([]byte(signature), command, family)
	return string(binary.BigEndian.AppendUint16(head, uint16(len(rest)))) + rest
}

const (
	addresses4 = "\xc0\x00\x02\x01\x0a\x00\x00\x01\x1f\x90\x01\xbb"
	addresses6 = "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01" + "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02" + "\x1f\x90\x01\xbb"
	mapped6    = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xc0\x00\x02\x01" + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x0a\x00\x00\x01" + "\x1f\x90\x01\xbb"
)

// What is taken, and for whom; "!" is what is refused, "" a line without an
// address.
var proxyLines = []struct{ name, line, client string }{
	{"TCP4", "PROXY TCP4 192.0.2.1 10.0.0.1 8080 443\r\n", "192.0.2.1:8080"},
	{"TCP6", "PROXY TCP6 2001:db8::1 2001:db8::2 8080 443\r\n", "[2001:db8::1]:8080"},
	{"TCP6 with IPv4 inside", "PROXY TCP6 ::ffff:192.0.2.1 ::ffff:10.0.0.1 8080 443\r\n", "192.0.2.1:8080"},
	{"highest port", "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", "255.255.255.255:65535"},
	{"port 0", "PROXY TCP4 192.0.2.1 10.0.0.1 0 443\r\n", "192.0.2.1:0"},
	{"unknown", "PROXY UNKNOWN\r\n", ""},
	{"unknown with more", "PROXY UNKNOWN ffff:f...f:ffff eeee:e...e:eeee 65535 65535\r\n", ""},
	{"longest", "PROXY UNKNOWN " + strings.Repeat("x", maxLine-16) + "\r\n", ""},

	{"too long", "PROXY UNKNOWN " + strings.Repeat("x", maxLine-15) + "\r\n", "!"},
	{"lower case", "proxy TCP4 192.0.2.1 10.0.0.1 8080 443\r\n", "!"},
	{"unknown protocol", "PROXY UDP4 192.0.2.1 10.0.0.1 8080 443\r\n", "!"},
	{"nothing behind", "PROXY TCP4\r\n      ", "!"},
	{"LF alone", "PROXY TCP4 192.0.2.1 10.0.0.1 8080 443\n", "!"},
	{"CR inside", "PROXY TCP4 192.0.2.1 10.0.0.1 8080 443\r\r\n", "!"},
	{"two spaces", "PROXY TCP4  192.0.2.1 10.0.0.1 8080 443\r\n", "!"},
	{"space at the end", "PROXY TCP4 192.0.2.1 10.0.0.1 8080 443 \r\n", "!"},
	{"tab", "PROXY TCP4\t192.0.2.1 10.0.0.1 8080 443\r\n", "!"},
	{"too few words", "PROXY TCP4 192.0.2.1 10.0.0.1 8080\r\n", "!"},
	{"too many words", "PROXY TCP4 192.0.2.1 10.0.0.1 8080 443 1\r\n", "!"},
	{"port too high", "PROXY TCP4 192.0.2.1 10.0.0.1 65536 443\r\n", "!"},
	{"port with a zero", "PROXY TCP4 192.0.2.1 10.0.0.1 08080 443\r\n", "!"},
	{"port with a sign", "PROXY TCP4 192.0.2.1 10.0.0.1 +8080 443\r\n", "!"},
	{"address with a zero", "PROXY TCP4 192.0.2.01 10.0.0.1 8080 443\r\n", "!"},
	{"IPv6 as TCP4", "PROXY TCP4 2001:db8::1 2001:db8::2 8080 443\r\n", "!"},
	{"IPv4 as TCP6", "PROXY TCP6 192.0.2.1 10.0.0.1 8080 443\r\n", "!"},
	{"zone", "PROXY TCP6 fe80::1%eth0 fe80::2 8080 443\r\n", "!"},
	{"bad destination", "PROXY TCP4 192.0.2.1 nowhere 8080 443\r\n", "!"},
	{"a request", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "!"},
	{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x00\x00\x00\x00", "!"},

	{"v2 TCP4", version2(0x21, 0x11, addresses4), "192.0.2.1:8080"},
	{"v2 TCP6", version2(0x21, 0x21, addresses6), "[2001:db8::1]:8080"},
	{"v2 TCP6 with IPv4 inside", version2(0x21, 0x21, mapped6), "192.0.2.1:8080"},
	{"v2 unix", version2(0x21, 0x31, strings.Repeat("p", 216)), ""},
	{"v2 unspecified", version2(0x21, 0x00, "whatever"), ""},
	{"v2 local", version2(0x20, 0x11, addresses4), ""},
	{"v2 local, odd family", version2(0x20, 0xff, "whatever"), ""},
	{"v2 local, nothing", version2(0x20, 0x00, ""), ""},
	{"v2 with TLVs", version2(0x21, 0x11, addresses4+"\x04\x00\x02ab\xea\x00\x00"), "192.0.2.1:8080"},
	{"v2 with the most", version2(0x21, 0x11, addresses4+"\x04\x0f\xf1"+strings.Repeat("x", 0xff1)), "192.0.2.1:8080"},

	{"v2 with more than that", version2(0x21, 0x11, addresses4+"\x04\x0f\xf2"+strings.Repeat("x", 0xff2)), "!"},
	{"v2 of a version 3", version2(0x31, 0x11, addresses4), "!"},
	{"v2 of a version 1", version2(0x11, 0x11, addresses4), "!"},
	{"v2 with another command", version2(0x22, 0x11, addresses4), "!"},
	{"v2 of datagrams", version2(0x21, 0x12, addresses4), "!"},
	{"v2 of a family that is none", version2(0x21, 0x41, addresses4), "!"},
	{"v2 too short", version2(0x21, 0x11, addresses4[:11]), "!"},
	{"v2 TCP6 too short", version2(0x21, 0x21, addresses6[:35]), "!"},
	{"v2 with half a TLV", version2(0x21, 0x11, addresses4+"\x04\x00"), "!"},
	{"v2 with a TLV cut short", version2(0x21, 0x11, addresses4+"\x04\x00\x03ab"), "!"},
	{"v2 signature and more", signature[:11] + "\r" + "\x21\x11\x00\x00", "!"},
}

func TestParseProxyLine(t *testing.T) {
	for _, test := range proxyLines {
		line, n, err := parseProxyLine([]byte(test.line + "the rest"))
		switch {
		case test.client == "!":
			if err == nil {
				t.Errorf("%s: taken, for %v", test.name, line.client)
			}
			continue
		case err != nil || n != len(test.line):
			t.Errorf("%s: %d bytes of %d, %v", test.name, n, len(test.line), err)
		case test.client == "" && line.client.IsValid(), test.client != "" && line.client.String() != test.client:
			t.Errorf("%s: for %v", test.name, line.client)
		}
		// As long as it is not whole, more is waited for, and never too much.
		for i := range len(test.line) {
			_, n, err := parseProxyLine([]byte(test.line[:i]))
			if n != 0 || err != nil {
				t.Errorf("%s: %d bytes are enough: %d, %v", test.name, i, n, err)
			}
			if sure := certain([]byte(test.line[:i])); i+sure > len(test.line) {
				t.Errorf("%s: after %d bytes %d are certain", test.name, i, sure)
			}
		}
	}
}

// FuzzProxyLine holds the parser to what it may never do: take what is whole for
// something else when more comes, or ask for bytes that are not its own.
func FuzzProxyLine(f *testing.F) {
	for _, test := range proxyLines {
		f.Add([]byte(test.line))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		line, n, err := parseProxyLine(b)
		if n > len(b) || n > headLength+maxRest || err != nil && line.client.IsValid() {
			t.Fatalf("%v, %d, %v", line, n, err)
		}
		if err != nil || n == 0 {
			return
		}
		again, m, err := parseProxyLine(append(bytes.Clone(b[:n]), "GET / HTTP/1.1\r\n"...))
		if again != line || m != n || err != nil {
			t.Fatalf("%v, %d, %v with other bytes behind it, %v, %d without", again, m, err, line, n)
		}
		for i := range n {
			if _, m, err := parseProxyLine(b[:i]); m != 0 || err != nil {
				t.Fatalf("%d bytes of %d are %d, %v", i, n, m, err)
			}
			if certain(b[:i])+i > n {
				t.Fatalf("after %d bytes of %d, %d are certain", i, n, certain(b[:i]))
			}
		}
		if line.client.IsValid() && line.client.Addr() != line.client.Addr().Unmap().WithZone("") {
			t.Fatalf("client %v", line.client)
		}
	})
}
