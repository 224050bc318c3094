package socket

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var (
	noDeadline time.Time
	past       = time.Unix(1, 0)
)

// Write writes all of p. deadline is a time of Now, or 0 for none. n is how
// much was handed to the kernel when there is an error.
func (c *Conn) Write(p []byte, deadline int64) (n int, err error) {
	if c.under != nil {
		return c.writeSecure(p, deadline)
	}
	if w := c.watch; w != nil && w.later.bytes != nil && !w.away {
		if err = w.pay(); err != nil {
			return 0, err
		}
	}
	if t, a := c.task(); t != nil {
		if n = t.sendInLoop(a, p); n < len(p) {
			t.conn.Leave() // to wait until there is room
		}
	} else if w := c.reader(); w != nil && w.inside {
		// An error comes again below.
		n, _ = c.wire.send(w.fd, p, true)
	} else {
		n = c.wire.write(p, false)
	}
	if n == len(p) {
		return n, nil
	}
	for {
		if err := c.armWrite(deadline); err != nil {
			return n, err
		}
		m, err := c.net.Write(p[n:])
		n += m
		if err == nil {
			return n, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		c.writeArmed = fired
		if deadline != 0 && Now() >= deadline {
			return n, os.ErrDeadlineExceeded
		}
	}
}

// WriteNow writes what there is room for, and reports how much that was: nothing over
// TLS. What goes wrong shows at the next Write.
func (c *Conn) WriteNow(p []byte) int {
	if c.under != nil || c.watch != nil {
		return 0
	}
	return c.wire.write(p, false)
}

// armWrite makes the write timer fire at the deadline or before.
func (c *Conn) armWrite(deadline int64) error {
	if deadline != 0 && (c.writeArmed <= fired || c.writeArmed > deadline) {
		if err := c.net.SetWriteDeadline(At(deadline)); err != nil {
			return err
		}
		c.writeArmed = deadline
	} else if deadline == 0 && c.writeArmed != 0 && c.writeArmed <= Now() {
		if err := c.net.SetWriteDeadline(noDeadline); err != nil {
			return err
		}
		c.writeArmed = 0
	}
	return nil
}

// CloseWrite sends the end of the stream and leaves reading open, where the
// connection can do that.
func (c *Conn) CloseWrite() error {
	if half, ok := c.net.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Interrupt ends the read that is waiting and all that follow with
// ErrInterrupted, until Resume. It may be called from any goroutine.
func (c *Conn) Interrupt() {
	c.interrupted.Store(true)
	_ = c.net.SetReadDeadline(past)
}

// Resume lets reads go on after an Interrupt.
func (c *Conn) Resume() {
	c.interrupted.Store(false)
	c.readArmed = fired
}

// State is what a glance at a connection shows.
type State uint8

const (
	// Quiet: open, nothing to read.
	Quiet State = iota
	// Readable: bytes can be read.
	Readable
	// Ended: the peer closed its side, or the connection is broken.
	Ended
)

// Peek looks at the connection without waiting, without taking bytes and
// without regard to what is buffered. TLS connections are looked at below TLS;
// one whose peer has sent its last bytes, few enough to be a goodbye, has ended.
func (c *Conn) Peek() State {
	if c.raw == nil {
		return Quiet
	}
	if c.look == nil {
		c.look = func(fd uintptr) { c.peeked = c.peek(fd) }
	}
	c.peeked = Ended
	if err := c.raw.Control(c.look); err != nil {
		return Ended
	}
	return c.peeked
}

// Left reports whether Peek would say Ended. It may be called from any
// goroutine.
func (c *Conn) Left() bool {
	if c.raw == nil {
		return false
	}
	state := Ended
	err := c.raw.Control(func(fd uintptr) { state = c.peek(fd) })
	return err != nil || state == Ended
}

// peek asks the kernel for one byte and leaves it there.
func (c *Conn) peek(fd uintptr) State {
	var one [1]byte
	n, err := peekNow(int(fd), one[:])
	signs := int16(unix.POLLERR | unix.POLLHUP)
	if n > 0 && c.under != nil && saysGoodbye(fd) {
		signs |= unix.POLLRDHUP
	}
	switch {
	case n > 0 && !shows(fd, signs):
		return Readable
	case err == syscall.EAGAIN:
		return Quiet
	}
	return Ended
}

// shows reports whether the kernel gives one of the signs for a connection with
// unread bytes: that it was reset meanwhile, has ended in both directions, or
// has ended in the peer's.
func shows(fd uintptr, signs int16) bool {
	look := [1]unix.PollFd{{Fd: int32(fd), Events: signs}}
	n, err := unix.Poll(look[:], 0)
	return err == nil && n > 0 && look[0].Revents&signs != 0
}

// underlyingRaw is the raw form of the connection that a TLS connection runs
// over.
func underlyingRaw(c net.Conn) syscall.RawConn {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}
