package proxy_test

import (
	"strings"
	"testing"
)

// Requests that two parsers could read differently. None of them, nor what
// stands behind them, may reach the upstream.
var smuggling = []struct{ name, head string }{
	{"CL.TE", "Content-Length: 6\r\nTransfer-Encoding: chunked"},
	{"TE.CL", "Transfer-Encoding: chunked\r\nContent-Length: 6"},
	{"TE.TE obfuscated", "Transfer-Encoding: chunked\r\nTransfer-Encoding: x"},
	{"TE with a space before the colon", "Transfer-Encoding : chunked"},
	{"TE with a tab", "Transfer-Encoding:\tchunked\tx"},
	{"TE xchunked", "Transfer-Encoding: xchunked"},
	{"TE chunked, identity", "Transfer-Encoding: chunked, identity"},
	{"TE quoted", "Transfer-Encoding: \"chunked\""},
	{"TE with a vertical tab", "Transfer-Encoding: \x0bchunked"},
	{"TE folded", "Transfer-Encoding:\r\n chunked"},
	{"TE behind a bare LF", "X: y\nTransfer-Encoding: chunked"},
	{"TE behind a bare CR", "X: y\rTransfer-Encoding: chunked"},
	{"CL twice", "Content-Length: 6\r\nContent-Length: 5"},
	{"CL twice the same", "Content-Length: 6\r\nContent-Length: 6"},
	{"CL list", "Content-Length: 6, 6"},
	{"CL with a sign", "Content-Length: +6"},
	{"CL negative", "Content-Length: -6"},
	{"CL hexadecimal", "Content-Length: 0x6"},
	{"CL with a space inside", "Content-Length: 6 0"},
	{"CL too large", "Content-Length: 99999999999999999999"},
	{"CL empty", "Content-Length:"},
	{"Host twice", "Host: other"},
	{"Host with a path", "X: y\r\nHost: a/b"},
	{"NUL in a value", "X: a\x00b"},
	{"NUL in a name", "X\x00: a"},
	{"no colon", "Xyz"},
	{"empty name", ": x"},
	{"folded first line", " X: y"},
}

const smuggled = "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"

func TestSmuggling(t *testing.T) {
	b := newBackend(t)
	g := start(t, single(b.address()))
	for _, c := range smuggling {
		t.Run(c.name, func(t *testing.T) {
			refused(t, g, "POST / HTTP/1.1\r\nHost: h\r\n"+c.head+"\r\n\r\n"+smuggled)
		})
	}
	b.untouched()
}

// Whole requests of which the start line, the target or the chunks are at fault.
var malformed = []string{
	"GET / HTTP/1.1\nHost: h\n\n",
	"GET / HTTP/1.1\r\nHost: h\n\r\n",
	"GET  / HTTP/1.1\r\nHost: h\r\n\r\n",
	"GET /\tHTTP/1.1\r\nHost: h\r\n\r\n",
	"GET / HTTP/1.1 \r\nHost: h\r\n\r\n",
	"GET / HTTP/1.2\r\nHost: h\r\n\r\n",
	"GET / HTTP/2.0\r\nHost: h\r\n\r\n",
	"GET / http/1.1\r\nHost: h\r\n\r\n",
	"GET /\r\n\r\n",
	"GET / HTTP/1.1\r\n\r\n",
	"GET h:80 HTTP/1.1\r\nHost: h\r\n\r\n",
	"GET * HTTP/1.1\r\nHost: h\r\n\r\n",
	"GET /\\..\\x HTTP/1.1\r\nHost: h\r\n\r\n",
	"GET /%00 HTTP/1.1\r\nHost: h\r\n\r\n",
	"GET /a b HTTP/1.1\r\nHost: h\r\n\r\n",
	"GET /\xff HTTP/1.1\r\nHost: h\r\n\r\n",
	"GET /#f HTTP/1.1\r\nHost: h\r\n\r\n",
	"G\x00T / HTTP/1.1\r\nHost: h\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: h:port\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: u@h\r\n\r\n",
	"POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n 1\r\na\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;\nx\r\na\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\na\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 5\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nHost: evil\r\n\r\n",
	"GET /" + strings.Repeat("a", 9000) + " HTTP/1.1\r\nHost: h\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: h\r\n" + strings.Repeat("X: y\r\n", 200) + "\r\n",
	"GET / HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("a", 70000) + "\r\n\r\n",
}

func TestMalformed(t *testing.T) {
	b := newBackend(t)
	g := start(t, single(b.address()))
	for _, text := range malformed {
		t.Run(text[:min(len(text), 60)], func(t *testing.T) { refused(t, g, text+smuggled) })
	}
	b.untouched()
}

// refused sends bytes and wants one answer, which is an error, and the end.
func refused(t *testing.T, g *gate, text string) {
	t.Helper()
	client := g.dial()
	client.t = t
	client.send(text)
	client.closeWrite()
	got, err := client.rest()
	status, rest, _ := strings.Cut(got, "\r\n")
	if err != nil || strings.Count(rest, "HTTP/1.1 ") > 0 || !strings.Contains(rest, "\r\nConnection: close\r\n") {
		t.Fatalf("%v after %q, want one answer and the end", err, got)
	}
	switch status, _, _ = strings.Cut(strings.TrimPrefix(status, "HTTP/1.1 "), " "); status {
	case "400", "414", "431", "501", "505":
	default:
		t.Errorf("status %s", status)
	}
}
