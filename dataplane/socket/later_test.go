package socket

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// later is an echo that has its answers written later.
type later struct {
	*echo
	near *Stream
	far  net.Conn
	done chan struct{}
	got  []byte // and not asked for yet
}

// lateEcho is a client that l serves, whose lines are answered later. Where full is
// set, there is no room for the first answer until the peer reads.
func lateEcho(t *testing.T, l *Loop, network string, full bool, change func(*echo)) *later {
	t.Helper()
	near, far := accepted(t, network)
	if err := unix.SetsockoptInt(near.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 1); err != nil { // the least
		t.Fatal(err)
	}
	if full {
		fillUp(t, near.fd, far)
	}
	e, done := attendEcho(t, l, New(near), func(e *echo) {
		e.line = func(line []byte) bool {
			p, aside := answerTo(line), e.c.watch.away
			if e.c.WriteLater(p, minute()) != aside {
				return !aside || e.writes(p)
			}
			t.Errorf("aside: %t, and written later: %t", aside, !aside)
			return false
		}
		change(e)
	})
	return &later{echo: e, near: near, far: far, done: done}
}

// fillUp is fill until there will be no more room, as long as the peer does not read:
// what is under way takes some, and leaves it again.
func fillUp(t *testing.T, fd int, far net.Conn) {
	t.Helper()
	fill(t, fd)
	if _, tcp := far.(*net.TCPConn); !tcp {
		return
	}
	for arrived := false; !arrived; {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			t.Fatal(err)
		}
		arrived = fill(t, fd) == 0 && info.Unacked == 0
	}
}

func (e *echo) writes(p []byte) bool {
	_, err := e.c.Write(p, minute())
	return err == nil
}

// answerTo is a line as often as a buffer holds it.
func answerTo(line []byte) []byte {
	p := GetBuffer(0)[:0]
	for len(p)+len(line) <= cap(p) {
		p = append(p, line...)
	}
	return p
}

// awaitOwing waits until what is left to be written waits for room.
func (e *later) awaitOwing() { awaitWaiter(&e.near.out) }

// sees reads all that was written to make no room, and then the answers to lines.
func (e *later) sees(t *testing.T, lines ...string) {
	t.Helper()
	var want []byte
	for _, line := range lines {
		p := answerTo([]byte(line))
		want = append(want, p...)
		PutBuffer(p)
	}
	e.reads(t, want)
}

func (e *later) reads(t *testing.T, want []byte) {
	t.Helper()
	_ = e.far.SetReadDeadline(time.Now().Add(10 * time.Second))
	for buf := make([]byte, LargeBuffer); len(e.got) < len(want); {
		n, err := e.far.Read(buf)
		e.got = append(e.got, bytes.TrimLeft(buf[:n], "\x00")...)
		if err != nil {
			t.Fatalf("%v after %d bytes of %d", err, len(e.got), len(want))
		}
	}
	for i := range want {
		if e.got[i] != want[i] {
			t.Fatalf("byte %d is of %.16q, want %.16q", i, e.got[i:], want[i:])
		}
	}
	e.got = e.got[len(want):]
}

// ends reads the end of the stream.
func (e *later) ends(t *testing.T) {
	t.Helper()
	_ = e.far.SetReadDeadline(time.Now().Add(10 * time.Second))
	if rest, err := io.ReadAll(e.far); err != nil || len(e.got)+len(rest) > 0 {
		t.Errorf("%v after %.16q, want the end", err, append(e.got, rest...))
	}
	<-e.done
}

func eachNetwork(t *testing.T, test func(t *testing.T, network string)) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) { test(t, network) })
	}
}

// TestWriteLater answers one line after the other and many at once, and stays in the
// loop where there is room. The buffers are given back, each of them once.
func TestWriteLater(t *testing.T) {
	e := lateEcho(t, newLoop(t), "unix", false, func(e *echo) {
		e.line = func(line []byte) bool {
			if w := e.c.watch; w.away || w.later.bytes != nil {
				t.Errorf("away: %t, owed: %q", w.away, w.later.bytes)
			}
			return e.c.WriteLater(append(GetBuffer(0)[:0], line...), minute())
		}
	})
	for range 100 {
		send(t, e.far, []byte("one\n"))
		expect(t, e.far, "one\n")
		send(t, e.far, []byte("two\nthree\nfour\n"))
		expect(t, e.far, "two\nthree\nfour\n")
	}
	var taken []*byte
	for range 200 {
		p := GetBuffer(0)
		if slices.Contains(taken, &p[0]) {
			t.Fatal("a buffer was given back twice")
		}
		taken = append(taken, &p[0])
	}
}

// TestWriteLaterCannot is where nothing is written, and p stays the caller's.
func TestWriteLaterCannot(t *testing.T) {
	cannot := func(e *echo, line []byte, why string) bool {
		p := append(GetBuffer(0)[:0], line...)
		defer PutBuffer(p)
		if e.c.WriteLater(p, minute()) {
			t.Errorf("%s: it is written later", why)
			return false
		}
		return e.writes(p)
	}
	t.Run("no loop", func(t *testing.T) {
		near, far := accepted(t, "tcp")
		watchEcho(t, New(near), func(e *echo) {
			e.line = func(line []byte) bool { return cannot(e, line, "no loop") }
		})
		send(t, far, []byte("one\ntwo\n"))
		expect(t, far, "one\ntwo\n")
	})
	t.Run("aside", func(t *testing.T) {
		_, far, _ := client(t, newLoop(t), func(e *echo) {
			e.line = func(line []byte) bool { e.c.StepAside(); return cannot(e, line, "aside") }
		})
		send(t, far, []byte("one\ntwo\n"))
		expect(t, far, "one\ntwo\n")
	})
	t.Run("the peer has left", func(t *testing.T) {
		near, far := accepted(t, "tcp")
		send(t, far, []byte("one\ntwo\n"))
		_ = far.(*net.TCPConn).CloseWrite()
		awaitSign(t, near.fd, unix.POLLRDHUP)
		_, done := attendEcho(t, newLoop(t), New(near), func(e *echo) {
			e.line = func(line []byte) bool { return cannot(e, line, "left") }
		})
		expect(t, far, "one\ntwo\n")
		<-done
	})
	t.Run("another is", func(t *testing.T) {
		_, far, _ := client(t, newLoop(t), func(e *echo) {
			e.line = func(line []byte) bool {
				return e.c.WriteLater(append(GetBuffer(0)[:0], "before "...), minute()) && cannot(e, line, "another")
			}
		})
		send(t, far, []byte("one\ntwo\n"))
		expect(t, far, "before one\nbefore two\n")
	})
	t.Run("nothing", func(t *testing.T) {
		_, far, _ := client(t, newLoop(t), func(e *echo) {
			answer := e.line
			e.line = func(line []byte) bool {
				return !e.c.WriteLater(GetBuffer(0)[:0], minute()) && !e.c.WriteLater(nil, minute()) && answer(line)
			}
		})
		send(t, far, []byte("one\ntwo\n"))
		expect(t, far, "one\ntwo\n")
	})
}

// TestWriteLaterWithoutRoom has what may happen on the connection before there is room
// for what is to be written: all of it comes, once, in order, and before the rest.
func TestWriteLaterWithoutRoom(t *testing.T) {
	for name, test := range map[string]struct {
		sent string
		then func(t *testing.T, e *echo) (live bool) // after each line
		rest func(e *echo) bool
		sees string // behind the first answer
		ends bool
	}{
		"rests": {sent: "one\n"},
		"another line": {sent: "one\ntwo\n", then: func(_ *testing.T, e *echo) bool {
			return true
		}},
		"writes": {sent: "one\n", sees: "then", then: func(_ *testing.T, e *echo) bool {
			return e.writes([]byte("th")) && e.writes([]byte("en"))
		}},
		"writes when there is room again": {sent: "one\n", sees: "then", then: func(t *testing.T, e *echo) bool {
			e.c.watch.loop.write() // as others do
			awaitSign(t, e.c.watch.fd, unix.POLLOUT)
			return e.writes([]byte("then"))
		}},
		"steps aside": {sent: "one\n", sees: "then", then: func(_ *testing.T, e *echo) bool {
			e.c.StepAside()
			return e.writes([]byte("then"))
		}},
		"departs": {sent: "one\n", sees: "then", ends: true, then: func(_ *testing.T, e *echo) bool {
			e.c.Depart()
			return e.writes([]byte("then")) && false
		}},
		"is over": {sent: "one\n", ends: true, then: func(*testing.T, *echo) bool {
			return false
		}},
		"is not to rest": {sent: "one\n", ends: true, rest: func(*echo) bool {
			return false
		}},
		"is interrupted": {sent: "one\n", ends: true, rest: func(e *echo) bool {
			e.c.Interrupt()
			return true
		}},
	} {
		t.Run(name, func(t *testing.T) {
			eachNetwork(t, func(t *testing.T, network string) {
				e := lateEcho(t, newLoop(t), network, true, func(e *echo) {
					answer := e.line
					e.line = func(line []byte) bool {
						if owed := e.c.watch.later.bytes; owed != nil {
							t.Errorf("%d bytes are owed when %q is served", len(owed), line)
						}
						return answer(line) && (test.then == nil || test.then(t, e))
					}
					if test.rest != nil {
						e.rest = func() bool { return e.c.watch.later.bytes == nil || test.rest(e) }
					}
				})
				send(t, e.far, []byte(test.sent))
				if name != "writes when there is room again" {
					e.awaitOwing()
				}
				e.sees(t, slices.Collect(bytesLines(test.sent))...)
				e.reads(t, []byte(test.sees))
				if test.ends {
					e.ends(t)
					return
				}
				send(t, e.far, []byte("last\n"))
				e.sees(t, "last\n")
			})
		})
	}
}

func bytesLines(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for line := range bytes.Lines([]byte(text)) {
			if !yield(string(line)) {
				return
			}
		}
	}
}

// TestWriteLaterOwes serves others meanwhile, and then those that it owed.
func TestWriteLaterOwes(t *testing.T) {
	eachNetwork(t, func(t *testing.T, network string) {
		l := newLoop(t)
		e := lateEcho(t, l, network, true, asIs)
		send(t, e.far, []byte("one\n"))
		e.awaitOwing()
		for range 3 {
			_, other, _ := client(t, l, asIs)
			send(t, other, []byte("meanwhile\n"))
			expect(t, other, "meanwhile\n")
		}
		l.Close()
		e.sees(t, "one\n")
		for range 3 {
			send(t, e.far, []byte("two\nthree\n"))
			e.sees(t, "two\n", "three\n")
		}
	})
}

// TestWriteLaterHalfClosed gives a peer all that says no more: before, or while it is
// owed something.
func TestWriteLaterHalfClosed(t *testing.T) {
	eachNetwork(t, func(t *testing.T, network string) {
		e := lateEcho(t, newLoop(t), network, true, asIs)
		send(t, e.far, []byte("one\n"))
		e.awaitOwing()
		if err := e.far.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		e.sees(t, "one\n")
		e.ends(t)
	})
}

// TestWriteLaterIsOwedAtTheDeadline of a rest: that ends the connection when all is
// written, whether the connection is young or has a timer.
func TestWriteLaterIsOwedAtTheDeadline(t *testing.T) {
	for _, idle := range []time.Duration{time.Millisecond, 3 * firstLook} {
		woken := make(chan error, 1)
		e := lateEcho(t, newLoop(t), "unix", true, func(e *echo) {
			e.idle = Now() + int64(idle)
			e.woken = func(err error) bool {
				woken <- err
				return false
			}
		})
		send(t, e.far, []byte("one\n"))
		e.awaitOwing()
		for limit := e.idle; Now() < limit; {
			runtime.Gosched()
		}
		e.sees(t, "one\n")
		if err := <-woken; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("woken by %v", err)
		}
		e.ends(t)
	}
}

// TestWriteLaterThenAside is written by the loop, which has room for it, and by nobody
// else, before what is written aside.
func TestWriteLaterThenAside(t *testing.T) {
	e := lateEcho(t, newLoop(t), "unix", false, func(e *echo) {
		e.line = func(line []byte) bool {
			if !e.c.WriteLater(append(GetBuffer(0)[:0], line...), minute()) {
				t.Error("it is not written later")
			}
			e.c.StepAside()
			return e.writes([]byte("then\n"))
		}
	})
	for range 1000 {
		send(t, e.far, []byte("first\n"))
		expect(t, e.far, "first\nthen\n")
	}
}

// TestWriteLaterFails where the peer does not take it in time, is gone, or the
// connection is closed by us. Nothing more happens on the connection, whose descriptor
// is its own until it is over.
func TestWriteLaterFails(t *testing.T) {
	for name, test := range map[string]struct {
		lines    string
		deadline time.Duration
		fail     func(e *later)
		aside    bool
	}{
		"too late":              {lines: "one\n", deadline: time.Millisecond},
		"too late for the next": {lines: "one\ntwo\n", deadline: time.Millisecond},
		"too late aside":        {lines: "one\n", deadline: time.Millisecond, aside: true},
		"gone":                  {lines: "one\n", deadline: time.Minute, fail: func(e *later) { _ = e.far.Close() }},
		"gone before the next":  {lines: "one\ntwo\n", deadline: time.Minute, fail: func(e *later) { _ = e.far.Close() }},
		"closed":                {lines: "one\n", deadline: time.Minute, fail: func(e *later) { _ = e.c.Close() }},
		"closed aside":          {lines: "one\n", deadline: time.Minute, fail: func(e *later) { _ = e.c.Close() }, aside: true},
	} {
		t.Run(name, func(t *testing.T) {
			eachNetwork(t, func(t *testing.T, network string) {
				served := 0
				e := lateEcho(t, newLoop(t), network, true, func(e *echo) {
					e.line = func(line []byte) bool {
						served++
						if !e.c.WriteLater(answerTo(line), Now()+int64(test.deadline)) {
							t.Error("it is not written later")
						}
						if test.aside {
							e.c.StepAside()
							if e.writes([]byte("then")) {
								t.Error("something is written behind what could not be")
							}
						}
						return true
					}
					e.rest = func() bool {
						if e.c.net.(*Stream).over.Load() {
							t.Error("the descriptor is closed while the connection rests")
						}
						return true
					}
				})
				send(t, e.far, []byte(test.lines))
				if test.fail != nil {
					e.awaitOwing()
					test.fail(e)
				}
				<-e.done
				if served != 1 {
					t.Errorf("%d lines were served", served)
				}
				_ = e.far.SetReadDeadline(time.Now().Add(10 * time.Second))
				got, _ := io.ReadAll(e.far)
				if got = bytes.TrimLeft(got, "\x00"); !bytes.HasPrefix(answerTo([]byte("one\n")), got) {
					t.Errorf("%.16q came", got)
				}
			})
		})
	}
}
