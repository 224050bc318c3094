package proxy_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
)

const okHead = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// TestDrain: an idle connection ends at once, one with an exchange after its
// answer, which says so, and nothing is cut.
func TestDrain(t *testing.T) {
	b := newBackend(t)
	g := start(t, single(b.address()))
	fresh, idle, busy := g.dial(), g.dial(), g.dial()
	idle.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	up := b.accept()
	up.head()
	up.send(okHead)
	idle.sees(dated(okHead))
	busy.send("GET / HTTP/1.1\r\nHost: h\r\n\r\nGET /not-this HTTP/1.1\r\nHost: h\r\n\r\n")
	up.head()
	cut := make(chan int)
	go func() { cut <- g.drain() }()
	fresh.ends()
	idle.ends()
	up.send(okHead)
	busy.sees(dated("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"))
	busy.gone()
	if n := <-cut; n != 0 {
		t.Errorf("%d connections were cut", n)
	}
}

// TestDrainServesWhatCame drains while requests arrive: each client gets a whole
// answer or, if its request crossed the end of its connection, none.
func TestDrainServesWhatCame(t *testing.T) {
	for round := range 20 {
		g := start(t, manifest("routes: [{name: ping, respond: {status: 200, body: pong}}]"))
		var clients sync.WaitGroup
		for range 8 {
			client := g.dial()
			clients.Go(func() {
				for {
					if client.write([]byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n")) != nil {
						return
					}
					got, err := client.read(len("HTTP/1.1 200 OK\r\n"))
					if got == "" && err != nil {
						return
					}
					rest, err := client.read(1)
					for err == nil && !strings.HasSuffix(rest, "pong") {
						var c string
						c, err = client.read(1)
						rest += c
					}
					if err != nil {
						t.Errorf("round %d: %v after %q", round, err, got+rest)
						return
					}
				}
			})
		}
		g.recent(20)
		if cut := g.drain(); cut != 0 {
			t.Errorf("round %d: %d connections were cut", round, cut)
		}
		clients.Wait()
		g.stop()
	}
}

// TestCut ends a drain that takes too long: whatever a connection waits for, it
// ends.
func TestCut(t *testing.T) {
	b := newBackend(t)
	states := map[string]func(client *peer){
		"awaiting an answer": func(client *peer) {
			client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			b.accept().head()
		},
		"uploading to an upstream that does not read": func(client *peer) {
			client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\n\r\n")
			up := b.accept()
			up.head()
			go func() { _, _ = io.Copy(client.conn, strings.NewReader(strings.Repeat("x", 100000000))) }()
		},
		"in a tunnel that the client has half closed": func(client *peer) {
			client.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			up := b.accept()
			up.head()
			up.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			client.head()
			client.closeWrite()
			up.ends()
		},
		"in the middle of an answer that the client does not read": func(client *peer) {
			client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			up := b.accept()
			up.head()
			go func() { _ = up.write(fmt.Appendf(nil, "HTTP/1.1 200 OK\r\n\r\n%s", noise(8<<20))) }()
			client.head()
		},
	}
	for name, prepare := range states {
		t.Run(name, func(t *testing.T) {
			g := start(t, single(b.address()))
			client := g.dial()
			prepare(client)
			over, cancel := context.WithCancel(context.Background())
			cancel()
			g.drained.Do(func() { g.cut = g.listener.Drain(over) })
			if g.cut != 1 {
				t.Errorf("%d connections were cut, want 1", g.cut)
			}
		})
	}
}
