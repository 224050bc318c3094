package socket

import (
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// told is what an awaiter hears, each once.
type told struct {
	arrived chan int64
	roused  chan struct{}
}

func newTold() *told { return &told{make(chan int64, 2), make(chan struct{}, 2)} }

func (a *told) Arrived(now int64) { a.arrived <- now }
func (a *told) Roused()           { a.roused <- struct{}{} }

// arrives waits until it is told of something to read, and of nothing else.
func (a *told) arrives(t *testing.T) {
	t.Helper()
	before := Now()
	select {
	case now := <-a.arrived:
		if now > Now() || now < before-int64(time.Minute) {
			t.Errorf("told of %d at %d", now, before)
		}
	case <-a.roused:
		t.Fatal("roused")
	}
	a.quiet(t)
}

// rouses waits until it is roused, and told of nothing else.
func (a *told) rouses(t *testing.T) {
	t.Helper()
	select {
	case <-a.arrived:
		t.Fatal("something has arrived")
	case <-a.roused:
	}
	a.quiet(t)
}

func (a *told) quiet(t *testing.T) {
	t.Helper()
	if len(a.arrived)+len(a.roused) > 0 {
		t.Error("told twice")
	}
}

// awaited is a connection that a loop knows, and the peer's end.
func awaited(t *testing.T, l *Loop) (*Conn, *net.TCPConn) {
	t.Helper()
	c, far := owned(t)
	c.Join(l)
	return c, far
}

// awaits has a wait on c, which must be possible.
func (a *told) awaits(t *testing.T, c *Conn, deadline int64) {
	t.Helper()
	if !c.Await(a, deadline) {
		t.Fatal("it cannot be awaited")
	}
}

// TestAwaitArrives tells of bytes and of an end, and leaves them to be read.
func TestAwaitArrives(t *testing.T) {
	c, far := awaited(t, newLoop(t))
	for range 3 {
		a := newTold()
		a.awaits(t, c, minute())
		send(t, far, []byte("x"))
		a.arrives(t)
		if n := c.FillOnce(); n != 1 || string(c.Buffered()) != "x" {
			t.Errorf("%d bytes: %q", n, c.Buffered())
		}
		c.Consume(1)
		c.Release()
	}
	a := newTold()
	a.awaits(t, c, 0)
	_ = far.CloseWrite()
	a.arrives(t)
	if n := c.FillOnce(); n != 0 {
		t.Errorf("%d bytes at the end", n)
	}
	if c.Await(a, 0) {
		t.Error("waits for what comes after the end")
	}
	a.quiet(t)
}

// TestAwaitWhatIsThere: of what the loop has told before, to nobody or to another, is
// awaited only what is new.
func TestAwaitWhatIsThere(t *testing.T) {
	c, far := awaited(t, newLoop(t))
	in := &c.net.(*Stream).in
	news := func() {
		send(t, far, []byte("x"))
		for in.who.Load() != arrived {
			runtime.Gosched()
		}
	}
	news()
	a := newTold()
	if c.Await(a, 0) || string(c.Buffered()) != "x" {
		t.Errorf("it waits, with %q there", c.Buffered())
	}
	c.Consume(1)
	c.Release()
	news()
	if c.FillOnce() != 1 {
		t.Error("nothing was there")
	}
	c.Consume(1)
	c.Release()
	a.awaits(t, c, 0) // what was told of has been read
	send(t, far, []byte("y"))
	a.arrives(t)
}

// TestAwaitDeadline rouses when it has passed: the first, one that is later, and one that
// is sooner than what the timer was set for.
func TestAwaitDeadline(t *testing.T) {
	c, far := awaited(t, newLoop(t))
	for _, ahead := range []time.Duration{time.Millisecond, 3 * time.Millisecond, time.Hour, time.Millisecond} {
		a, deadline := newTold(), Now()+int64(ahead)
		a.awaits(t, c, deadline)
		if ahead == time.Hour {
			send(t, far, []byte("x"))
			a.arrives(t)
			c.FillOnce()
			c.Consume(1)
			c.Release()
			continue
		}
		a.rouses(t)
		if Now() < deadline {
			t.Error("roused before its time")
		}
	}
}

// TestAwaitOutlivesTimer: the timer of one who waited before is no deadline of those who
// wait after.
func TestAwaitOutlivesTimer(t *testing.T) {
	c, far := awaited(t, newLoop(t))
	for _, deadline := range []int64{0, minute()} {
		a, first := newTold(), newTold()
		soon := Now() + int64(2*time.Millisecond)
		first.awaits(t, c, soon)
		send(t, far, []byte("x"))
		select {
		case <-first.arrived:
		case <-first.roused: // a slow machine
		}
		for c.FillOnce() == 0 {
			runtime.Gosched()
		}
		c.Consume(1)
		c.Release()
		for in := &c.net.(*Stream).in; !in.who.CompareAndSwap(arrived, nil) && in.who.Load() != nil; {
			runtime.Gosched()
		}
		a.awaits(t, c, deadline)
		for fired := false; !fired; { // the timer has
			c.call.mu.Lock()
			fired = c.call.armed != soon
			c.call.mu.Unlock()
			runtime.Gosched()
		}
		a.quiet(t)
		send(t, far, []byte("x"))
		a.arrives(t)
		c.FillOnce()
		c.Consume(1)
		c.Release()
	}
}

// TestAwaitDeadlineBehindAnother: a timer that was set for one who has been told, and fires
// too early for the one who waits, is set again.
func TestAwaitDeadlineBehindAnother(t *testing.T) {
	c, far := awaited(t, newLoop(t))
	first, next := newTold(), newTold()
	first.awaits(t, c, Now()+int64(20*time.Millisecond))
	send(t, far, []byte("x"))
	select {
	case <-first.arrived:
	case <-first.roused: // a slow machine
	}
	for c.FillOnce() == 0 {
		runtime.Gosched()
	}
	c.Consume(1)
	c.Release()
	deadline := Now() + int64(40*time.Millisecond)
	next.awaits(t, c, deadline)
	next.rouses(t)
	if Now() < deadline {
		t.Error("roused before its time")
	}
}

// TestAwaitLeavesNoTimer behind of a connection that is given up.
func TestAwaitLeavesNoTimer(t *testing.T) {
	c, _ := awaited(t, newLoop(t))
	a := newTold()
	a.awaits(t, c, minute())
	_ = c.Close()
	a.rouses(t)
	if c.Discard(); c.call.timer.Stop() {
		t.Error("its timer would fire")
	}
}

// TestAwaitRoused by all that has nobody tell of the connection any more.
func TestAwaitRoused(t *testing.T) {
	for name, end := range map[string]func(l *Loop, c *Conn){
		"Close":             func(_ *Loop, c *Conn) { _ = c.Close() },
		"Depart":            func(_ *Loop, c *Conn) { c.Depart() },
		"the loop's end":    func(l *Loop, _ *Conn) { l.Close() },
		"Discard":           func(_ *Loop, c *Conn) { _ = c.Close(); c.Discard() },
		"a deadline set":    func(_ *Loop, c *Conn) { c.Interrupt() },
		"two of them":       func(l *Loop, c *Conn) { l.Close(); _ = c.Close() },
		"a deadline passed": func(_ *Loop, c *Conn) { _ = c.net.(*Stream).SetReadDeadline(past) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t)
			c, _ := awaited(t, l)
			a := newTold()
			a.awaits(t, c, minute())
			end(l, c)
			a.rouses(t)
		})
	}
}

// TestAwaitNeedsALoop that knows the connection, which is not closed.
func TestAwaitNeedsALoop(t *testing.T) {
	a := newTold()
	refuses := func(name string, c *Conn) {
		if c.Await(a, 0) {
			t.Errorf("%s: it waits", name)
		}
	}
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	refuses("a pipe", New(near))
	c, _ := owned(t)
	refuses("in no loop", c)
	c, _ = awaited(t, newLoop(t))
	_ = c.Close()
	refuses("closed", c)
	l := newLoop(t)
	c, _ = awaited(t, l)
	l.Close()
	<-l.ended
	refuses("the loop is over", c)
	a.quiet(t)
}

// TestAwaitLeavesOthersAlone: who looks late whether its wait is of use, when that has
// been told and another waits for the next answer, takes that one not out.
func TestAwaitLeavesOthersAlone(t *testing.T) {
	c, far := awaited(t, newLoop(t))
	first, next := newTold(), newTold()
	first.awaits(t, c, 0)
	wait := c.call.wait
	send(t, far, []byte("x"))
	first.arrives(t)
	c.FillOnce()
	c.Consume(1)
	c.Release()
	next.awaits(t, c, minute())
	if c.call.leave(wait) {
		t.Error("it takes out whom it has not entered")
	}
	send(t, far, []byte("y"))
	next.arrives(t)
	first.quiet(t)
}

// TestAwaitRaces tells each once, whatever comes together: bytes, a deadline, Close, and
// the end of the loop.
func TestAwaitRaces(t *testing.T) {
	stays := newLoop(t)
	for i := range 300 {
		l := stays
		if i%3 == 0 {
			l = newLoop(t)
		}
		c, far := awaited(t, l)
		var heard atomic.Int32
		a := hears(func() { heard.Add(1) })
		var all sync.WaitGroup
		all.Go(func() { _, _ = far.Write([]byte("x")) })
		all.Go(func() { runtime.Gosched(); _ = c.Close() })
		if i%3 == 0 {
			all.Go(l.Close)
		}
		want := int32(0)
		if c.Await(a, Now()+int64(i%5)*int64(20*time.Microsecond)+1) {
			want = 1
		}
		all.Wait()
		for heard.Load() < want {
			runtime.Gosched()
		}
		if got := heard.Load(); got != want {
			t.Fatalf("told %d times, want %d", got, want)
		}
	}
}

// hears counts, whatever it is told.
type hears func()

func (h hears) Arrived(int64) { h() }
func (h hears) Roused()       { h() }
