package socket

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// storm is many clients of two loops and the upstreams that they share.
type storm struct {
	loops  [2]*Loop
	pool   chan *Conn // upstreams that nobody uses
	accept func() (*Conn, net.Conn)
	breaks atomic.Int32 // upstreams that may still be closed while they are asked

	answered, ended atomic.Int64
}

// TestLoopStorm has clients say what is to be repeated by the loop, by an upstream, on
// a goroutine or many times, while connections are interrupted, closed and cut off.
// Each line is answered, or its connection ends.
func TestLoopStorm(t *testing.T) {
	const clients, upstreams, breaks, length = 48, 24, 8, time.Second
	s, trust := &storm{loops: [2]*Loop{newLoop(t), newLoop(t)}, pool: make(chan *Conn, upstreams)}, newTrust(t)
	s.breaks.Store(breaks)
	for range upstreams {
		up, far := owned(t)
		go func() { _, _ = io.Copy(far, far) }()
		s.pool <- up
	}
	listening, dial := listening(t, "tcp")
	var mu sync.Mutex
	accept := func() (*Stream, net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		far := dial()
		near, err := listening.Accept()
		if err == nil && rand.IntN(2) == 0 {
			err = unix.SetsockoptInt(near.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 1) // the least
		}
		if err != nil {
			panic(err)
		}
		return near, far
	}
	s.accept = func() (*Conn, net.Conn) {
		near, far := accept()
		if rand.IntN(2) == 0 {
			return New(near), far
		}
		near.Join(s.loops[rand.IntN(2)])
		c, secure, err := trust.secure(near, far)
		if err != nil {
			panic(err)
		}
		return c, secure
	}
	end := time.Now().Add(length)
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for time.Now().Before(end) {
				s.client(t, end)
			}
		})
	}
	all.Wait()
	if s.answered.Load() == 0 || s.ended.Load() == 0 {
		t.Errorf("%d lines were answered, %d connections ended early", s.answered.Load(), s.ended.Load())
	}
}

// client is one connection and what its peer says.
func (s *storm) client(t *testing.T, end time.Time) {
	c, far := s.accept()
	defer far.Close()
	e, done := newEcho(c), make(chan struct{})
	e.line = func(line []byte) bool { return s.serve(c, line) }
	e.woken = func(err error) bool {
		c.Resume()
		return errors.Is(err, ErrInterrupted)
	}
	over := func() {
		_ = c.Close()
		c.Discard()
		close(done)
	}
	if !c.Attend(s.loops[rand.IntN(2)], e, over) {
		t.Error("the loop cannot serve it")
		return
	}
	for i := 0; time.Now().Before(end); i++ {
		if err := s.line(c, far, i); errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, errOther) {
			t.Error(err)
		} else if err != nil {
			s.ended.Add(1)
			break
		}
		s.answered.Add(1)
	}
	_ = far.Close()
	<-done
}

var errOther = errors.New("other bytes came")

// The orders of a storm, some of them more often than others.
var orders = strings.Fields("say ask say ask late say ask late ask-late aside ask-aside big break cut")

// big is how long an answer is that finds no room.
const big = 8 << 20

// line says one line and reads what comes of it.
func (s *storm) line(c *Conn, far net.Conn, i int) error {
	order := orders[rand.IntN(len(orders))]
	line := fmt.Appendf(nil, "%s %v %d\n", order, far.LocalAddr(), i)
	if _, err := far.Write(line); err != nil {
		return err
	}
	switch rand.IntN(50) {
	case 0:
		c.Interrupt()
	case 1:
		_ = c.Close()
	}
	want := line
	switch order {
	case "big":
		want = bytes.Repeat(line, big/len(line))
	case "late", "ask-late":
		want = answerTo(line)
		defer PutBuffer(want)
	}
	got := make([]byte, len(want))
	_ = far.SetReadDeadline(time.Now().Add(30 * time.Second))
	n, err := io.ReadFull(far, got)
	if !bytes.Equal(got[:n], want[:n]) {
		return errOther
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", order, err)
	}
	return err
}

// serve does what a line says.
func (s *storm) serve(c *Conn, line []byte) bool {
	order, _, _ := bytes.Cut(line, []byte(" "))
	switch string(order) {
	case "cut":
		c.Abort()
		return false
	case "aside":
		c.StepAside()
	case "big":
		line = bytes.Repeat(line, big/len(line))
	case "ask-aside":
		c.StepAside()
		fallthrough
	case "ask", "break", "ask-late":
		if !s.ask(c, line, string(order) == "break") {
			return false
		}
	}
	if bytes.HasSuffix(order, []byte("late")) {
		line = answerTo(line)
		if c.WriteLater(line, minute()) {
			return true
		}
		defer PutBuffer(line)
	}
	_, err := c.Write(line, 0)
	return err == nil
}

// ask has an upstream repeat a line, if there is one, and reports whether it did.
func (s *storm) ask(c *Conn, line []byte, breaks bool) bool {
	var up *Conn
	select {
	case up = <-s.pool:
	default:
		return true
	}
	up.RideOn(c)
	if breaks = breaks && s.breaks.Add(-1) >= 0; breaks {
		go func() { _ = up.Close() }()
	}
	n, err := up.Ask(line, false, minute(), minute())
	for err == nil && n == len(line) && len(up.Buffered()) < n {
		err = up.Fill(0, minute())
	}
	same := err == nil && bytes.Equal(up.Buffered(), line)
	up.Discard()
	up.Unride()
	if !breaks {
		s.pool <- up
	}
	return same
}
