package http2

import (
	"strings"
	"testing"

	xhttp2 "golang.org/x/net/http2"
)

// Requests that break their stream, those that are answered with a fault, and
// those that are taken (RFC 9113 sections 8.2 and 8.3).
func TestRequestHeads(t *testing.T) {
	const reset = "RST 1 PROTOCOL_ERROR"
	p := func(pairs ...string) []string { return pairs }
	for _, tt := range []struct {
		name  string
		pairs []string
		want  string
	}{
		{"plain", get1(), "HEADERS 1 :status=200"},
		{"host alone", p(":method", "GET", ":scheme", "http", ":path", "/echo", "host", "test"), "HEADERS 1 :status=200"},
		{"scheme in upper case", p(":method", "GET", ":scheme", "HTTPS", ":path", "/echo", ":authority", "test"), "HEADERS 1 :status=200"},
		{"host that agrees", get1("host", "TEST"), "HEADERS 1 :status=200"},
		{"te trailers", get1("te", "trailers"), "HEADERS 1 :status=200"},
		{"upper case", get1("X-A", "1"), reset},
		{"empty name", get1("", "1"), reset},
		{"space in name", get1("a b", "1"), reset},
		{"colon in name", get1("a:b", "1"), reset},
		{"NUL in value", get1("a", "b\x00c"), reset},
		{"LF in value", get1("a", "b\nc"), reset},
		{"CR in value", get1("a", "b\rc"), reset},
		{"DEL in value", get1("a", "b\x7fc"), reset},
		{"space before value", get1("a", " b"), reset},
		{"tab after value", get1("a", "b\t"), reset},
		{"connection", get1("connection", "close"), reset},
		{"keep-alive", get1("keep-alive", "1"), reset},
		{"proxy-connection", get1("proxy-connection", "close"), reset},
		{"transfer-encoding", get1("transfer-encoding", "chunked"), reset},
		{"upgrade", get1("upgrade", "h2c"), reset},
		{"te other", get1("te", "gzip"), reset},
		{"te list", get1("te", "trailers, gzip"), reset},
		{"unknown pseudo", get1(":x", "1"), reset},
		{"status", get1(":status", "200"), reset},
		{"pseudo twice", get1(":path", "/"), reset},
		{"pseudo late", p("a", "b", ":method", "GET", ":scheme", "http", ":path", "/"), reset},
		{"no method", p(":scheme", "http", ":path", "/", ":authority", "a"), reset},
		{"bad method", p(":method", "G T", ":scheme", "http", ":path", "/", ":authority", "a"), reset},
		{"no path", p(":method", "GET", ":scheme", "http", ":authority", "a"), reset},
		{"empty path", p(":method", "GET", ":scheme", "http", ":path", "", ":authority", "a"), reset},
		{"no scheme", p(":method", "GET", ":path", "/", ":authority", "a"), reset},
		{"user information", p(":method", "GET", ":scheme", "http", ":path", "/", ":authority", "u@a"), reset},
		{"connect with path", p(":method", "CONNECT", ":scheme", "http", ":path", "/", ":authority", "a:1"), reset},
		{"connect without authority", p(":method", "CONNECT"), reset},
		{"protocol without CONNECT", get1(":protocol", "websocket"), reset},
		{"two lengths", get1("content-length", "0", "content-length", "0"), reset},
		{"bad length", get1("content-length", "+0"), reset},
		{"length list", get1("content-length", "0, 0"), reset},
		{"length without body", get1("content-length", "1"), reset},
		{"scheme other", p(":method", "GET", ":scheme", "ftp", ":path", "/", ":authority", "a"), "HEADERS 1 end :status=400"},
		{"no authority", p(":method", "GET", ":scheme", "http", ":path", "/"), "HEADERS 1 end :status=400"},
		{"empty authority", p(":method", "GET", ":scheme", "http", ":path", "/", ":authority", ""), "HEADERS 1 end :status=400"},
		{"bad port", p(":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a:b"), "HEADERS 1 end :status=400"},
		{"bad bracket", p(":method", "GET", ":scheme", "http", ":path", "/", ":authority", "[::1"), "HEADERS 1 end :status=400"},
		{"host that differs", get1("host", "other"), "HEADERS 1 end :status=400"},
		{"two hosts", get1("host", "test", "host", "test"), "HEADERS 1 end :status=400"},
		{"relative path", p(":method", "GET", ":scheme", "http", ":path", "a", ":authority", "a"), "HEADERS 1 end :status=400"},
		{"asterisk", p(":method", "GET", ":scheme", "http", ":path", "*", ":authority", "a"), "HEADERS 1 end :status=400"},
		{"space in path", p(":method", "GET", ":scheme", "http", ":path", "/a b", ":authority", "a"), "HEADERS 1 end :status=400"},
		{"fragment in path", p(":method", "GET", ":scheme", "http", ":path", "/a#b", ":authority", "a"), "HEADERS 1 end :status=400"},
		{"backslash in path", p(":method", "GET", ":scheme", "http", ":path", `/a\b`, ":authority", "a"), "HEADERS 1 end :status=400"},
		{"long path", p(":method", "GET", ":scheme", "http", ":path", "/"+strings.Repeat("a", 8<<10), ":authority", "a"), "HEADERS 1 end :status=414"},
		{"long method", p(":method", strings.Repeat("A", 65), ":scheme", "http", ":path", "/", ":authority", "a"), "HEADERS 1 end :status=501"},
		{"expect other", get1("expect", "tea"), "HEADERS 1 end :status=417"},
		{"expect one more", get1("expect", "100-continue, tea"), "HEADERS 1 end :status=417"},
		{"expect in a list", get1("expect", ", 100-Continue,"), "HEADERS 1 :status=200"},
		{"expect nothing", get1("expect", ""), "HEADERS 1 :status=200"},
		{"connect without port", p(":method", "CONNECT", ":authority", "a"), "HEADERS 1 end :status=400"},
		{"long field", get1("a", strings.Repeat("b", 12<<10)), "HEADERS 1 :status=200"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := clientPeer(t, listen(t, Options{}, echo))
			c.headers(1, true, tt.pairs...)
			if got := c.next(); !strings.HasPrefix(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			c.headers(3, true, get1()...)
			c.expect("HEADERS 3 :status=200") // the connection goes on
		})
	}
}

// Bodies and trailers that break their stream.
func TestBodies(t *testing.T) {
	for _, tt := range []struct {
		name string
		send func(c *peer)
		want string
	}{
		{"body of its length", func(c *peer) {
			c.headers(1, false, get1("content-length", "3")...)
			c.ok(c.fr.WriteData(1, true, []byte("abc")))
		}, "DATA 1 0 end"},
		{"body too long", func(c *peer) {
			c.headers(1, false, get1("content-length", "2")...)
			c.ok(c.fr.WriteData(1, true, []byte("abc")))
		}, "RST 1 PROTOCOL_ERROR"},
		{"body too short", func(c *peer) {
			c.headers(1, false, get1("content-length", "4")...)
			c.ok(c.fr.WriteData(1, true, []byte("abc")))
		}, "RST 1 PROTOCOL_ERROR"},
		{"body too short, with trailers", func(c *peer) {
			c.headers(1, false, get1("content-length", "4")...)
			c.ok(c.fr.WriteData(1, false, []byte("abc")))
			c.headers(1, true, "x-a", "b")
		}, "RST 1 PROTOCOL_ERROR"},
		{"padding", func(c *peer) {
			c.headers(1, false, get1("content-length", "3")...)
			c.ok(c.fr.WriteDataPadded(1, true, []byte("abc"), make([]byte, 200)))
		}, "DATA 1 0 end"},
		{"trailers", func(c *peer) {
			c.headers(1, false, get1()...)
			c.headers(1, true, "x-a", "b")
		}, "HEADERS 1 end x-a=b"},
		{"dropped trailers", func(c *peer) {
			c.headers(1, false, get1()...)
			c.headers(1, true, "cookie", "c", "x_a", "1", "if-match", "2", "content-digest", "3", "x-b", "4")
		}, "HEADERS 1 end content-digest=3 x-b=4"},
		{"trailers that do not end", func(c *peer) {
			c.headers(1, false, get1()...)
			c.headers(1, false, "x-a", "b")
		}, "RST 1 PROTOCOL_ERROR"},
		{"framing among trailers", func(c *peer) {
			c.headers(1, false, get1()...)
			c.headers(1, true, "content-length", "0")
		}, "RST 1 PROTOCOL_ERROR"},
		{"pseudo among trailers", func(c *peer) {
			c.headers(1, false, get1()...)
			c.headers(1, true, ":path", "/")
		}, "RST 1 PROTOCOL_ERROR"},
		{"window of the stream", func(c *peer) {
			c.headers(1, false, plainGet[0], "POST", ":scheme", "http", ":path", "/hold", ":authority", "a")
			for range 5 {
				c.ok(c.fr.WriteData(1, false, make([]byte, 16<<10)))
			}
		}, "RST 1 FLOW_CONTROL_ERROR"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := clientPeer(t, listen(t, Options{}, func(s *Stream) {
				if string(s.Request().Path) == "/hold" {
					s.MayWait()
					lost := make(chan struct{})
					s.OnReset(func() { close(lost) })
					<-lost
					return
				}
				echo(s)
			}))
			tt.send(c)
			for {
				got := c.next()
				if got == tt.want {
					break
				}
				if !strings.HasPrefix(got, "HEADERS 1 :status=200") && got != "DATA 1 3" {
					t.Fatalf("got %q, want %q", got, tt.want)
				}
			}
			c.headers(3, true, get1()...)
			c.expect("HEADERS 3 :status=200")
		})
	}
}

// Crumbs of a cookie are one field, and names with underscores are left out.
func TestFieldsOfRequests(t *testing.T) {
	got := make(chan string, 1)
	c := clientPeer(t, listen(t, Options{ExtendedConnect: true}, func(s *Stream) {
		var b strings.Builder
		r := s.Request()
		b.WriteString(r.Method.String() + " " + string(r.Authority) + " " + string(r.Host) + " " + string(r.Path) + " " + string(r.Query) + " " + string(r.Upgrade))
		for _, f := range r.Fields.All() {
			b.WriteString("; " + string(f.Name) + "=" + string(f.Value))
		}
		got <- b.String()
		_ = s.WriteResponseHead(204, nil, true, 0)
	}))
	ask := func(id uint32, want string, pairs ...string) {
		t.Helper()
		c.headers(id, true, pairs...)
		if have := <-got; have != want {
			t.Errorf("got  %s\nwant %s", have, want)
		}
	}
	ask(1, "GET test:1 test /p a=b?c ; a=1; cookie=x=1; y=2; z=3; b=2",
		":method", "GET", ":scheme", "http", ":path", "/p?a=b?c", ":authority", "test:1",
		"a", "1", "cookie", "x=1", "b_c", "9", "cookie", "y=2", "b", "2", "cookie", "z=3")
	ask(3, "CONNECT test:1 test   ", ":method", "CONNECT", ":authority", "test:1")
	ask(5, "CONNECT test:2 test /chat  websocket", ":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", "/chat", ":authority", "test:2")
}

// A head over the bound is answered, and what follows is understood: the tables
// are still in step.
func TestLargeHeads(t *testing.T) {
	c := clientPeer(t, listen(t, Options{MaxHeaderBytes: 8 << 10, MaxHeaders: 20}, echo))
	c.headers(1, true, get1("x-kept", "1", "a", strings.Repeat("b", 9<<10), "x-late", "2")...)
	c.expect("HEADERS 1 end :status=431")
	c.headers(3, true, get1("x-kept", "1", "x-late", "2")...)
	if got := c.expect("HEADERS 3"); !strings.Contains(got, "echo-x-late=2") {
		t.Errorf("got %q", got)
	}
	many := get1()
	for range 21 {
		many = append(many, "x-n", "1")
	}
	c.headers(5, true, many...)
	c.expect("HEADERS 5 end :status=431")
	c.headers(7, true, get1()...)
	c.expect("HEADERS 7 :status=200")
	// References to one entry of the table: 1 byte each, 8 KiB in all the same.
	bomb := c.encode(get1("x-bomb", strings.Repeat("b", 3<<10))...)
	c.ok(c.fr.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 9, BlockFragment: bomb, EndHeaders: true, EndStream: true}))
	c.expect("HEADERS 9 :status=200")
	again := c.encode(get1("x-bomb", strings.Repeat("b", 3<<10))...)
	reference := again[len(again)-1]
	for range 10_000 {
		again = append(again, reference)
	}
	c.ok(c.fr.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 11, BlockFragment: again, EndHeaders: true, EndStream: true}))
	c.expect("HEADERS 11 end :status=431")
	// Several times the bound, one field of it alone, over many frames.
	huge := newPeerBlock(get1("x-huge", strings.Repeat("b", 200<<10))...)
	huge = append(huge, c.encode("x-after", "3")...)
	c.raw(rawFrame(frameHeaders, flagEndStream, 13, huge[:16<<10]))
	for huge = huge[16<<10:]; len(huge) > 16<<10; huge = huge[16<<10:] {
		c.raw(rawFrame(frameContinuation, 0, 13, huge[:16<<10]))
	}
	c.raw(rawFrame(frameContinuation, flagEndHeaders, 13, huge))
	c.expect("HEADERS 13 end :status=431")
	c.headers(15, true, get1("x-after", "3")...)
	if got := c.expect("HEADERS 15"); !strings.Contains(got, "echo-x-after=3") {
		t.Errorf("got %q", got)
	}
}
