package proxy_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headgate/headgate/dataplane/listener"
	"golang.org/x/net/http2"
)

// A reluctant client reads nothing: there is no room for an answer.
type reluctant struct {
	*peer
	up     *peer // the connection to the backend that serves it
	behind int64 // bytes that it has to read first
}

// startReluctant is start with a client that is reluctant and one that is not, which
// has been served by the same loop and the same backend.
func startReluctant(t *testing.T, b *backend, manifest string) (*gate, *reluctant, *peer) {
	t.Helper()
	g := start(t, manifest)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	g.listener.Drain(over)
	var err error
	if g.listener, err = listener.Bind("tcp", "127.0.0.1:0", slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	behind := make(chan int64, 1)
	g.listener.Serve(func(c net.Conn, n uint64) listener.Conn {
		if n == 1 {
			n, err := fillUp(c)
			if err != nil {
				t.Error(err)
			}
			behind <- n
		}
		return g.engine.NewConn(c, 0, 0)
	})
	first := g.dial()
	first.send(request)
	up := b.accept()
	up.head()
	up.send(dated(next))
	first.sees(dated(next))
	return g, &reluctant{g.dial(), up, <-behind}, first
}

// fillUp writes until there will be no more room, as long as the peer does not read:
// what is under way takes some, and leaves it again.
func fillUp(c net.Conn) (written int64, err error) {
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return 0, err
	}
	fault := raw.Control(func(fd uintptr) {
		for arrived := false; !arrived && err == nil; {
			var info *unix.TCPInfo
			if info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err != nil {
				return
			}
			var more int64
			more, err = fillNow(int(fd))
			written += more
			arrived = more == 0 && info.Unacked == 0
		}
	})
	if err == nil {
		err = fault
	}
	return written, err
}

func fillNow(fd int) (written int64, err error) {
	for chunk := make([]byte, 64<<10); ; {
		n, err := unix.SendmsgN(fd, chunk, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if err == unix.EAGAIN {
			return written, nil
		} else if err != nil {
			return written, err
		}
		written += int64(n)
	}
}

// reads has the client read what it has not yet.
func (c *reluctant) reads() {
	c.t.Helper()
	_ = c.conn.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.CopyN(io.Discard, c.conn, c.behind); err != nil {
		c.t.Fatal(err)
	}
}

const (
	request = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
	owed    = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nlater"
	next    = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext"
)

// isOwed has the client sent the answer to its first request, for which there is no
// room: the exchange is over though.
func (c *reluctant) isOwed(g *gate, sent string) {
	c.t.Helper()
	c.send(sent)
	c.up.head()
	c.up.send(owed)
	g.recent(2)
}

// TestOwedAnswer is one for which the client has no room: its exchange is over, the
// upstream serves others, as does the loop, and the client gets it before what comes
// behind.
func TestOwedAnswer(t *testing.T) {
	config := func(b *backend) string {
		return manifest(
			"clusters: [{name: main, endpoints: [{address: '"+b.address()+"'}]}]",
			"routes:",
			"- {name: own, matches: [{path: {exact: /own}}], respond: {status: 204}}",
			"- {name: all, forward: {backends: [{cluster: main}]}}",
		)
	}
	serves := func(up *peer) {
		up.head()
		up.send(next)
	}
	for name, test := range map[string]struct {
		with, behind string // sent with the request, and once the answer is owed
		up           func(up *peer)
		sees         string
	}{
		"nothing":               {up: func(*peer) {}},
		"a request":             {with: request, up: serves, sees: dated(next)},
		"a request, afterwards": {behind: request, up: serves, sees: dated(next)},
		"one of ours": {
			with: "GET /own HTTP/1.1\r\nHost: h\r\n\r\n", up: func(*peer) {},
			sees: "HTTP/1.1 204 No Content\r\nDate: " + someDate + "\r\n\r\n",
		},
		"one of ours between": {
			with: "GET /own HTTP/1.1\r\nHost: h\r\n\r\n" + request, up: serves,
			sees: "HTTP/1.1 204 No Content\r\nDate: " + someDate + "\r\n\r\n" + dated(next),
		},
		"a body that streams": {
			with: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", behind: "3\r\nabc\r\n0\r\n\r\n",
			up: func(up *peer) {
				up.head()
				up.sees("3\r\nabc\r\n0\r\n\r\n")
				up.send(next)
			},
			sees: dated(next),
		},
		"an upgrade": {
			behind: "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nping",
			up: func(up *peer) {
				up.head()
				up.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				up.sees("ping")
				up.send("pong")
			},
			sees: "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\npong",
		},
		"CONNECT": {
			behind: "CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n", up: func(*peer) {},
			sees: "HTTP/1.1 405 Method Not Allowed\r\n",
		},
		"HTTP/2": {with: http2.ClientPreface, up: func(*peer) {}, sees: "HTTP/1.1 505 HTTP Version Not Supported\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			g, client, other := startReluctant(t, b, config(b))
			client.isOwed(g, request+test.with)
			other.send(request)
			serves(client.up)
			other.sees(dated(next))
			if test.behind != "" {
				client.send(test.behind)
			}
			served := make(chan struct{})
			go func() {
				defer close(served)
				test.up(client.up)
			}()
			client.reads()
			client.sees(dated(owed))
			client.sees(test.sees)
			<-served
		})
	}
}

// TestOwedToNobody: of a client that is gone, or takes its answer too late, no other
// request goes upstream.
func TestOwedToNobody(t *testing.T) {
	for name, test := range map[string]struct {
		timeouts string
		leave    func(c *reluctant)
	}{
		"gone":     {timeouts: "{}", leave: func(c *reluctant) { c.reset() }},
		"too late": {timeouts: "{idle: 0.01s}", leave: func(*reluctant) {}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			config := strings.Replace(single(b.address()), "forward: {", "forward: {timeouts: "+test.timeouts+", ", 1)
			g, client, _ := startReluctant(t, b, config)
			client.isOwed(g, request+request)
			test.leave(client)
			g.drain()
			g.stop() // ends the connection upstream
			client.up.ends()
		})
	}
}

// TestDrainOwes: a client that is owed an answer gets it, and then the end.
func TestDrainOwes(t *testing.T) {
	b := newBackend(t)
	g, client, _ := startReluctant(t, b, single(b.address()))
	client.isOwed(g, request)
	cut := make(chan int)
	go func() { cut <- g.drain() }()
	client.reads()
	client.sees(dated(owed))
	client.ends()
	if n := <-cut; n != 0 {
		t.Errorf("%d connections were cut", n)
	}
}

// TestCutOwes: a drain that takes too long leaves nothing behind.
func TestCutOwes(t *testing.T) {
	b := newBackend(t)
	g, client, _ := startReluctant(t, b, single(b.address()))
	client.isOwed(g, request+request)
	g.stop()
}

// TestIdleAfterOwed: the client has all of its idle time from when it has its answer.
func TestIdleAfterOwed(t *testing.T) {
	const idle = 100 * time.Millisecond
	b := newBackend(t)
	g, client, _ := startReluctant(t, b, single(b.address()))
	client.send(request)
	client.up.head()
	g.apply(strings.Replace(single(b.address()), "127.0.0.1:1}", "127.0.0.1:1, timeouts: {idle: 0.1s}}", 1)) // from now on: the request came in time
	begun := time.Now()
	client.up.send(owed)
	g.recent(2)
	for time.Since(begun) < 2*idle { // none of it is left
		runtime.Gosched()
	}
	reads := time.Now()
	client.reads()
	client.sees(dated(owed))
	client.ends()
	if after := time.Since(reads); after < idle {
		t.Errorf("ended %v after the answer", after)
	}
}
