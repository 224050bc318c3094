package proxy_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// cuts are the ways in which an upstream can end an answer in its middle, having
// sent a part of its body.
var cuts = []struct {
	name     string
	upstream string
	cut      func(b *backend, body []byte)
}{
	{"HTTP/1, in a length", "HTTP/1", func(b *backend, body []byte) {
		cutHTTP1(b, fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body)+1, body))
	}},
	{"HTTP/1, in a chunk", "HTTP/1", func(b *backend, body []byte) {
		cutHTTP1(b, fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s", len(body)+1, body))
	}},
	{"HTTP/1, between chunks", "HTTP/1", func(b *backend, body []byte) {
		cutHTTP1(b, fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(body), body))
	}},
	{"HTTP/1, by a broken chunk", "HTTP/1", func(b *backend, body []byte) {
		cutHTTP1(b, fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n!\r\n", len(body), body))
	}},
	{"HTTP/2, by a reset", "HTTP/2", func(b *backend, body []byte) {
		f, id := cutHTTP2(b, body)
		f.must(f.WriteRSTStream(id, http2.ErrCodeInternal))
	}},
	{"HTTP/2, by a reset without an error", "HTTP/2", func(b *backend, body []byte) {
		f, id := cutHTTP2(b, body)
		f.must(f.WriteRSTStream(id, http2.ErrCodeNo))
	}},
	{"HTTP/2, by a frame that is wrong", "HTTP/2", func(b *backend, body []byte) {
		f, id := cutHTTP2(b, body)
		f.answer(id, false, "x-trailer", "that does not end the stream")
	}},
	{"HTTP/2, by the end of the connection", "HTTP/2", func(b *backend, body []byte) {
		f, _ := cutHTTP2(b, body)
		f.must(f.conn.(*net.TCPConn).CloseWrite())
	}},
	{"HTTP/2, by a GOAWAY and the end", "HTTP/2", func(b *backend, body []byte) {
		f, id := cutHTTP2(b, body)
		f.must(f.WriteGoAway(id, http2.ErrCodeInternal, nil))
		f.must(f.conn.(*net.TCPConn).CloseWrite())
	}},
}

func cutHTTP1(b *backend, answer string) {
	up := b.accept()
	up.head()
	up.send("HTTP/1.1 200 OK\r\n" + answer)
	up.close()
}

// cutHTTP2 sends a part of an answer on a stream.
func cutHTTP2(b *backend, body []byte) (*framer, uint32) {
	f := b.frames()
	id := f.request().StreamID
	f.answer(id, false, ":status", "200", "content-length", fmt.Sprint(len(body)+1))
	for len(body) > 0 {
		n := min(len(body), 16<<10)
		f.must(f.WriteData(id, false, body[:n]))
		body = body[n:]
	}
	return f, id
}

// TestCutAnswer is answers that break off: the client gets every byte that came
// before, whatever the protocols, and then sees that there should have been more.
func TestCutAnswer(t *testing.T) {
	for _, c := range cuts {
		for _, client := range []string{"HTTP/1", "HTTP/2", "HTTP/3"} {
			for _, size := range []int{4, 60 << 10} {
				t.Run(fmt.Sprint(client, " from ", c.name, ", ", size), func(t *testing.T) {
					t.Parallel()
					b := newBackend(t)
					g := start(t, singleOver(c.upstream, b.address()))
					v := visitOver(t, client, g)
					body := noise(size)
					cut := make(chan struct{})
					go func() {
						defer close(cut)
						c.cut(b, body)
					}()
					defer func() { <-cut }()
					r, err := v.Get(v.base + "/")
					if err != nil {
						t.Fatal(err)
					}
					defer r.Body.Close()
					if got, err := io.ReadAll(r.Body); err == nil || !bytes.Equal(got, body) {
						t.Errorf("%d of %d bytes, %v", len(got), size, err)
					}
				})
			}
		}
	}
}

// TestCutAnswerSlowly is a client whose windows open after the upstream has ended
// the answer: it gets the rest all the same, and the reset behind it.
func TestCutAnswerSlowly(t *testing.T) {
	for _, c := range cuts {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t)
			g := start(t, singleOver(c.upstream, b.address()))
			f := g.frames(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
			id := f.open(true, "GET", "/")
			body := noise(60 << 10)
			c.cut(b, body)
			r := &reply{}
			for len(r.body) < 10 {
				f.take(r, f.next())
			}
			f.must(f.WriteWindowUpdate(id, 1<<20))
			for r.reset == nil && !r.clean {
				f.take(r, f.next())
			}
			if r.clean || *r.reset != http2.ErrCodeInternal || !bytes.Equal(r.body, body) {
				t.Errorf("%d of %d bytes, %v", len(r.body), len(body), r.reset)
			}
		})
	}
}

// TestCutAnswerInVain is a client whose window never opens: it is reset when it has
// been silent for too long.
func TestCutAnswerInVain(t *testing.T) {
	for _, c := range cuts {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t)
			config := strings.Replace(singleOver(c.upstream, b.address()), "backends: [{cluster: main}]", "timeouts: {idle: 0.1s}, backends: [{cluster: main}]", 1)
			f := start(t, config).frames(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
			id := f.open(true, "GET", "/")
			c.cut(b, noise(60<<10))
			if code := f.resets(id); code != http2.ErrCodeInternal {
				t.Error(code)
			}
		})
	}
}
