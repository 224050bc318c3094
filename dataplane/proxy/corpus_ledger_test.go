package proxy_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
)

// ledger is a backend of net/http's parser that writes down every byte that
// comes and every request that it can read to its end.
type ledger struct {
	address string
	heads   chan string // the target of each head, as it comes
	stop    func()      // ends it, and waits until all is written down

	mu       sync.Mutex
	requests []entry
	raw      bytes.Buffer // of all connections, one after the other
	answer   func(head *http.Request) string
}

// entry is a whole request with its body.
type entry struct {
	*http.Request
	body string
}

// A ledger that is told nothing else answers every request with two bytes.
const plainAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func keepLedger(t testing.TB) *ledger {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &ledger{
		address: l.Addr().String(), heads: make(chan string, 16),
		answer: func(*http.Request) string { return plainAnswer },
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { b.serve(c) })
		}
	})
	b.stop = sync.OnceFunc(func() {
		_ = l.Close()
		running.Wait()
	})
	t.Cleanup(b.stop)
	return b
}

// serve reads requests until one cannot be read. An answer that is not the plain
// one is the last.
func (b *ledger) serve(c net.Conn) {
	defer c.Close()
	var raw bytes.Buffer
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.raw.Write(raw.Bytes())
	}()
	for r := bufio.NewReader(io.TeeReader(c, &raw)); ; {
		req, err := http.ReadRequest(r)
		if err != nil {
			_, _ = io.Copy(io.Discard, r)
			return
		}
		b.heads <- req.RequestURI
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		b.mu.Lock()
		b.requests = append(b.requests, entry{req, string(body)})
		b.mu.Unlock()
		answer := b.answer(req)
		if _, err := io.WriteString(c, answer); err != nil || answer != plainAnswer {
			return
		}
	}
}

// closed ends a gate with its backend and returns what was written down.
func (b *ledger) closed(g *gate) (requests []entry, raw string) {
	g.t.Helper()
	g.stop()
	b.stop()
	return b.requests, b.raw.String()
}
