package http1

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// Messages composed of pieces that parsers fall out over. They reach further than
// changed bytes do, and are judged as the fuzzers judge.

var (
	composedMethods = []string{"GET", "POST", "OPTIONS", "CONNECT", "PRI", "get", "G@T", ""}
	composedTargets = []string{
		"/", "/a?b", "*", "h:80", "[::1]:80", "http://x", "http://x/a", "https://x:1?q", "http://u@x/", "//x/a",
		"http://[::1]", "/%41%2f", "/a#b", "/a\\b", "/\xff", "a", "/a b", "HTTP://X", "http://x:y/", "", "/%",
	}
	composedVersions = []string{"HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "http/1.1", "HTTP/1.1 "}
	composedNames    = []string{
		"Host", "host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Expect", "TE", "Trailer",
		"X", "X_Y", "Content_Length", "Pragma", "X Y", "", " X", "\tHost", "Host ", "X\x00", "Cookie",
	}
	composedValues = []string{
		"h", "h:80", "[::1]:80", "h,g", "u@h", "", "5", "0", "+5", "5, 5", "05", "-1", "99999999999999999999", "chunked",
		"Chunked", "gzip, chunked", "chunked, chunked", "identity", "close", "keep-alive", "upgrade, x", "websocket",
		"100-continue", "trailers", "no-cache", "a\x00b", "a\x7fb", "a\rb", "a\nb", "\xff", "a\tb", "x\r\n y", "X-A",
	}
	composedEnds    = []string{"\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\n", "\r", " \r\n"}
	composedSizes   = []string{"0", "1", "5", "A", "05", "0x5", "-1", "", " 5", "5 ", "ffffffffffffffff", "8000000000000000"}
	composedExts    = []string{"", "", "", "", ";a", ";a=b", ";a=\"b;\"", ";", "; a", ";a=\"", ";a\x00"}
	composedStatus  = []string{"200", "204", "304", "100", "101", "404", "20", "2000", "099"}
	composedReasons = []string{" OK", " ", "", " \x00", "  a", "\tOK", " \xff"}
)

// composer draws pieces; most of them the first one, so that many messages are
// whole.
type composer struct {
	rand *rand.Rand
	out  strings.Builder
}

func (c *composer) add(pieces []string) { c.out.WriteString(pieces[c.rand.IntN(len(pieces))]) }

func (c *composer) mostly(usual string, pieces []string) {
	if c.rand.IntN(4) > 0 {
		c.out.WriteString(usual)
		return
	}
	c.add(pieces)
}

func (c *composer) fields() {
	for range c.rand.IntN(4) {
		c.add(composedNames)
		c.mostly(": ", []string{":", " : ", ":\t", "", ":  "})
		c.add(composedValues)
		c.mostly("\r\n", composedEnds)
	}
	c.mostly("\r\n", composedEnds)
}

func (c *composer) request() string {
	c.out.Reset()
	c.mostly("GET", composedMethods)
	c.out.WriteString(" ")
	c.mostly("/", composedTargets)
	c.out.WriteString(" ")
	c.mostly("HTTP/1.1", composedVersions)
	c.mostly("\r\n", composedEnds)
	c.mostly("Host: h\r\n", []string{"", "Host:\r\n", "Host: h\r\nHost: h\r\n"})
	c.fields()
	return c.out.String()
}

func (c *composer) response() string {
	c.out.Reset()
	c.mostly("HTTP/1.1", composedVersions)
	c.out.WriteString(" ")
	c.add(composedStatus)
	c.mostly(" OK", composedReasons)
	c.mostly("\r\n", composedEnds)
	c.fields()
	return c.out.String()
}

func (c *composer) chunks() string {
	c.out.Reset()
	for range c.rand.IntN(3) {
		c.mostly("5", composedSizes)
		c.add(composedExts)
		c.mostly("\r\n", composedEnds)
		c.mostly("hello", []string{"hell", "hello!", "", "a", "0123456789"})
		c.mostly("\r\n", composedEnds)
	}
	c.mostly("0", composedSizes)
	c.add(composedExts)
	c.mostly("\r\n", composedEnds)
	c.fields()
	c.mostly("", []string{"GET / HTTP/1.1\r\n\r\n"})
	return c.out.String()
}

func TestComposedMessages(t *testing.T) {
	const rounds = 4000
	c := composer{rand: rand.New(rand.NewPCG(1, 2))}
	for range rounds {
		checkRequest(t, []byte(c.request()))
		checkResponse(t, []byte(c.response()), c.rand.IntN(8) == 0)
		checkChunked(t, []byte(c.chunks()), uint8(c.rand.IntN(16)))
		if t.Failed() {
			return
		}
	}
}
