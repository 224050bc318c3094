package proxy_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// largeHead begins an answer that is passed on inside the kernel.
const largeHead = "HTTP/1.1 200 OK\r\nContent-Length: 4194304\r\n\r\n"

const largeSize = 4 << 20

// askLarge sends a request and returns the backend's end of it.
func askLarge(client *peer, b *backend, up *peer) *peer {
	client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	if up == nil {
		up = b.accept()
	}
	up.head()
	return up
}

// TestPassKeepsConnections passes large bodies on, one after the other, over the
// same connections.
func TestPassKeepsConnections(t *testing.T) {
	b := newBackend(t)
	client := start(t, single(b.address())).dial()
	body := noise(largeSize)
	var up *peer
	for i := range 3 {
		up = askLarge(client, b, up)
		written := make(chan error, 1)
		go func() { written <- up.write(append([]byte(largeHead), body...)) }()
		client.head()
		got := make([]byte, largeSize)
		if _, err := io.ReadFull(client.conn, got); err != nil || !bytes.Equal(got, body) {
			t.Fatalf("body %d is another: %v", i, err)
		}
		if err := <-written; err != nil {
			t.Fatal(err)
		}
	}
}

// TestPassCut cuts what the upstream cuts, after all that came, and says so.
func TestPassCut(t *testing.T) {
	for name, cut := range map[string]func(up *peer){"closed": (*peer).close, "reset": (*peer).reset} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			g := start(t, single(b.address()))
			client := g.dial()
			up := askLarge(client, b, nil)
			body := noise(1 << 20)
			go func() { _ = up.write(append([]byte(largeHead), body...)) }()
			client.head()
			got := make([]byte, len(body))
			if _, err := io.ReadFull(client.conn, got); err != nil || !bytes.Equal(got, body) {
				t.Fatalf("what came before the cut is another: %v", err)
			}
			cut(up)
			client.gone()
			if r := g.recent(1)[0]; r.Reason != "http_response_incomplete" || r.BytesOut != int64(len(body)) {
				t.Errorf("recorded %+v", r)
			}
		})
	}
}

// TestPassClientGone ends the answer at the upstream.
func TestPassClientGone(t *testing.T) {
	b := newBackend(t)
	g := start(t, single(b.address()))
	client := g.dial()
	up := askLarge(client, b, nil)
	up.send(largeHead + strings.Repeat("x", 100<<10))
	client.head()
	client.reset()
	up.gone()
	if r := g.recent(1)[0]; r.Reason != "client_gone" {
		t.Errorf("recorded %+v", r)
	}
}

// TestPassSilence ends an answer that stops.
func TestPassSilence(t *testing.T) {
	b := newBackend(t)
	g := start(t, strings.Replace(single(b.address()), "{backends:", "{timeouts: {idle: 1s}, backends:", 1))
	client := g.dial()
	up := askLarge(client, b, nil)
	up.send(largeHead + strings.Repeat("x", 100<<10))
	client.head()
	if rest, err := client.rest(); len(rest) != 100<<10 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v", len(rest), err)
	}
	up.gone()
	if r := g.recent(1)[0]; !strings.Contains(r.Detail, "silent") {
		t.Errorf("recorded %+v", r)
	}
}
