package http2

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/headgate/headgate/dataplane/http1"
	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
)

// FuzzFrames gives a server any bytes after a preface: it must end, and nothing
// of it must be left. What it writes must be frames.
func FuzzFrames(f *testing.F) {
	get := newPeerBlock(get1()...)
	f.Add(rawFrame(frameHeaders, flagEndHeaders|flagEndStream, 1, get))
	f.Add(append(rawFrame(frameHeaders, 0, 1, get), rawFrame(frameContinuation, flagEndHeaders, 1, nil)...))
	f.Add(append(rawFrame(frameHeaders, flagEndHeaders, 1, get), rawFrame(frameData, flagPadded|flagEndStream, 1, []byte{2, 'a', 0, 0})...))
	f.Add(append(rawFrame(frameHeaders, flagEndHeaders, 1, get), appendReset(nil, 1, Cancel)...))
	f.Add(appendSettings(nil, setting{settingWindow, 1}, setting{settingTableSize, 0}))
	f.Add(appendGoAway(appendPing(appendWindowUpdate(nil, 0, 5), 0, 1), 0, NoError, "bye"))
	f.Fuzz(func(t *testing.T, data []byte) {
		here, there := net.Pipe()
		s := NewServer(socket.New(here), Options{Linger: 1}, echo)
		go func() {
			_, _ = there.Write(append([]byte(preface), appendSettings(nil)...))
			if len(data) > 0 {
				_, _ = there.Write(data)
			}
			_, _ = there.Write(rawFrame(frameGoAway, 0, 0, make([]byte, 8)))
			_, _ = there.Write(rawFrame(framePing, 0, 1, nil)) // a fault, which ends what is left
			there.Close()
		}()
		go func() {
			fr := xhttp2.NewFramer(io.Discard, there)
			fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
			for {
				_, err := fr.ReadFrame()
				var fault xhttp2.ConnectionError
				var stream xhttp2.StreamError
				if errors.As(err, &fault) || errors.As(err, &stream) {
					t.Errorf("the server wrote what is no frame: %v", err)
				}
				if err != nil {
					return
				}
			}
		}()
		_ = s.Serve()
	})
}

// FuzzHead compares what we take for a head with what x/net's framer takes for
// one. We may refuse more; what we take it must take, with the same fields.
func FuzzHead(f *testing.F) {
	for _, pairs := range [][]string{
		get1(), get1("a", "b"), get1("A", "b"), get1("cookie", "a", "cookie", "b"), get1("te", "trailers"), {":status", "200"},
		get1("a", " b"), get1("a", "\x01"), get1(":path", "/"), {"a", "b", ":method", "GET"},
	} {
		f.Add(newPeerBlock(pairs...))
	}
	f.Fuzz(func(t *testing.T, block []byte) {
		if len(block) > maxFrameBytes {
			return
		}
		var c conn
		c.init(socket.New(nil), Options{}, false)
		c.block.head = getHead()
		c.decoder.begin()
		err := c.decoder.write(c.block.head, block, true, &c.o)
		h := c.block.head
		h.finish()
		h.end = true
		var req message.Request
		reason, fault := h.request(&req, &c.o)

		fr := xhttp2.NewFramer(nil, bytes.NewReader(rawFrame(frameHeaders, flagEndHeaders|flagEndStream, 1, block)))
		fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		frame, theirErr := fr.ReadFrame()
		if err != nil || reason != "" || fault != nil {
			return
		}
		meta, ok := frame.(*xhttp2.MetaHeadersFrame)
		if theirErr != nil || !ok || meta.Truncated {
			t.Fatalf("we take %q, and they say %v", block, theirErr)
		}
		var theirs, cookies []string
		for _, field := range meta.RegularFields() {
			switch {
			case field.Name == "cookie":
				cookies = append(cookies, field.Value)
			case !strings.Contains(field.Name, "_"):
				theirs = append(theirs, field.Name+"="+field.Value)
			}
		}
		var have []string
		for _, field := range req.Fields.All() {
			if field.ID == message.Cookie {
				if string(field.Value) != strings.Join(cookies, "; ") {
					t.Fatalf("cookie %q of %q", field.Value, cookies)
				}
				continue
			}
			have = append(have, string(field.Name)+"="+string(field.Value))
		}
		if !slices.Equal(have, theirs) {
			t.Fatalf("fields %q, they say %q", have, theirs)
		}
		if string(req.MethodName) != meta.PseudoValue("method") || string(req.Target) != meta.PseudoValue("path") && req.Form != message.FormAuthority {
			t.Fatalf("%q %q", req.MethodName, req.Target)
		}
		agreesWithHTTP1(t, &req)
	})
}

// agreesWithHTTP1 holds a head against the HTTP/1.1 wire: what one takes the
// other must take, so that nothing can be carried where it could not be said.
func agreesWithHTTP1(t *testing.T, req *message.Request) {
	t.Helper()
	var b []byte
	b = append(append(b, req.MethodName...), ' ')
	b = append(append(b, req.Target...), " HTTP/1.1\r\n"...)
	b = http1.AppendField(b, []byte("Host"), req.Authority)
	for _, f := range req.Fields.All() {
		if f.ID != message.Host {
			b = http1.AppendField(b, f.Name, f.Value)
		}
	}
	b = append(b, "\r\n"...)
	var other message.Request
	n, err := http1.ParseRequest(b, &other, nil)
	if err != nil || n != len(b) {
		t.Fatalf("HTTP/1.1 refuses what we take: %v\n%q", err, b)
	}
	if string(other.Host) != string(req.Host) || string(other.Path) != string(req.Path) || string(other.Query) != string(req.Query) || other.Form != req.Form {
		t.Fatalf("HTTP/1.1 reads %q %q %q, we %q %q %q", other.Host, other.Path, other.Query, req.Host, req.Path, req.Query)
	}
}

// Hosts are taken exactly as on HTTP/1.1.
func TestHostsAsOnHTTP1(t *testing.T) {
	for _, host := range []string{
		"a", "a.b", "a.b.", "a..b", ".a", "a:80", "a:", "a:0", "a:65535", "a:65536", "a:x", "a:123456", ":80", "", "a_b", "a b",
		"[::1]", "[::1]:80", "[::1", "[::1]x", "[fe80::1%25a]", "[fe80::1%a]", "[1.2.3.4]", "[::1.2.3.4]", "[::01.2.3.4]", "[1::2::3]", "[1:2:3:4:5:6:7:8]",
		"[1:2:3:4:5:6:7::]", "[::2:3:4:5:6:7:8]", "[1:2:3:4::5:6:7:8]", "[]", "1.2.3.4", "a@b", "a:1@b", "a/b", "a%41", "a,b", "[::FFFF:1.2.3.4]", "[12345::]", "[:1]",
	} {
		name, _, reason := cutHost([]byte(host))
		var req message.Request
		_, err := http1.ParseRequest([]byte("OPTIONS * HTTP/1.1\r\nHost: "+host+"\r\n\r\n"), &req, nil)
		if (reason == "") != (err == nil) {
			t.Errorf("%q: we say %q, HTTP/1.1 %v", host, reason, err)
		} else if err == nil && string(name) != string(req.Host) {
			t.Errorf("%q: we read %q, HTTP/1.1 %q", host, name, req.Host)
		}
	}
}

// Trailers are taken exactly as on HTTP/1.1.
func TestTrailersAsOnHTTP1(t *testing.T) {
	names := []string{
		"x-a", "x_a", "grpc-status", "content-digest", "content-range", "if-match", "priority", "age", "www-authenticate", "sec-x",
		"host", "content-length", "te", "trailer", "expect", "http2-settings", "via", "cookie", "x-forwarded-port", "server-timing", "access-control-x",
	}
	for id := message.ID(1); id.String() != ""; id++ {
		names = append(names, id.String())
	}
	for _, name := range names {
		if id := message.Intern([]byte(name)); connectionSpecific[id] || id == message.TE {
			continue // malformed in any head
		}
		var d http1.Decoder
		d.Reset(message.Body{Kind: message.BodyChunked}, nil)
		var err error
		in := []byte("0\r\n" + name + ": v\r\n\r\n")
		for len(in) > 0 && err == nil {
			var n int
			_, n, err = d.Next(in)
			in = in[n:]
		}
		h := getHead()
		o := (&Options{}).resolve()
		f := field{name: []byte(name), value: []byte("v")}
		f.judgeName()
		f.judgeValue()
		h.add(&f, &o)
		reason := h.checkTrailers(false)
		if (reason == "") != (err == nil) || err == nil && d.Trailers().Len() != h.fields.Len() {
			t.Errorf("%s: we say %q and keep %d, HTTP/1.1 says %v and keeps %d", name, reason, h.fields.Len(), err, d.Trailers().Len())
		}
	}
}
