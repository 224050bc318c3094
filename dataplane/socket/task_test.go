package socket

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"time"
)

// minute is a deadline that only a failure comes up to.
func minute() int64 { return Now() + int64(time.Minute) }

// ride has the task of a connection that l serves do something with up, once, and
// returns when it is done. The task answers after that.
func ride(t *testing.T, l *Loop, up *Conn, do func(client *Conn)) {
	t.Helper()
	done := make(chan struct{})
	_, far, _ := client(t, l, func(e *echo) {
		answer := e.line
		e.line = func(line []byte) bool {
			up.RideOn(e.c)
			do(e.c)
			up.Unride()
			close(done)
			return answer(line)
		}
	})
	send(t, far, []byte("do\n"))
	<-done
	expect(t, far, "do\n")
}

// asks has up asked, and says what came of it.
func asks(up *Conn, look, deadline int64) (answer string, err error) {
	n, err := up.Ask([]byte("ping"), false, look, deadline)
	for err == nil && len(up.Buffered()) < 4 {
		err = up.Fill(0, deadline)
	}
	answer = string(up.Buffered())
	up.Discard()
	if n != 4 {
		err = errors.Join(err, io.ErrShortWrite)
	}
	return answer, err
}

// TestLoopAsk has what may become of a question that is asked on a loop. The peer acts
// when the question has come: the task waits then.
func TestLoopAsk(t *testing.T) {
	for name, test := range map[string]struct {
		peer     func(up *Conn, far *net.TCPConn) // when the question has come
		answer   string
		err      error
		deadline time.Duration
	}{
		"answered":            {peer: func(_ *Conn, far *net.TCPConn) { _, _ = far.Write([]byte("pong")) }, answer: "pong"},
		"in pieces":           {peer: inPieces, answer: "pong"},
		"answered and closed": {peer: func(_ *Conn, far *net.TCPConn) { _, _ = far.Write([]byte("pong")); _ = far.Close() }, answer: "pong"},
		"closed":              {peer: func(_ *Conn, far *net.TCPConn) { _ = far.CloseWrite() }, err: io.EOF},
		"half an answer":      {peer: func(_ *Conn, far *net.TCPConn) { _, _ = far.Write([]byte("po")); _ = far.Close() }, answer: "po", err: io.EOF},
		"closed by us":        {peer: func(up *Conn, _ *net.TCPConn) { _ = up.Close() }, err: net.ErrClosed},
		"interrupted":         {peer: func(up *Conn, _ *net.TCPConn) { up.Interrupt() }, err: ErrInterrupted},
		"not answered":        {peer: func(*Conn, *net.TCPConn) {}, err: os.ErrDeadlineExceeded, deadline: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			up, far := owned(t)
			asked := make(chan struct{})
			go func() {
				defer close(asked)
				_, _ = io.ReadFull(far, make([]byte, 4))
				test.peer(up, far)
			}()
			ride(t, newLoop(t), up, func(*Conn) {
				deadline := minute()
				if test.deadline != 0 {
					deadline = Now() + int64(test.deadline)
				}
				answer, err := asks(up, minute(), deadline)
				if answer != test.answer || !errors.Is(err, test.err) {
					t.Errorf("%q, %v, want %q, %v", answer, err, test.answer, test.err)
				}
				if test.deadline != 0 && Now() < deadline {
					t.Error("gave up before the deadline")
				}
			})
			<-asked
		})
	}
}

func inPieces(_ *Conn, far *net.TCPConn) {
	for _, b := range []byte("pong") {
		_, _ = far.Write([]byte{b})
		runtime.Gosched()
	}
}

// TestLoopAskAfterwards asks where something has come before: an answer that nobody
// has waited for, or an end, of which the poller does not tell again.
func TestLoopAskAfterwards(t *testing.T) {
	for name, test := range map[string]struct {
		before func(far *net.TCPConn)
		known  bool // to the loop when it happens
		answer string
		err    error
	}{
		"answered early":             {before: func(far *net.TCPConn) { _, _ = far.Write([]byte("pong")) }, answer: "pong"},
		"answered early, and known":  {before: func(far *net.TCPConn) { _, _ = far.Write([]byte("pong")) }, known: true, answer: "pong"},
		"closed before":              {before: func(far *net.TCPConn) { _ = far.CloseWrite() }, err: io.EOF},
		"closed before, while known": {before: func(far *net.TCPConn) { _ = far.CloseWrite() }, known: true, err: io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t)
			up, far := owned(t)
			if test.known {
				ride(t, l, up, func(*Conn) {})
			}
			test.before(far)
			readable(t, up.net.(*Stream).fd)
			ride(t, l, up, func(*Conn) {
				if answer, err := asks(up, minute(), minute()); answer != test.answer || !errors.Is(err, test.err) {
					t.Errorf("%q, %v, want %q, %v", answer, err, test.answer, test.err)
				}
			})
		})
	}
}

// TestLoopAskLooks at the time it is told to for what the poller has told of before.
func TestLoopAskLooks(t *testing.T) {
	l := newLoop(t)
	up, far := owned(t)
	ride(t, l, up, func(*Conn) {})
	_ = far.CloseWrite()
	a := up.net.(*Stream)
	for a.in.who.Load() != arrived { // the poller tells of it, and will not again
		runtime.Gosched()
	}
	a.in.who.Store(nil)
	ride(t, l, up, func(*Conn) {
		if answer, err := asks(up, Now()+int64(time.Millisecond), minute()); answer != "" || !errors.Is(err, io.EOF) {
			t.Errorf("%q, %v, want the end", answer, err)
		}
	})
}

// TestLoopAskOfOneThatIsClosed writes nothing, and the next Write says why.
func TestLoopAskOfOneThatIsClosed(t *testing.T) {
	up, _ := owned(t)
	l := newLoop(t)
	ride(t, l, up, func(*Conn) {
		_ = up.Close()
		if n, err := up.Ask([]byte("ping"), false, minute(), minute()); n != 0 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if n, err := up.Write([]byte("ping"), minute()); n != 0 || !errors.Is(err, net.ErrClosed) {
			t.Errorf("%d, %v", n, err)
		}
	})
}

// TestLoopAskMoreThanFits says how much did; Write has to wait for the rest, and leaves
// the loop for that.
func TestLoopAskMoreThanFits(t *testing.T) {
	up, far := owned(t)
	huge := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	got := make(chan []byte)
	rest := make(chan struct{})
	go func() {
		<-rest
		all := make([]byte, len(huge))
		_, _ = io.ReadFull(far, all)
		_, _ = far.Write([]byte("got"))
		got <- all
	}()
	ride(t, newLoop(t), up, func(client *Conn) {
		n, err := up.Ask(huge, false, minute(), minute())
		if n == 0 || n == len(huge) || err != nil {
			t.Errorf("%d of %d, %v", n, len(huge), err)
		}
		close(rest)
		m, err := up.Write(huge[n:], minute())
		if n+m != len(huge) || err != nil {
			t.Errorf("%d of %d, %v", n+m, len(huge), err)
		}
		if !client.watch.away {
			t.Error("it has waited for room in the loop")
		}
		if err := up.Fill(0, minute()); err != nil {
			t.Error(err)
		}
		up.Discard()
	})
	if !bytes.Equal(<-got, huge) {
		t.Error("other bytes came")
	}
}

// TestLoopWriteLeaves the loop to wait for room, which serves others meanwhile, and
// comes back to it.
func TestLoopWriteLeaves(t *testing.T) {
	l := newLoop(t)
	huge := append(bytes.Repeat([]byte("x"), 16<<20), '\n')
	_, slow, _ := client(t, l, func(e *echo) {
		answer := e.line
		e.line = func(line []byte) bool {
			if e.c.watch.away || e.c.watch.mode.Load() != inLoop {
				t.Error("it is not back")
			}
			if string(line) == "huge\n" {
				line = huge
			}
			return answer(line)
		}
	})
	for range 2 {
		send(t, slow, []byte("huge\n"))
		expect(t, slow, "x") // it has begun
		_, other, _ := client(t, l, asIs)
		send(t, other, []byte("meanwhile\n"))
		expect(t, other, "meanwhile\n")
		expect(t, slow, string(huge[1:]))
		send(t, slow, []byte("then\n"))
		expect(t, slow, "then\n")
	}
}

// TestLoopStepAside leaves the loop to others, and comes back to what has come
// meanwhile: nothing, whole lines, or more than was read aside.
func TestLoopStepAside(t *testing.T) {
	for name, meanwhile := range map[string]string{
		"nothing":   "",
		"a line":    "meanwhile\n",
		"two lines": "mean\nwhile\n",
		"a piece":   "mean",
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t)
			hold := make(chan struct{})
			var near *echo
			near, far, _ := client(t, l, func(e *echo) {
				answer := e.line
				e.line = func(line []byte) bool {
					if string(line) == "aside\n" {
						e.c.StepAside()
						<-hold
					}
					return answer(line)
				}
			})
			a := near.c.net.(*Stream)
			for range 3 {
				send(t, far, []byte("aside\n"))
				_, other, _ := client(t, l, asIs)
				send(t, other, []byte("meanwhile\n"))
				expect(t, other, "meanwhile\n")
				if meanwhile != "" {
					send(t, far, []byte(meanwhile))
					readable(t, a.fd)
				}
				hold <- struct{}{}
				send(t, far, []byte("after\n"))
				expect(t, far, "aside\n"+meanwhile+"after\n")
			}
		})
	}
}

// TestLoopStepAsideReadsSome waits aside for what comes, and takes less than all of it:
// the poller has told of the rest already.
func TestLoopStepAsideReadsSome(t *testing.T) {
	waits := make(chan struct{})
	near, far, _ := client(t, newLoop(t), func(e *echo) {
		answer := e.line
		e.line = func(line []byte) bool {
			if string(line) != "aside\n" {
				return answer(line)
			}
			e.c.StepAside()
			close(waits)
			var one [1]byte
			_, err := e.c.net.Read(one[:])
			return err == nil && answer(one[:])
		}
	})
	a := near.c.net.(*Stream)
	send(t, far, []byte("aside\n"))
	<-waits
	for w := a.in.who.Load(); w == nil || w == arrived; w = a.in.who.Load() {
		runtime.Gosched()
	}
	send(t, far, []byte("?the rest\n"))
	expect(t, far, "?the rest\n")
}

// TestLoopInterruptAside ends the wait of one that has stepped aside, and then its
// rest.
func TestLoopInterruptAside(t *testing.T) {
	waits, woken := make(chan struct{}), make(chan error, 1)
	near, far, done := client(t, newLoop(t), func(e *echo) {
		e.woken = func(err error) bool { woken <- err; return false }
		e.line = func([]byte) bool {
			e.c.StepAside()
			close(waits)
			if err := e.c.Fill(0, minute()); !errors.Is(err, ErrInterrupted) {
				t.Errorf("%v", err)
			}
			return true
		}
	})
	send(t, far, []byte("aside\n"))
	<-waits
	near.c.Interrupt()
	if err := <-woken; !errors.Is(err, ErrInterrupted) {
		t.Errorf("woken by %v", err)
	}
	<-done
}

// TestLoopMoves has what waits for a connection be the loop of whoever uses it.
func TestLoopMoves(t *testing.T) {
	one, other := newLoop(t), newLoop(t)
	up, far := owned(t)
	go func() { _, _ = io.Copy(far, far) }()
	a := up.net.(*Stream)
	for _, l := range []*Loop{one, other, other, one, other} {
		ride(t, l, up, func(*Conn) {
			if a.loop.Load() != l {
				t.Error("it is known to another loop")
			}
			if answer, err := asks(up, minute(), minute()); answer != "ping" || err != nil {
				t.Errorf("%q, %v", answer, err)
			}
		})
	}
	for i, l := range []*Loop{one, other} {
		l.mu.Lock()
		taken := 0
		for _, s := range l.seats {
			if s.guest == a {
				taken++
			}
		}
		l.mu.Unlock()
		if taken != i {
			t.Errorf("it has %d seats in loop %d", taken, i)
		}
	}
}

// TestLoopCannotWait for what the runtime's poller knows: its client leaves the loop,
// and is back for the next.
func TestLoopCannotWait(t *testing.T) {
	l := newLoop(t)
	for name, up := range map[string]*Conn{
		"known": func() *Conn { up, _ := owned(t); up.Depart(); return up }(),
		"pair":  func() *Conn { up, _ := pair(t); return up }(),
	} {
		ride(t, l, up, func(client *Conn) {
			if !client.watch.away || up.rider != nil {
				t.Errorf("%s: waited for in a loop", name)
			}
		})
	}
}

// TestLoopBufferIsGivenBack when all of a question is written, and not before.
func TestLoopBufferIsGivenBack(t *testing.T) {
	up, far := owned(t)
	go func() { _, _ = io.Copy(far, far) }()
	l := newLoop(t)
	ride(t, l, up, func(client *Conn) {
		question := append(GetBuffer(0)[:0], "ping"...)
		if n, err := up.Ask(question, true, minute(), minute()); n != 4 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		up.Discard()
	})
	full, _ := owned(t)
	ride(t, l, full, func(client *Conn) {
		fill(t, full.net.(*Stream).fd)
		question := append(GetBuffer(0)[:0], "left"...)
		if n, err := full.Ask(question, true, minute(), minute()); n != 0 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if other := GetBuffer(0); &other[0] == &question[0] {
			t.Error("the buffer was given back with all of it to be written")
		}
	})
}
