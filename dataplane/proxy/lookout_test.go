package proxy

import (
	"log/slog"
	"net"
	"testing"

	"github.com/headgate/headgate/dataplane/socket"
	"github.com/headgate/headgate/dataplane/upstream/pool"
)

// watched is a connection of an engine, as a client holds it and as we do.
func watched(t *testing.T, e *Engine) (far *net.TCPConn, c *Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	near, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c = e.NewConn(near, 0, 0)
	t.Cleanup(func() {
		c.engine.lookouts.of(c).leave(c)
		c.Close()
		_ = client.Close()
	})
	return client.(*net.TCPConn), c
}

// list puts connections on a list whose rounds the test makes.
func list(l *lookout, conns ...*Conn) {
	l.running = true
	for _, c := range conns {
		l.enlist(c)
	}
}

// goes closes the client's end, and waits until that can be seen.
func goes(far *net.TCPConn, c *Conn) {
	_ = far.Close()
	for !c.sock.Left() {
	}
}

// TestLookout ends the wait of a client that has left, once it has lasted, and
// no other.
func TestLookout(t *testing.T) {
	e := New(slog.New(slog.DiscardHandler))
	l := &e.lookouts[0]
	_, stays := watched(t, e)
	far, leaves := watched(t, e)
	_, up := watched(t, e)
	list(l, stays, leaves)
	here := &exchange{state: state{conn: stays, now: 100}}
	gone := &exchange{state: state{conn: leaves, now: 100}}
	gone.attempt.up = &pool.Conn{Conn: up.sock}
	here.beginWait()
	gone.beginWait()
	goes(far, leaves)
	l.round(100 + lookAfter)
	if up.sock.Left() {
		t.Error("looked at too early")
	}
	l.round(101 + lookAfter)
	if !up.sock.Left() || !gone.endWait() || here.endWait() {
		t.Errorf("the upstream's connection is closed: %t", up.sock.Left())
	}
	gone.beginWait()
	if gone.endWait() {
		t.Error("the next wait is ended by the one before")
	}
}

// TestLookoutLetsGo forgets who waits for nothing, and knows them again when they
// wait.
func TestLookoutLetsGo(t *testing.T) {
	e := New(slog.New(slog.DiscardHandler))
	l := &e.lookouts[0]
	_, a := watched(t, e)
	_, b := watched(t, e)
	_, c := watched(t, e)
	list(l, a, b, c)
	waiting := &exchange{state: state{conn: b, now: socket.Now()}}
	waiting.beginWait()
	for range quietRounds - 1 {
		l.round(socket.Now())
	}
	if len(l.conns) != 3 {
		t.Errorf("%d are known before their time", len(l.conns))
	}
	if l.round(socket.Now()); len(l.conns) != 1 || l.conns[0] != b || a.wait.listed.Load() || c.wait.listed.Load() {
		t.Errorf("%d are known", len(l.conns))
	}
	again := &exchange{state: state{conn: c, now: socket.Now()}}
	again.beginWait()
	if len(l.conns) != 2 || !c.wait.listed.Load() {
		t.Errorf("%d are known", len(l.conns))
	}
	again.endWait()
	l.leave(c)
	l.leave(c)
	waiting.endWait()
	l.leave(b)
	if l.round(socket.Now()) || len(l.conns) != 0 {
		t.Errorf("%d are known", len(l.conns))
	}
}

// TestLookoutInACrowd has each its turn where there are more than one round looks
// at.
func TestLookoutInACrowd(t *testing.T) {
	e := New(slog.New(slog.DiscardHandler))
	l := &e.lookouts[0]
	_, shown := watched(t, e)
	const crowd = 2*looksPerRound + 7
	var conns []*Conn
	for range crowd {
		c := &Conn{engine: e, sock: shown.sock}
		c.wait.what = new(attempt)
		c.wait.since.Store(1)
		conns = append(conns, c)
	}
	list(l, conns...)
	shown.Close()
	for range 3 {
		l.round(2 + lookAfter)
	}
	for i, c := range conns {
		if c.wait.since.Load() != told {
			t.Fatalf("number %d of %d had no turn", i, crowd)
		}
	}
}
