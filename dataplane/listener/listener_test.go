package listener

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// held is a connection that is served until it is drained or closed.
type held struct {
	net.Conn
	once    sync.Once
	end     chan struct{}
	patient bool // a drain does not end it
}

func (h *held) Serve() { <-h.end; _ = h.Conn.Close() }

func (h *held) Drain() {
	if !h.patient {
		h.Close()
	}
}

func (h *held) Close() { h.once.Do(func() { close(h.end) }) }

// hold is a listener that holds what it accepts; it comes out of the channel.
func hold(t *testing.T, patient bool) (*Listener, chan *held) {
	t.Helper()
	l := bind(t, "tcp", "127.0.0.1:0")
	accepted := make(chan *held, 100)
	l.Serve(func(c net.Conn, n uint64) Conn {
		h := &held{Conn: c, end: make(chan struct{}), patient: patient}
		accepted <- h
		return h
	})
	return l, accepted
}

func dial(t *testing.T, l *Listener) net.Conn {
	t.Helper()
	c, err := net.Dial(l.Network(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestNoDelay: what is accepted does not wait to send, without having been told.
func TestNoDelay(t *testing.T) {
	l, accepted := hold(t, false)
	defer l.Drain(context.Background())
	dial(t, l)
	raw, err := (<-accepted).Conn.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		if on, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_NODELAY); on != 1 || err != nil {
			t.Errorf("TCP_NODELAY is %d, %v", on, err)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// TestSilentClientIsThere counts who has said nothing yet, and sends him away in a
// drain.
func TestSilentClientIsThere(t *testing.T) {
	l, accepted := hold(t, false)
	silent := dial(t, l)
	<-accepted
	if open, _ := l.Counts(); open != 1 {
		t.Errorf("%d open", open)
	}
	if cut := l.Drain(context.Background()); cut != 0 {
		t.Errorf("%d were cut", cut)
	}
	if n, err := silent.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("%d, %v, want the end", n, err)
	}
}

// TestLimit leaves connections over the limit in the kernel's queue until there
// is room.
func TestLimit(t *testing.T) {
	l, accepted := hold(t, false)
	l.SetLimit(2)
	for range 4 {
		dial(t, l)
	}
	first, second := <-accepted, <-accepted
	if open, total := l.Counts(); open != 2 || total != 2 {
		t.Errorf("%d open of %d, want 2 of 2", open, total)
	}
	first.Close()
	<-accepted
	second.Close()
	<-accepted
	l.SetLimit(1)
	dial(t, l)
	l.SetLimit(0)
	<-accepted
	if cut := l.Drain(context.Background()); cut != 0 {
		t.Errorf("%d were cut", cut)
	}
}

// TestDrainAtTheLimit does not wait for room.
func TestDrainAtTheLimit(t *testing.T) {
	l, accepted := hold(t, false)
	l.SetLimit(1)
	waiting := dial(t, l)
	<-accepted
	queued := dial(t, l)
	l.Drain(context.Background())
	for _, c := range []net.Conn{waiting, queued} {
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("%d, %v of a connection that was drained", n, err)
		}
	}
}

func TestDrainCuts(t *testing.T) {
	l, accepted := hold(t, true)
	c := dial(t, l)
	<-accepted
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan int)
	go func() { done <- l.Drain(ctx) }()
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		// It came before the socket was closed.
		t.Log("one more connection")
	}
	cancel()
	if cut := <-done; cut < 1 {
		t.Errorf("%d were cut", cut)
	}
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("%v, want EOF", err)
	}
	if open, _ := l.Counts(); open != 0 {
		t.Errorf("%d are open", open)
	}
}

// TestDrainUnserved is what becomes of a socket whose snapshot is not applied.
func TestDrainUnserved(t *testing.T) {
	l, err := Bind("tcp", "127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, l)
	if cut := l.Drain(context.Background()); cut != 0 {
		t.Errorf("%d were cut", cut)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection goes on")
	}
}

// TestUnixSocket replaces a file that nobody listens on, and nothing else.
func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	logger := slog.New(slog.DiscardHandler)
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	_ = stale.Close()
	l, err := Bind("unix", path, logger)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Bind("unix", path, logger); err == nil {
		t.Error("a socket in use was replaced")
	}
	l.Drain(context.Background())
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Bind("unix", path, logger); err == nil {
		t.Error("a file was replaced")
	}
}

func TestAddressInUse(t *testing.T) {
	l, _ := hold(t, false)
	if _, err := Bind("tcp", l.Addr().String(), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("bound twice")
	}
	l.Drain(context.Background())
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil || errors.Is(err, context.Canceled) {
		t.Error("a drained socket accepts")
	}
}
