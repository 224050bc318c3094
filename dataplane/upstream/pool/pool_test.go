package pool

import (
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headgate/headgate/dataplane/socket"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open takes a place that must be free and makes a connection of it.
func open(t testing.TB, p *Pool) *Conn {
	t.Helper()
	c, err := p.Acquire(socket.Now(), nil)
	if c != nil || err != nil {
		t.Fatalf("Acquire = %v, %v", c, err)
	}
	return p.Add(wire())
}

// wire is a connection that goes nowhere.
func wire() *socket.Conn {
	near, _ := net.Pipe()
	return socket.New(near)
}

func limits(connections, perPool, waiting int) Limits {
	return Limits{Connections: connections, PerPool: perPool, Waiting: waiting, KeepAlive: time.Minute}
}

func idle(p *Pool, own int) *Conn { return p.Idle(own, socket.Now()) }

func counts(t testing.TB, p *Pool, wantIdle, wantOpen int) {
	t.Helper()
	if idle, open := p.Counts(); idle != wantIdle || open != wantOpen {
		t.Fatalf("%d idle of %d, want %d of %d", idle, open, wantIdle, wantOpen)
	}
}

func TestLastReleasedFirst(t *testing.T) {
	p := NewGroup(limits(0, 0, 0)).NewPool(2)
	a, b, c := open(t, p), open(t, p), open(t, p)
	a.Release(0)
	b.Release(0)
	c.Release(1)
	counts(t, p, 3, 3)
	for i, want := range []*Conn{b, a, c} {
		if got := idle(p, 0); got != want || !got.Reused {
			t.Fatalf("number %d is another connection", i)
		}
	}
	if idle(p, 0) != nil {
		t.Fatal("a connection too many")
	}
	counts(t, p, 0, 3)
}

func TestDiscardGivesThePlaceBack(t *testing.T) {
	p := NewGroup(limits(1, 0, 0)).NewPool(1)
	c := open(t, p)
	if _, err := p.Acquire(socket.Now(), nil); err != ErrFull {
		t.Fatalf("over the limit: %v", err)
	}
	c.Discard()
	c.Discard()
	c.Release(0)
	counts(t, p, 0, 0)
	open(t, p)
	if _, err := p.Acquire(socket.Now(), nil); err != ErrFull {
		t.Fatalf("the place was given back twice: %v", err)
	}
}

func TestSecondReleaseHasNoEffect(t *testing.T) {
	p := NewGroup(limits(0, 0, 0)).NewPool(1)
	c := open(t, p)
	c.Release(0)
	c.Release(0)
	counts(t, p, 1, 1)
}

// Bytes that nobody asked for would be taken for the answer to the next request.
func TestLeftoverBytesCloseAConnection(t *testing.T) {
	near, far := net.Pipe()
	p := NewGroup(limits(0, 0, 0)).NewPool(1)
	if _, err := p.Acquire(socket.Now(), nil); err != nil {
		t.Fatal(err)
	}
	c := p.Add(socket.New(near))
	sent := make(chan error)
	go func() {
		_, err := far.Write([]byte("HTTP/1.1 200"))
		sent <- err
	}()
	if err := c.Fill(1, 0); err != nil {
		t.Fatal(err)
	}
	<-sent
	c.Release(0)
	counts(t, p, 0, 0)
}

func TestTooOldIsNotHandedOut(t *testing.T) {
	p := NewGroup(limits(0, 0, 0)).NewPool(2)
	open(t, p).Release(1)
	later := socket.Now() + int64(time.Minute) + 1
	if p.Idle(0, later) != nil {
		t.Fatal("a connection older than the keep-alive timeout")
	}
	counts(t, p, 1, 1)
	p.Sweep(later)
	counts(t, p, 0, 0)
}

func TestSweepFindsClosedByPeer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := NewGroup(limits(0, 0, 0)).NewPool(1)
	var kept, closed *Conn
	for i, where := range []**Conn{&kept, &closed, &closed} {
		near, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		far, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer far.Close()
		if _, err := p.Acquire(socket.Now(), nil); err != nil {
			t.Fatal(err)
		}
		*where = p.Add(socket.New(near))
		if i == 1 {
			_, err = far.Write([]byte("x"))
		} else if i == 2 {
			err = far.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		for *where != kept && (*where).Peek() == socket.Quiet {
			// Loopback delivers without being waited for, but not at once.
		}
		(*where).Release(0)
	}
	counts(t, p, 3, 3)
	p.Sweep(socket.Now())
	counts(t, p, 3, 3) // all were used a moment ago
	p.Sweep(socket.Now() + rested)
	counts(t, p, 1, 1)
	if idle(p, 0) != kept {
		t.Fatal("another one was kept")
	}
	kept.Discard()
}

func TestSweepGoesThroughLargeShards(t *testing.T) {
	p := NewGroup(limits(0, 0, 0)).NewPool(1)
	conns := make([]*Conn, 5*batch+3)
	for i := range conns {
		conns[i] = open(t, p)
	}
	half := len(conns) / 2
	for _, c := range conns {
		c.Release(0)
	}
	s := &(*p.shards.Load())[0]
	for _, c := range s.idle[:half] {
		c.since -= int64(time.Hour)
	}
	p.Sweep(socket.Now())
	counts(t, p, len(conns)-half, len(conns)-half)
	for i := len(conns) - 1; i >= half; i-- {
		if idle(p, 0) != conns[i] {
			t.Fatal("out of order after a sweep")
		}
	}
}

func TestClosedPoolKeepsNothing(t *testing.T) {
	g := NewGroup(limits(0, 0, 0))
	p := g.NewPool(2)
	busy, resting := open(t, p), open(t, p)
	resting.Release(0)
	p.Close()
	counts(t, p, 0, 1)
	busy.Release(1)
	counts(t, p, 0, 0)
	if len(g.pools) != 0 {
		t.Fatal("the group still has the pool")
	}
}

func TestIdleAndReleaseDoNotAllocate(t *testing.T) {
	p := NewGroup(limits(10, 10, 10)).NewPool(2)
	open(t, p).Release(0)
	allocs := testing.AllocsPerRun(100, func() {
		idle(p, 0).Release(0)
	})
	if allocs != 0 {
		t.Fatalf("%v allocations", allocs)
	}
}

func BenchmarkIdleRelease(b *testing.B) {
	p := NewGroup(limits(10, 10, 10)).NewPool(2)
	open(b, p).Release(0)
	now := socket.Now()
	for b.Loop() {
		p.Idle(0, now).ReleaseAt(0, now)
	}
}
