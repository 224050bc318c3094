package proxy_test

import (
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// TestStreamPseudoFields is what of the pseudo-header fields is taken, and as what
// it goes to HTTP/1 (RFC 9113 section 8.3, RFC 8441 section 4).
func TestStreamPseudoFields(t *testing.T) {
	b := keepLedger(t)
	f := start(t, single(b.address)).frames()
	for _, c := range []struct {
		name   string
		fields []string
		status string // "": the stream is reset
		line   string // of the request that the backend sees
	}{
		{"OPTIONS *", []string{":method", "OPTIONS", ":scheme", "http", ":authority", "h", ":path", "*"}, "200", "OPTIONS *"},
		{"GET *", []string{":method", "GET", ":scheme", "http", ":authority", "h", ":path", "*"}, "400", ""},
		{"another method", []string{":method", "PURGE", ":scheme", "http", ":authority", "h", ":path", "/"}, "200", "PURGE /"},
		{"method in lower case", []string{":method", "get", ":scheme", "http", ":authority", "h", ":path", "/"}, "200", "get /"},
		{"method with a space", []string{":method", "GET /x", ":scheme", "http", ":authority", "h", ":path", "/"}, "", ""},
		{"empty method", []string{":method", "", ":scheme", "http", ":authority", "h", ":path", "/"}, "", ""},
		{"https in clear", []string{":method", "GET", ":scheme", "https", ":authority", "h", ":path", "/"}, "200", "GET /"},
		{"another scheme", []string{":method", "GET", ":scheme", "ftp", ":authority", "h", ":path", "/"}, "400", ""},
		{"scheme that is none", []string{":method", "GET", ":scheme", "ht tp", ":authority", "h", ":path", "/"}, "400", ""},
		{"empty scheme", []string{":method", "GET", ":scheme", "", ":authority", "h", ":path", "/"}, "400", ""},
		{"empty authority", []string{":method", "GET", ":scheme", "http", ":authority", "", ":path", "/"}, "400", ""},
		{"host instead", []string{":method", "GET", ":scheme", "http", ":path", "/", "host", "h"}, "200", "GET /"},
		{"host twice", []string{":method", "GET", ":scheme", "http", ":path", "/", "host", "h", "host", "h"}, "400", ""},
		{"host in another case", []string{":method", "GET", ":scheme", "http", ":authority", "h", ":path", "/", "host", "H"}, "200", "GET /"},
		{"absolute :path", []string{":method", "GET", ":scheme", "http", ":authority", "h", ":path", "http://other/"}, "400", ""},
		{"fragment", []string{":method", "GET", ":scheme", "http", ":authority", "h", ":path", "/#f"}, "400", ""},
		{"not ASCII", []string{":method", "GET", ":scheme", "http", ":authority", "h", ":path", "/\xc3\xa9"}, "400", ""},
		{"backslash", []string{":method", "GET", ":scheme", "http", ":authority", "h", ":path", `/\x`}, "400", ""},
		{"query alone", []string{":method", "GET", ":scheme", "http", ":authority", "h", ":path", "?x"}, "400", ""},
		{"method twice", []string{":method", "GET", ":method", "GET", ":scheme", "http", ":authority", "h", ":path", "/"}, "", ""},
		{"scheme twice", []string{":method", "GET", ":scheme", "http", ":scheme", "http", ":authority", "h", ":path", "/"}, "", ""},
		{"authority twice", []string{":method", "GET", ":scheme", "http", ":authority", "h", ":authority", "h", ":path", "/"}, "", ""},
		{"upper-case pseudo", []string{":Method", "GET", ":scheme", "http", ":authority", "h", ":path", "/"}, "", ""},
		{"CONNECT with a path", []string{":method", "CONNECT", ":scheme", "http", ":authority", "h:1", ":path", "/"}, "", ""},
		{"CONNECT without an authority", []string{":method", "CONNECT"}, "", ""},
		{"CONNECT without a port", []string{":method", "CONNECT", ":authority", "h"}, "400", ""},
		{"protocol without CONNECT", []string{":method", "GET", ":protocol", "websocket", ":scheme", "http", ":authority", "h", ":path", "/"}, "", ""},
		{"extended CONNECT without a path", []string{":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":authority", "h"}, "", ""},
		{"extended CONNECT without a scheme", []string{":method", "CONNECT", ":protocol", "websocket", ":authority", "h", ":path", "/"}, "", ""},
		{"extended CONNECT for what is not allowed", []string{":method", "CONNECT", ":protocol", "connect-udp", ":scheme", "http", ":authority", "h", ":path", "/"}, "501", ""},
	} {
		r := f.await(f.openWith(true, c.fields...))
		switch {
		case c.status == "" && (r.reset == nil || *r.reset != http2.ErrCodeProtocol), c.status != "" && r.status != c.status:
			t.Errorf("%s: %+v", c.name, r)
		}
		if c.line != "" {
			if got := <-b.heads; got != strings.Fields(c.line)[1] {
				t.Errorf("%s: the backend sees %s", c.name, got)
			}
		}
	}
	f.pings()
}

// TestStreamBadTrailers is trailer sections that are malformed: the stream is
// reset, and the backend never sees the end of the body (RFC 9113 section 8.1).
func TestStreamBadTrailers(t *testing.T) {
	for name, trailers := range map[string][]string{
		"pseudo-header field":       {":status", "200"},
		"pseudo of a request":       {":path", "/"},
		"upper case":                {"X-Sum", "1"},
		"connection-specific field": {"connection", "close"},
		"transfer coding":           {"transfer-encoding", "chunked"},
		"length":                    {"content-length", "5"},
		"host":                      {"host", "other"},
		"LF in a value":             {"x", "a\nb"},
		"te":                        {"te", "trailers"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			f := start(t, single(b.address())).frames()
			id := f.open(false, "POST", "/")
			f.must(f.WriteData(id, false, []byte("hello")))
			up := b.accept()
			up.head()
			up.sees("5\r\nhello\r\n")
			f.must(f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: f.encode(trailers...), EndHeaders: true, EndStream: true}))
			if code := f.resets(id); code != http2.ErrCodeProtocol {
				t.Error(code)
			}
			if raw, _ := up.rest(); raw != "" {
				t.Errorf("the backend sees %q", raw)
			}
			f.serves(b)
		})
	}
}

// TestStreamTrailersThatDoNotEnd is a second head in the middle of a body.
func TestStreamTrailersThatDoNotEnd(t *testing.T) {
	b := newBackend(t)
	f := start(t, single(b.address())).frames()
	id := f.open(false, "POST", "/")
	up := b.accept()
	up.head()
	f.must(f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: f.encode("x-sum", "1"), EndHeaders: true}))
	if code := f.resets(id); code != http2.ErrCodeProtocol {
		t.Error(code)
	}
	if raw, _ := up.rest(); strings.Contains(raw, "0\r\n") {
		t.Errorf("the backend sees %q", raw)
	}
}

// TestUpstreamStreamMalformed has a backend of HTTP/2 answer with what is no
// answer: the client gets a 502 of ours, or sees that what began was cut.
func TestUpstreamStreamMalformed(t *testing.T) {
	for _, c := range []struct {
		name   string
		fields []string
	}{
		{"no :status", []string{"x", "1"}},
		{"bad :status", []string{":status", "20"}},
		{":status with a sign", []string{":status", "+20"}},
		{":status 101", []string{":status", "101"}},
		{":status twice", []string{":status", "200", ":status", "200"}},
		{"pseudo of a request", []string{":status", "200", ":path", "/"}},
		{"pseudo behind another", []string{"x", "1", ":status", "200"}},
		{"upper case", []string{":status", "200", "X-Upper", "1"}},
		{"connection-specific", []string{":status", "200", "connection", "close"}},
		{"transfer coding", []string{":status", "200", "transfer-encoding", "chunked"}},
		{"LF in a value", []string{":status", "200", "x", "a\r\nSet-Cookie: b"}},
		{"NUL in a value", []string{":status", "200", "x", "a\x00"}},
		{"lengths that differ", []string{":status", "200", "content-length", "1", "content-length", "2"}},
		{"length that is none", []string{":status", "200", "content-length", "x"}},
	} {
		for _, client := range []string{"HTTP/1", "HTTP/2"} {
			t.Run(c.name+" to "+client, func(t *testing.T) {
				b := newBackend(t)
				g := start(t, singleOver("HTTP/2", b.address()))
				s := &leaver1{peer: g.dial()}
				f := (*framer)(nil)
				id := uint32(0)
				if client == "HTTP/2" {
					f = g.frames()
					id = f.open(true, "GET", "/")
				} else {
					s.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
				}
				up := b.frames()
				up.answer(up.request().StreamID, true, c.fields...)
				if f != nil {
					if r := f.await(id); r.status != "502" || r.get("proxy-status") == "" {
						t.Errorf("%+v", r)
					}
				} else if head := s.head(); !strings.HasPrefix(head, "HTTP/1.1 502 ") || !strings.Contains(head, "Proxy-Status: headgate;") {
					t.Errorf("%q", head)
				}
			})
		}
	}
}
