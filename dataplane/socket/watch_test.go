package socket

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// echo answers what it reads, a line at a time, within the limits of Handler.
type echo struct {
	c     *Conn
	idle  int64 // deadline of a rest
	line  func(line []byte) (live bool)
	rests chan struct{} // one message each time it begins to rest
	woken func(err error) bool
	rest  func() bool
	held  atomic.Bool // a buffer, at rest
}

func (e *echo) Ready() bool {
	for {
		if there, err := e.c.FillNow(); !there {
			return err == nil
		}
		for !bytes.ContainsRune(e.c.Buffered(), '\n') {
			if err := e.c.Fill(0, 0); err != nil {
				return false
			}
		}
		n := bytes.IndexByte(e.c.Buffered(), '\n') + 1
		line := bytes.Clone(e.c.Buffered()[:n])
		e.c.Consume(n)
		e.c.Release()
		if !e.line(line) {
			return false
		}
	}
}

func (e *echo) Deadline() int64 { return e.idle }

func (e *echo) Rest() bool {
	e.held.Store(e.held.Load() || e.c.in != nil)
	select {
	case e.rests <- struct{}{}:
	default:
	}
	return e.rest()
}

func (e *echo) Woken(err error) bool { return e.woken(err) }

// A serving is one of the ways to serve a connection, by Watch or by Attend: what
// Handler promises holds for both. It calls over at the end.
type serving func(t *testing.T, c *Conn, crew *Crew, h Handler, over func())

func watching(_ *testing.T, c *Conn, crew *Crew, h Handler, over func()) {
	go func() {
		defer over()
		c.Watch(crew, 1, h)
	}()
}

func attending(t *testing.T, c *Conn, crew *Crew, h Handler, over func()) {
	t.Helper()
	l, err := NewLoop(crew, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); <-l.ended })
	attendingBy(l)(t, c, crew, h, over)
}

func attendingBy(l *Loop) serving {
	return func(t *testing.T, c *Conn, _ *Crew, h Handler, over func()) {
		t.Helper()
		if !c.Attend(l, h, over) {
			t.Fatal("a loop cannot serve it")
		}
	}
}

// watchEcho watches c until the test ends; done is closed when Watch returns.
func watchEcho(t *testing.T, c *Conn, change func(*echo)) (e *echo, done chan struct{}) {
	t.Helper()
	return serveEcho(t, c, watching, change)
}

// serveEcho serves c until the test ends; done is closed when that is over.
func serveEcho(t *testing.T, c *Conn, serve serving, change func(*echo)) (e *echo, done chan struct{}) {
	t.Helper()
	crew := NewCrew(2)
	t.Cleanup(crew.Close)
	e = newEcho(c)
	change(e)
	done = make(chan struct{})
	serve(t, c, crew, e, func() {
		_ = c.Close()
		c.Discard()
		close(done)
	})
	t.Cleanup(func() { _ = c.Close(); <-done })
	return e, done
}

func newEcho(c *Conn) *echo {
	e := &echo{c: c, rests: make(chan struct{}, 1), woken: func(error) bool { return false }, rest: func() bool { return true }}
	e.line = func(line []byte) bool {
		_, err := c.Write(line, 0)
		return err == nil
	}
	return e
}

// wires are the kinds of connections that are watched: TCP, which counts what is
// unread, unix sockets, which do not, both as they are accepted, TLS, and what no
// poller knows.
var wires = map[string]func(t *testing.T) (*Conn, net.Conn){
	"tcp": func(t *testing.T) (*Conn, net.Conn) { return pair(t) },
	"accepted": func(t *testing.T) (*Conn, net.Conn) {
		near, far := accepted(t, "tcp")
		return New(near), far
	},
	"accepted unix": func(t *testing.T) (*Conn, net.Conn) {
		near, far := accepted(t, "unix")
		return New(near), far
	},
	"unix": func(t *testing.T) (*Conn, net.Conn) {
		l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		far, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		near, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = far.Close() })
		return New(near), far
	},
	"tls": func(t *testing.T) (*Conn, net.Conn) {
		c, far, _ := secured(t)
		return c, far
	},
	"pipe": func(t *testing.T) (*Conn, net.Conn) {
		near, far := net.Pipe()
		t.Cleanup(func() { _ = far.Close() })
		return New(near), far
	},
}

func eachWire(t *testing.T, test func(t *testing.T, c *Conn, far net.Conn)) {
	for name, wire := range wires {
		t.Run(name, func(t *testing.T) {
			c, far := wire(t)
			test(t, c, far)
		})
	}
}

// eachServing runs a test for every kind of connection and every way to serve it: a
// loop serves what was accepted.
func eachServing(t *testing.T, test func(t *testing.T, c *Conn, far net.Conn, serve serving)) {
	eachWire(t, func(t *testing.T, c *Conn, far net.Conn) { test(t, c, far, watching) })
	for _, name := range []string{"accepted", "accepted unix"} {
		t.Run(name+", by a loop", func(t *testing.T) {
			c, far := wires[name](t)
			test(t, c, far, attending)
		})
	}
	for name, serve := range map[string]func(l *Loop) serving{"by a loop": attendingBy, "left by a loop": func(*Loop) serving { return watching }} {
		t.Run("accepted tls, "+name, func(t *testing.T) {
			l := newLoop(t)
			c, far, _ := securedFor(t, l)
			test(t, c, far, serve(l))
		})
	}
}

// securedFor is secured with a connection that a loop has known from the beginning.
func securedFor(t testing.TB, l *Loop) (*Conn, *tls.Conn, net.Conn) {
	t.Helper()
	near, far := accepted(t, "tcp")
	near.Join(l)
	c, client := secure(t, near, far)
	return c, client, far
}

func expect(t *testing.T, far net.Conn, want string) {
	t.Helper()
	_ = far.SetReadDeadline(time.Now().Add(10 * time.Second))
	got := make([]byte, len(want))
	if n, err := io.ReadFull(far, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v, want %q", got[:n], err, want)
	}
}

// TestWatchServes answers lines that come whole, in pieces, and several at once.
func TestWatchServes(t *testing.T) {
	eachServing(t, func(t *testing.T, c *Conn, far net.Conn, serve serving) {
		e, _ := serveEcho(t, c, serve, func(*echo) {})
		for range 3 {
			<-e.rests
			go func() { _, _ = far.Write([]byte("one\n")) }()
			expect(t, far, "one\n")
		}
		go func() {
			_, _ = far.Write([]byte("tw"))
			_, _ = far.Write([]byte("o\nthree\nfo"))
			_, _ = far.Write([]byte("ur\n"))
		}()
		expect(t, far, "two\nthree\nfour\n")
		if e.held.Load() && c.raw != nil {
			t.Error("a buffer is held at rest")
		}
	})
}

// TestWatchFullBuffer reads on where a read has filled the buffer: the poller
// says nothing of what was there before.
func TestWatchFullBuffer(t *testing.T) {
	eachServing(t, func(t *testing.T, c *Conn, far net.Conn, serve serving) {
		lines := 0
		_, done := serveEcho(t, c, serve, func(e *echo) {
			e.line = func([]byte) bool { lines++; return true }
		})
		line := append(bytes.Repeat([]byte("x"), SmallBuffer/4-1), '\n')
		for range 64 {
			if _, err := far.Write(line); err != nil {
				t.Fatal(err)
			}
		}
		_ = far.Close()
		<-done
		if lines != 64 {
			t.Errorf("%d lines", lines)
		}
	})
}

// TestWatchNoticesTheEnd with the last bytes, before they were read, and while
// it rests.
func TestWatchNoticesTheEnd(t *testing.T) {
	for _, rests := range []bool{false, true} {
		eachServing(t, func(t *testing.T, c *Conn, far net.Conn, serve serving) {
			hold := make(chan struct{})
			e, done := serveEcho(t, c, serve, func(e *echo) {
				answer := e.line
				e.line = func(line []byte) bool { <-hold; return answer(line) }
			})
			<-e.rests
			go func() {
				_, _ = far.Write([]byte("last\n"))
				if half, ok := far.(interface{ CloseWrite() error }); ok && !rests {
					_ = half.CloseWrite()
				}
				close(hold)
			}()
			expect(t, far, "last\n")
			if _, half := far.(interface{ CloseWrite() error }); !half || rests {
				_ = far.Close()
			}
			<-done
		})
	}
}

// TestWatchClose ends what another goroutine closes: at rest, in the middle of
// a line and while nothing is read.
func TestWatchClose(t *testing.T) {
	for _, sent := range []string{"", "par", "whole\n"} {
		eachServing(t, func(t *testing.T, c *Conn, far net.Conn, serve serving) {
			begun, hold := make(chan struct{}), make(chan struct{})
			e, done := serveEcho(t, c, serve, func(e *echo) {
				e.line = func([]byte) bool { close(begun); <-hold; return true }
			})
			<-e.rests
			go func() { _, _ = far.Write([]byte(sent)) }()
			if sent == "whole\n" {
				<-begun
			}
			_ = c.Close()
			close(hold)
			<-done
			_ = far.SetReadDeadline(time.Now().Add(10 * time.Second))
			if n, err := far.Read(make([]byte, 1)); n > 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%d, %v", n, err)
			}
		})
	}
}

// TestWatchDeadline wakes a rest that takes too long, and goes on with it as the
// handler says.
func TestWatchDeadline(t *testing.T) {
	eachServing(t, func(t *testing.T, c *Conn, far net.Conn, serve serving) {
		wakes := 0
		_, done := serveEcho(t, c, serve, func(e *echo) {
			e.idle = Now() + int64(time.Millisecond)
			e.woken = func(err error) bool {
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("woken by %v", err)
				}
				wakes++
				e.idle = Now() + int64(time.Millisecond)
				return wakes < 3
			}
		})
		<-done
		if wakes != 3 {
			t.Errorf("woken %d times", wakes)
		}
	})
}

// TestWatchInterrupt ends a rest with ErrInterrupted, and what came before is
// served.
func TestWatchInterrupt(t *testing.T) {
	eachServing(t, func(t *testing.T, c *Conn, far net.Conn, serve serving) {
		why := make(chan error, 1)
		e, _ := serveEcho(t, c, serve, func(e *echo) {
			e.idle = Now() + int64(time.Hour)
			e.woken = func(err error) bool {
				if !errors.Is(err, ErrInterrupted) {
					return false
				}
				why <- err
				c.Resume()
				return true
			}
		})
		<-e.rests
		c.Interrupt()
		<-why
		go func() { _, _ = far.Write([]byte("still\n")) }()
		expect(t, far, "still\n")
	})
}

// TestWatchLeave reads on another goroutine in the middle, then rests again.
func TestWatchLeave(t *testing.T) {
	eachServing(t, func(t *testing.T, c *Conn, far net.Conn, serve serving) {
		away := make(chan struct{})
		e, _ := serveEcho(t, c, serve, func(e *echo) {
			answer := e.line
			e.line = func(line []byte) bool {
				if string(line) != "away\n" {
					return answer(line)
				}
				c.Leave()
				away <- struct{}{}
				read := make(chan bool)
				go func() { read <- c.Fill(0, Now()+int64(time.Minute)) == nil }()
				return <-read && answer(line)
			}
		})
		for range 2 {
			<-e.rests
			go func() {
				_, _ = far.Write([]byte("away\n"))
				<-away
				_, _ = far.Write([]byte("here\n"))
			}()
			expect(t, far, "away\nhere\n")
		}
	})
}

// TestWatchAbort resets a connection from within.
func TestWatchAbort(t *testing.T) {
	for _, serve := range []serving{watching, attending} {
		c, far := wires["accepted"](t)
		_, done := serveEcho(t, c, serve, func(e *echo) {
			e.line = func([]byte) bool { c.Abort(); return false }
		})
		send(t, far, []byte("x\n"))
		<-done
		if n, err := far.Read(make([]byte, 1)); n > 0 || err == nil || err == io.EOF {
			t.Errorf("%d, %v, want a reset", n, err)
		}
	}
}

// TestCrewIsBounded lets go of members that nobody needs.
func TestCrewIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crew := NewCrew(1)
		s := crew.shard(7)
		w := &watch{handler: &echo{c: New(nil)}}
		spare := func(want int, when string) {
			t.Helper()
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.spare) != want {
				t.Errorf("%d wait for work %s", len(s.spare), when)
			}
		}
		look := func() { time.Sleep(crewLook); synctest.Wait() }
		var busy []*member
		for range crewSpare + 10 {
			busy = append(busy, s.take(w))
		}
		for _, m := range busy {
			s.put(m)
		}
		spare(crewSpare, "that all had")
		look()
		spare(crewSpare, "at the first look")
		s.put(s.take(w))
		look()
		spare(1, "that one does")
		look()
		look()
		spare(0, "that nobody has")
		crew.Close()
		s.put(s.take(w))
		spare(0, "in a crew that was closed")
	})
}

// TestAsk writes and reads what comes, in one.
func TestAsk(t *testing.T) {
	eachWire(t, func(t *testing.T, c *Conn, far net.Conn) {
		t.Cleanup(func() { _ = c.Close(); c.Discard() })
		go func() {
			var four [4]byte
			for range 2 {
				_, _ = io.ReadFull(far, four[:])
				_, _ = far.Write(append([]byte("re:"), four[:]...))
			}
			_ = far.Close()
		}()
		for range 2 {
			n, err := c.Ask([]byte("ping"), false, Now()+int64(time.Minute), Now()+int64(time.Minute))
			for err == nil && len(c.Buffered()) < 7 {
				err = c.Fill(0, 0)
			}
			if n != 4 || err != nil || string(c.Buffered()) != "re:ping" {
				t.Fatalf("%d, %v, %q", n, err, c.Buffered())
			}
			c.Consume(7)
			c.Release()
		}
		if err := c.Fill(0, 0); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%v", err)
		}
	})
}

// TestAskFails says what was written, and what came of the wait.
func TestAskFails(t *testing.T) {
	c, far := pair(t)
	if n, err := c.Ask([]byte("ping"), false, Now()+int64(time.Minute), Now()+int64(time.Millisecond)); n != 4 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d, %v", n, err)
	}
	huge := make([]byte, 64<<20)
	if n, err := c.Ask(huge, false, Now()+int64(time.Minute), Now()+int64(time.Minute)); n == 0 || n == len(huge) || err != nil {
		t.Errorf("%d of more than fits, %v", n, err)
	}
	_ = far.Close()
	for {
		if n, err := c.Ask([]byte("ping"), false, Now()+int64(time.Minute), Now()+int64(time.Minute)); n == 0 || err != nil {
			break
		}
	}
}

// TestAskAfterTheEnd asks when the peer has closed its side already, and reads on: so
// nothing more will come, and the poller has told of the end before.
func TestAskAfterTheEnd(t *testing.T) {
	c, far := pair(t)
	waits, told := make(chan struct{}), make(chan error)
	go func() {
		calls := 0
		told <- c.raw.Read(func(uintptr) bool {
			if calls++; calls == 1 {
				close(waits)
			}
			return calls > 1
		})
	}()
	<-waits
	if err := far.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if err := <-told; err != nil {
		t.Fatal(err)
	}
	n, err := c.Ask([]byte("ping"), false, Now()+int64(10*time.Millisecond), Now()+int64(time.Minute))
	if n != 4 || !errors.Is(err, io.EOF) {
		t.Fatalf("%d, %v", n, err)
	}
}

// TestAskWhenTheTimerHasFired asks after the time of a look before has gone by.
func TestAskWhenTheTimerHasFired(t *testing.T) {
	c, far := pair(t)
	go func() { _, _ = io.Copy(far, far) }()
	for range 3 {
		look := Now() + int64(time.Millisecond)
		n, err := c.Ask([]byte("ping"), false, look, Now()+int64(time.Minute))
		for err == nil && len(c.Buffered()) < 4 {
			err = c.Fill(0, 0)
		}
		if n != 4 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		c.Consume(4)
		c.Release()
		for Now() < look+int64(time.Millisecond) {
			runtime.Gosched()
		}
	}
}

// TestAskGivesBack the buffer of a question before it waits for the answer, and not if
// some of it is left.
func TestAskGivesBack(t *testing.T) {
	c, far := pair(t)
	question := append(GetBuffer(0)[:0], "ping"...)
	go func() {
		_, _ = io.ReadFull(far, make([]byte, 4))
		_, _ = far.Write([]byte("pong"))
	}()
	n, err := c.Ask(question, true, Now()+int64(time.Minute), Now()+int64(time.Minute))
	if n != 4 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if string(c.Buffered()) != "pong" || c.question.bytes != nil {
		t.Errorf("%q, %q", c.Buffered(), c.question.bytes)
	}
	c.Consume(4)
	c.Release()
	fill(t, descriptor(t, c))
	question = append(GetBuffer(0)[:0], "left"...)
	if n, err := c.Ask(question, true, Now()+int64(time.Minute), Now()+int64(time.Minute)); n != 0 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if other := GetBuffer(0); &other[0] == &question[0] {
		t.Error("the buffer was given back with all of it to be written")
	}
}

// TestAskTogether has many ask at once: each gets the answer to its own question.
func TestAskTogether(t *testing.T) {
	const askers, rounds = 64, 100
	var wg sync.WaitGroup
	for who := range askers {
		c, far := pair(t)
		wg.Go(func() { _, _ = io.Copy(far, far) })
		wg.Go(func() {
			defer func() { _ = c.CloseWrite() }()
			for i := range rounds {
				question := fmt.Sprintf("%d asks for the %dth time", who, i)
				n, err := c.Ask([]byte(question), false, Now()+int64(time.Minute), Now()+int64(time.Minute))
				for err == nil && len(c.Buffered()) < len(question) {
					err = c.Fill(0, 0)
				}
				if got := string(c.Buffered()); n != len(question) || err != nil || got != question {
					t.Errorf("%s: %d, %v, %q", question, n, err, got)
					return
				}
				c.Consume(n)
				c.Release()
			}
		})
	}
	wg.Wait()
}
