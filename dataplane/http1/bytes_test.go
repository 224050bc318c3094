package http1

import (
	"bytes"
	"strings"
	"testing"

	"github.com/headgate/headgate/dataplane/message"
)

// naiveValueEnd is RFC 9110 section 5.5 a byte at a time.
func naiveValueEnd(buf []byte, pos int) int {
	for ; pos < len(buf); pos++ {
		if c := buf[pos]; c != '\t' && c < ' ' || c == 0x7f {
			break
		}
	}
	return pos
}

// Every byte at every place of two words, beside every kind of neighbour.
func TestValueEnd(t *testing.T) {
	for _, fill := range []byte{'a', '\t', 0x80, 0xff} {
		for n := range 18 {
			for at := range n {
				buf := bytes.Repeat([]byte{fill}, n)
				for c := range 256 {
					buf[at] = byte(c)
					for pos := range min(at+2, 4) {
						if got, want := valueEnd(buf[:n:n], pos), naiveValueEnd(buf, pos); got != want {
							t.Fatalf("%q from %d: %d, want %d", buf, pos, got, want)
						}
					}
				}
			}
		}
	}
}

// What each byte may be part of, from the RFCs' own lists.
func TestEveryByte(t *testing.T) {
	const alnum = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	visible := ""
	for c := '!'; c <= '~'; c++ {
		visible += string(c)
	}
	without := func(s, chars string) string {
		return strings.Map(func(r rune) rune {
			if strings.ContainsRune(chars, r) {
				return -1
			}
			return r
		}, s)
	}
	for _, c := range []struct{ place, before, after, allowed string }{
		{"method", "G", " / HTTP/1.1\r\nHost: h\r\n\r\n", alnum + "!#$%&'*+-.^_`|~"},
		{"path", "GET /a", "b HTTP/1.1\r\nHost: h\r\n\r\n", without(visible, `#\`)},
		{"query", "GET /?a", "b HTTP/1.1\r\nHost: h\r\n\r\n", without(visible, "#")},
		{"field name", "GET / HTTP/1.1\r\nHost: h\r\nX", "y: z\r\n\r\n", alnum + "!#$%&'*+-.^_`|~:"},
		{"host", "GET / HTTP/1.1\r\nHost: a", "b\r\n\r\n", alnum + "-._~"},
		{"port", "GET / HTTP/1.1\r\nHost: a:1", "\r\n\r\n", "0123456789\t "},
		{"length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1", "1\r\n\r\n", "0123456789"},
	} {
		for b := range 256 {
			in := append(append([]byte(c.before), byte(b)), c.after...)
			n, err := ParseRequest(in, new(message.Request), nil)
			want := b < 0x80 && strings.IndexByte(c.allowed, byte(b)) >= 0
			if got := err == nil && n == len(in); got != want {
				t.Errorf("%s: byte %#02x: accepted %v, want %v (%v)", c.place, b, got, want, err)
			}
		}
	}
}
