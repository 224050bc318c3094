package proxy_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

// noise is n bytes that repeat nowhere.
func noise(n int) []byte {
	source := rand.NewChaCha8([32]byte{})
	data := make([]byte, n)
	_, _ = source.Read(data)
	return data
}

// echo answers a request with its own body, chunk for chunk as it reads.
func echo(w http.ResponseWriter, r *http.Request) {
	if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
		panic(err)
	}
	if r.ContentLength >= 0 {
		w.Header().Set("Content-Length", fmt.Sprint(r.ContentLength))
	}
	if _, err := io.CopyBuffer(flushing{w}, r.Body, make([]byte, 8<<10)); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// flushing sends each piece at once.
type flushing struct{ w http.ResponseWriter }

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	f.w.(http.Flusher).Flush()
	return n, err
}

// unsized hides the length of a body, so that it is sent in chunks.
type unsized struct{ io.Reader }

// TestLargeBodies sends bodies both ways at once, by length and in chunks.
func TestLargeBodies(t *testing.T) {
	server := serve(t, http.HandlerFunc(echo))
	client := visit(t, start(t, single(server)))
	for _, size := range []int{0, 1, 1000, 16<<10 - 1, 16 << 10, 100 << 10, 1 << 20, 10 << 20} {
		for _, framing := range []string{"length", "chunks"} {
			t.Run(fmt.Sprint(size, " by ", framing), func(t *testing.T) {
				sent := noise(size)
				body := io.Reader(bytes.NewReader(sent))
				if framing == "chunks" {
					body = unsized{body}
				}
				if got := client.post(t, "/", body); !bytes.Equal(got, sent) {
					t.Errorf("%d bytes came back, want %d, the same", len(got), size)
				}
			})
		}
	}
}

// TestSlowReader is back-pressure: a client that reads late holds the upstream
// up, and nothing is lost. The body is more than the kernel takes on its way to a
// client whose own buffer is small (tcp_rmem and tcp_wmem of the others).
func TestSlowReader(t *testing.T) {
	b := newBackend(t)
	client := start(t, single(b.address())).dial()
	if err := client.conn.SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	body := bytes.Repeat(noise(1<<20), 64)
	client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	up := b.accept()
	up.head()
	written := make(chan error, 1)
	go func() {
		written <- up.write(fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	}()
	client.head()
	select {
	case err := <-written:
		t.Fatalf("64 MiB went through without a reader (%v)", err)
	default:
	}
	got, err := io.ReadAll(io.LimitReader(client.conn, int64(len(body))))
	if err != nil || !bytes.Equal(got, body) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// TestEarlyAnswer is case 9 with a client that sends without looking: the answer
// is there, whole, however much is still sent.
func TestEarlyAnswer(t *testing.T) {
	b := newBackend(t)
	g := start(t, single(b.address()))
	client := g.dial()
	sent := make(chan error, 1)
	go func() {
		sent <- client.write(fmt.Appendf(nil, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", 10<<20, noise(10<<20)))
	}()
	up := b.accept()
	up.head()
	if _, err := up.read(1024); err != nil {
		t.Fatal(err)
	}
	up.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nno\n")
	client.sees(dated("HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nno\n"))
	client.ends()
	if err := <-sent; err != nil {
		t.Errorf("the upload was reset: %v", err)
	}
	if r := g.recent(1)[0]; r.Status != 413 || r.Attempts != 1 {
		t.Errorf("%+v", r)
	}
}

// TestManyPieces sends requests in all ways to cut them in two, over one
// connection.
func TestManyPieces(t *testing.T) {
	b := newBackend(t)
	client := start(t, single(b.address())).dial()
	const request = "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-T: 1\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n"
	var up *peer
	answer := func(path, body string) {
		if up == nil {
			up = b.accept()
		}
		if head := up.head(); !strings.Contains(head, path) {
			t.Fatalf("%q is not for %s", head, path)
		}
		var got strings.Builder
		for !strings.HasSuffix(got.String(), body) {
			c, err := up.read(1)
			if err != nil {
				t.Fatalf("%v after %q", err, got.String())
			}
			got.WriteString(c)
		}
		up.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		client.sees(dated("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	}
	for cut := 1; cut < len(request); cut++ {
		client.send(request[:cut])
		client.send(request[cut:])
		answer("/a", "0\r\nX-T: 1\r\n\r\n")
		answer("/b", "")
	}
}
