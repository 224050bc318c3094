package listener

import (
	"context"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headgate/headgate/dataplane/socket"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers each connection with what it sends first, and ends it.
type echo struct{ net.Conn }

func openEcho(c net.Conn, _ uint64) Conn { return echo{c} }

func (e echo) Serve() {
	buf := make([]byte, 16)
	if n, err := e.Read(buf); err == nil {
		_, _ = e.Write(buf[:n])
	}
	_ = e.Conn.Close()
}

func (e echo) Drain() {}
func (e echo) Close() { _ = e.Conn.Close() }

func bind(t testing.TB, network, address string) *Listener {
	t.Helper()
	l, err := Bind(network, address, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Whoever is connected when a listener goes is served, whether or not the
// connection was accepted by then.
func TestStopServesWhatWaits(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		address := "127.0.0.1:0"
		if network == "unix" {
			address = filepath.Join(t.TempDir(), "s")
		}
		for range 20 {
			l := bind(t, network, address)
			clients := make([]net.Conn, 10)
			for i := range clients {
				c, err := net.Dial(network, l.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := c.Write([]byte("ping")); err != nil {
					t.Fatal(err)
				}
				clients[i] = c
			}
			l.Serve(openEcho)
			if cut := l.Drain(context.Background()); cut != 0 {
				t.Fatalf("%d cut", cut)
			}
			for i, c := range clients {
				if got, err := io.ReadAll(c); string(got) != "ping" || err != nil {
					t.Fatalf("%s: client %d of those that waited got %q, %v", network, i, got, err)
				}
				_ = c.Close()
			}
		}
	}
}

// The address is free when Stop returns, while connections are still served.
func TestStopFreesTheAddress(t *testing.T) {
	first := bind(t, "tcp", "127.0.0.1:0")
	address := first.Addr().String()
	first.Serve(openEcho)
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	first.Stop()
	second := bind(t, "tcp", address)
	second.Serve(openEcho)
	if _, err := c.Write([]byte("still")); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); string(got) != "still" || err != nil {
		t.Errorf("the connection of the first listener got %q, %v", got, err)
	}
	_ = c.Close()
	first.Drain(context.Background())
	second.Drain(context.Background())
}

// A socket that never served is closed by Drain too, and what is over the limit
// is not accepted.
func TestStopKeepsTheLimit(t *testing.T) {
	bind(t, "tcp", "127.0.0.1:0").Drain(context.Background())

	l := bind(t, "tcp", "127.0.0.1:0")
	l.SetLimit(1)
	var clients []net.Conn
	for range 3 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	l.Serve(openEcho)
	l.Stop()
	if open, accepted := l.Counts(); open != 1 || accepted != 1 {
		t.Errorf("%d open, %d accepted, with room for 1", open, accepted)
	}
	for _, c := range clients {
		_ = c.Close()
	}
	l.Drain(context.Background())
}

// slowToEnd is a socket whose Accept goes on working for as long as the listener
// could still call it after Stop was called.
type slowToEnd struct {
	*socket.Listening

	t        *testing.T
	listener *Listener
	accepted chan struct{}
	once     bool
}

func (s *slowToEnd) Accept() (*socket.Stream, error) {
	if s.once {
		s.t.Error("accepts over the limit")
		return nil, net.ErrClosed
	}
	s.once = true
	defer close(s.accepted)
	return s.Listening.Accept()
}

func (s *slowToEnd) SetDeadline(t time.Time) error {
	s.listener.accepting.Wait()
	return s.Listening.SetDeadline(t)
}

// Between the word that the listener stops and the end of its socket nothing is
// accepted over the limit.
func TestStoppingIsNoRoom(t *testing.T) {
	l := bind(t, "tcp", "127.0.0.1:0")
	l.SetLimit(1)
	slow := &slowToEnd{Listening: l.socket.(*socket.Listening), t: t, listener: l, accepted: make(chan struct{})}
	l.socket = slow
	var clients []net.Conn
	for range 2 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	l.Serve(openEcho)
	<-slow.accepted
	l.Stop()
	for _, c := range clients {
		_ = c.Close()
	}
	l.Drain(context.Background())
}
