package proxy_test

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/headgate/headgate/dataplane/http2"
	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
)

// handshaker is a backend that answers one request, and echoes bytes until they end
// if answer says so.
func handshaker(t *testing.T, answer func(w io.Writer, r *http.Request) bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		in := bufio.NewReader(c)
		r, err := http.ReadRequest(in)
		if err == nil && answer(c, r) {
			_, _ = io.Copy(c, in)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().String()
}

// tunnels opens a websocket on a stream of HTTP/2.
func tunnels(t *testing.T, g *gate) (*http2.Stream, *message.Response) {
	t.Helper()
	raw, err := net.Dial("tcp", g.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client := http2.NewClient(socket.New(raw), http2.Options{})
	client.Start()
	t.Cleanup(func() {
		client.Close()
		<-client.Done()
	})
	deadline := socket.Now() + int64(patience)
	if err := client.AwaitSettings(deadline); err != nil || !client.ExtendedConnect() {
		t.Fatalf("settings: %v, extended CONNECT: %v", err, client.ExtendedConnect())
	}
	st, err := client.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	var fields message.Fields
	fields.Add([]byte("sec-websocket-version"), []byte("13"))
	head := http2.RequestHead{
		Method: []byte("CONNECT"), Protocol: []byte("websocket"),
		Authority: []byte("h"), Target: []byte("/chat"), Fields: &fields,
	}
	if err := st.WriteRequestHead(&head, false, deadline); err != nil {
		t.Fatal(err)
	}
	resp, err := st.ReadHead(deadline)
	if err != nil {
		t.Fatal(err)
	}
	return st, resp
}

func accept(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// switches accepts the handshake with a key, and sends bytes behind its head.
func switches(w io.Writer, key string) bool {
	fmt.Fprintf(w, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\nearly", key)
	return true
}

func TestWebsocketOnStream(t *testing.T) {
	g := start(t, single(handshaker(t, func(w io.Writer, r *http.Request) bool {
		if r.Method != http.MethodGet || r.URL.Path != "/chat" || r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Sec-WebSocket-Version") != "13" {
			t.Errorf("the backend saw %s %s %v", r.Method, r.URL, r.Header)
		}
		return switches(w, accept(r.Header.Get("Sec-WebSocket-Key")))
	})))
	st, resp := tunnels(t, g)
	defer st.Finish()
	if resp.Status != 200 || resp.Fields.Has(message.Upgrade) {
		t.Fatalf("status %d, fields %v", resp.Status, resp.Fields.All())
	}
	deadline := socket.Now() + int64(patience)
	if _, err := st.WriteData([]byte("hello"), false, deadline); err != nil {
		t.Fatal(err)
	}
	if _, err := st.WriteData([]byte(", world"), true, deadline); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for {
		err := st.Fill(0, deadline)
		got = append(got, st.Buffered()...)
		st.Consume(len(st.Buffered()))
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if string(got) != "earlyhello, world" {
		t.Errorf("the client read %q", got)
	}
}

func TestWebsocketOnStreamRefused(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer func(w io.Writer, r *http.Request) bool
		status int
	}{
		{"wrong key", func(w io.Writer, _ *http.Request) bool { return switches(w, accept("another")) }, 502},
		{"no switch", func(w io.Writer, _ *http.Request) bool {
			fmt.Fprint(w, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			return false
		}, 502},
		{"no", func(w io.Writer, _ *http.Request) bool {
			fmt.Fprint(w, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
			return false
		}, 403},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := start(t, single(handshaker(t, test.answer)))
			st, resp := tunnels(t, g)
			defer st.Finish()
			if resp.Status != test.status {
				t.Errorf("status %d, not %d", resp.Status, test.status)
			}
		})
	}
}

// TestWebsocketOnStreamIsAGet holds that a route takes a websocket alike on every
// wire: by GET, and by the field Upgrade, though a stream says CONNECT.
func TestWebsocketOnStreamIsAGet(t *testing.T) {
	for _, upstream := range []string{"HTTP/1", "HTTP/2"} {
		config := singleOver(upstream, tunnelServer(t, upstream, echoes))
		config = strings.Replace(config, "forward:", "matches: [{methods: [GET], headers: [{name: upgrade, exact: websocket}]}], forward:", 1)
		g := start(t, config)
		for _, client := range []string{"HTTP/1", "HTTP/2", "HTTP/3"} {
			s := switcherOver(t, client, g)
			o := s.mustOpen(s.ask("/chat", "hello"))
			o.reads(t, "hello")
			_ = o.Close()
		}
	}
}

// TestWebsocketOnStreamAgain has the upstream close a connection that was idle as
// the handshake comes: it is sent again, as that of a client of HTTP/1 is.
func TestWebsocketOnStreamAgain(t *testing.T) {
	for _, client := range []string{"HTTP/1", "HTTP/2"} {
		t.Run(client, func(t *testing.T) {
			b := newBackend(t)
			g := start(t, single(b.address()))
			first := g.dial()
			first.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			stale := b.accept()
			stale.head()
			stale.send("HTTP/1.1 204 No Content\r\n\r\n")
			first.head()
			var opening sync.WaitGroup
			opening.Go(func() {
				s := switcherOver(t, client, g)
				_ = s.mustOpen(s.ask("/chat", "")).Close()
			})
			stale.head()
			stale.close()
			fresh := b.accept()
			r, err := http.ReadRequest(bufio.NewReader(fresh.conn))
			if err != nil {
				t.Fatal(err)
			}
			switches(fresh.conn, accept(r.Header.Get("Sec-WebSocket-Key")))
			opening.Wait()
		})
	}
}
