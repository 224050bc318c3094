package socket

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// newLoop is a loop that is closed, and waited for, when the test ends.
func newLoop(t testing.TB) *Loop {
	t.Helper()
	crew := NewCrew(1)
	l, err := NewLoop(crew, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); <-l.ended; crew.Close() })
	return l
}

// attendEcho has a loop serve c until the test ends; done is closed when that is
// over.
func attendEcho(t testing.TB, l *Loop, c *Conn, change func(*echo)) (e *echo, done chan struct{}) {
	t.Helper()
	e, done = newEcho(c), make(chan struct{})
	change(e)
	over := func() {
		_ = c.Close()
		c.Discard()
		close(done)
	}
	if !c.Attend(l, e, over) {
		t.Fatal("the loop cannot serve it")
	}
	t.Cleanup(func() { _ = c.Close(); <-done })
	return e, done
}

// client is a connection that l serves as an echo, and the peer's end.
func client(t testing.TB, l *Loop, change func(*echo)) (e *echo, far net.Conn, done chan struct{}) {
	t.Helper()
	near, far := accepted(t, "tcp")
	e, done = attendEcho(t, l, New(near), change)
	return e, far, done
}

func asIs(*echo) {}

// owned is a connection that was dialled, and the peer's end.
func owned(t testing.TB) (*Conn, *net.TCPConn) {
	t.Helper()
	listening, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listening.Close()
	near, err := net.Dial("tcp", listening.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := listening.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if near, err = Own(near); err != nil {
		t.Fatal(err)
	}
	c := New(near)
	t.Cleanup(func() { _ = c.Close(); c.Discard(); _ = far.Close() })
	return c, far.(*net.TCPConn)
}

// TestLoopRestsWithoutGoroutines: of many connections that have been served none
// costs a goroutine, and those of the crew were not needed at the same time.
func TestLoopRestsWithoutGoroutines(t *testing.T) {
	const conns = 200
	l := newLoop(t)
	before := runtime.NumGoroutine()
	for range conns {
		e, far, _ := client(t, l, asIs)
		send(t, far, []byte("x\n"))
		expect(t, far, "x\n")
		<-e.rests
	}
	if more := runtime.NumGoroutine() - before; more > conns/10 {
		t.Errorf("%d goroutines for %d connections that rest", more, conns)
	}
}

// TestLoopServesAllThatAreReady at once, though they are more than it takes from the
// poller at a time, and again.
func TestLoopServesAllThatAreReady(t *testing.T) {
	l := newLoop(t)
	held, hold := make(chan struct{}), make(chan struct{})
	_, blocker, _ := client(t, l, func(e *echo) {
		e.line = func([]byte) bool {
			held <- struct{}{}
			<-hold
			return true
		}
	})
	var fars []net.Conn
	for range 2*loopBudget + loopBatch + 1 {
		_, far, _ := client(t, l, asIs)
		fars = append(fars, far)
	}
	for range 3 {
		send(t, blocker, []byte("stop\n"))
		<-held
		for _, far := range fars {
			send(t, far, []byte("all\n"))
		}
		hold <- struct{}{}
		for _, far := range fars {
			expect(t, far, "all\n")
		}
	}
}

// TestLoopServesOthersThanTheBusiest: one that sends without end keeps nobody from
// being served.
func TestLoopServesOthersThanTheBusiest(t *testing.T) {
	l := newLoop(t)
	served := make(chan struct{})
	var once sync.Once
	_, busy, done := client(t, l, func(e *echo) {
		answer, lines := e.line, 0
		e.line = func(line []byte) bool {
			if lines++; lines == 1000 {
				once.Do(func() { close(served) })
			}
			return answer(line)
		}
	})
	var all sync.WaitGroup
	all.Go(func() {
		lines := bytes.Repeat([]byte("more\n"), 1000)
		for {
			if _, err := busy.Write(lines); err != nil {
				return
			}
		}
	})
	all.Go(func() { _, _ = io.Copy(io.Discard, busy) })
	<-served
	for range 10 {
		_, far, _ := client(t, l, asIs)
		send(t, far, []byte("me too\n"))
		expect(t, far, "me too\n")
	}
	_ = busy.Close()
	<-done
	all.Wait()
}

// TestLoopEndWithBytes notices an end that comes together with bytes: nothing tells of
// it again.
func TestLoopEndWithBytes(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		near, far := accepted(t, network)
		send(t, far, []byte("last\n"))
		if err := far.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		awaitSign(t, near.fd, unix.POLLRDHUP)
		_, done := attendEcho(t, newLoop(t), New(near), asIs)
		expect(t, far, "last\n")
		<-done
	}
}

// awaitSign waits until the kernel gives a sign for a descriptor: that the peer's end has
// come, or that there is room to write.
func awaitSign(t *testing.T, fd int, sign int16) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(fd), Events: sign}}
	for {
		n, err := unix.Poll(fds, 10_000)
		if err == unix.EINTR {
			continue
		}
		if n != 1 || err != nil {
			t.Errorf("no sign came: %d, %v", n, err) // who asks may not be the test's goroutine
		}
		return
	}
}

// TestLoopLetsInTheSilent after a while: their handler may have something to say
// first.
func TestLoopLetsInTheSilent(t *testing.T) {
	begun := time.Now()
	e, far, _ := client(t, newLoop(t), func(e *echo) { e.idle = Now() + int64(time.Hour) })
	<-e.rests
	if after := time.Since(begun); after < firstLook {
		t.Errorf("let in after %v, before it could have spoken", after)
	}
	send(t, far, []byte("now\n"))
	expect(t, far, "now\n")
}

// TestLoopWakesTheIdle at the deadline, those that are new and those that have been
// served, near deadlines and far ones, for which a new connection has no timer.
func TestLoopWakesTheIdle(t *testing.T) {
	l := newLoop(t)
	for _, idle := range []time.Duration{time.Millisecond, firstLook, 3 * firstLook} {
		for _, speaks := range []bool{false, true} {
			woken := make(chan error, 1)
			limit := Now() + int64(idle)
			_, far, done := client(t, l, func(e *echo) {
				e.idle = limit
				e.woken = func(err error) bool {
					woken <- err
					return false
				}
			})
			if speaks {
				_, _ = far.Write([]byte("x\n"))
			}
			if err := <-woken; !errors.Is(err, os.ErrDeadlineExceeded) || Now() < limit {
				t.Errorf("woken by %v, %v before the deadline", err, time.Duration(limit-Now()))
			}
			<-done
		}
	}
}

// TestLoopCloses when the last connection has gone: those that are open are served
// until then, and what its poller knew besides is waited for by others after.
func TestLoopCloses(t *testing.T) {
	l := newLoop(t)
	first, far1, _ := client(t, l, asIs)
	_, far2, done2 := client(t, l, asIs)
	up, upFar := owned(t)
	up.Join(l)
	read := make(chan error)
	go func() { read <- up.Fill(0, 0) }()
	for waiting := up.net.(*Stream); waiting.in.who.Load() == nil; {
		runtime.Gosched()
	}
	l.Close()
	for _, far := range []net.Conn{far1, far2} {
		send(t, far, []byte("still\n"))
		expect(t, far, "still\n")
	}
	_ = far2.Close()
	<-done2
	send(t, far1, []byte("the last\n"))
	expect(t, far1, "the last\n")
	_ = first.c.Close()
	<-l.ended
	send(t, upFar, []byte("x"))
	if err := <-read; err != nil || string(up.Buffered()) != "x" {
		t.Errorf("%q, %v", up.Buffered(), err)
	}
	if near, _ := accepted(t, "tcp"); New(near).Attend(l, first, func() {}) {
		t.Error("a loop that is over serves")
	}
}

// TestLoopClosesOrServes: of a connection that comes at the end either the loop says
// that it is over, or it is served.
func TestLoopClosesOrServes(t *testing.T) {
	crew := NewCrew(1)
	defer crew.Close()
	s, dial := listening(t, "tcp")
	for range 200 {
		l, err := NewLoop(crew, 0)
		if err != nil {
			t.Fatal(err)
		}
		far := dial()
		near, err := s.Accept()
		if err != nil {
			t.Fatal(err)
		}
		send(t, far, []byte("x\n"))
		c, closes, done := New(near), make(chan struct{}), make(chan struct{})
		go func() {
			defer close(closes)
			l.Close()
		}()
		if c.Attend(l, newEcho(c), func() { _ = c.Close(); close(done) }) {
			expect(t, far, "x\n")
			_ = far.Close()
			<-done
		} else {
			_ = c.Close()
		}
		<-closes
		<-l.ended
	}
}
