// Package socket is a stream connection as the wire engines want it: a buffer
// that is only held while there is something in it, and deadlines that cost
// nothing until they pass. It knows nothing of what the bytes mean.
//
// A deadline is not set for each read: that would be a timer for each request.
// The connection remembers when its timer is armed to fire. A later deadline
// leaves it armed; when it fires too early, it is armed again and the wait goes
// on. So a busy connection sets one timer for each timeout that goes by.
package socket

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrFull says that the buffer holds LargeBuffer bytes that nobody consumed.
var ErrFull = errors.New("socket: buffer is full")

// ErrInterrupted says that Interrupt ended a wait.
var ErrInterrupted = errors.New("socket: interrupted")

// Conn is a connection with its input buffer. One goroutine reads and one
// writes; Interrupt and Close may be called from any.
type Conn struct {
	net   net.Conn
	raw   syscall.RawConn // of the socket below; nil: it cannot be looked at
	under *Under          // what TLS runs over; nil: no TLS, or none that can be looked under
	wire  wire            // without TLS

	interrupted atomic.Bool
	serving     atomic.Bool // Watch does, or a loop
	closed      atomic.Bool // Close was called

	// Owned by the reader.
	in        []byte // nil while nothing is held
	r, w      int    // in[r:w] is unread
	readArmed int64  // when the read timer fires; 0: not armed; fired: it has
	try       func(fd uintptr) bool
	more      func(fd uintptr) bool
	once      func(fd uintptr) bool
	tryN      int
	tryErr    error
	tryWant   int
	look      func(fd uintptr)
	ask       func(fd uintptr) bool
	question  question
	watch     *watch // nil unless Watch or a loop serves it
	call      *call  // of those who await something; nil: nobody has yet
	rider     *watch // of whom a loop serves who uses the connection; or nil
	peeked    State
	first     [1]byte // of what TLS gives, while no buffer is held

	// Owned by the writer.
	writeArmed int64
}

// New wraps a connection. Plain TCP and unix sockets, and TLS over an Under, are
// read without holding a buffer while they wait.
func New(c net.Conn) *Conn {
	s := &Conn{net: c}
	switch s.wire = wireOf(c); {
	case s.wire.raw != nil:
		s.raw = s.wire.raw
		s.try = s.tryRead
	default:
		s.raw = underlyingRaw(c)
		if s.under = underOf(c); s.under != nil {
			s.under.stream()
		}
	}
	return s
}

// Net is the wrapped connection.
func (c *Conn) Net() net.Conn { return c.net }

// Buffered is what was read and not consumed; valid until the next Fill.
func (c *Conn) Buffered() []byte { return c.in[c.r:c.w] }

// Consume drops the first n bytes of Buffered.
func (c *Conn) Consume(n int) {
	c.r += n
	if c.r == c.w {
		c.r, c.w = 0, 0
	}
}

// Release lets the buffer go if nothing is in it.
func (c *Conn) Release() {
	if c.r == c.w && c.in != nil {
		PutBuffer(c.in)
		c.in, c.r, c.w = nil, 0, 0
	}
}

// Close closes the connection. The buffer stays with the reader, who calls
// Discard. While Watch serves the connection, the descriptor is its own: Close
// ends both directions then, and the connection is to be closed after Watch.
func (c *Conn) Close() error {
	c.closed.Store(true) // before the look at serving: see watched
	if c.serving.Load() {
		return c.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
	}
	return c.net.Close()
}

// Discard lets the buffer go with all that is in it.
func (c *Conn) Discard() {
	c.r, c.w = 0, 0
	c.Release()
	if c.call != nil {
		c.call.stop()
	}
}

// Fill waits for bytes and adds them to Buffered. want is a hint of how much
// is to come: above SmallBuffer a large buffer is used. deadline is a time of
// Now, or 0 for none; when it has passed the error is os.ErrDeadlineExceeded.
// ErrFull means that no buffer may be larger; io.EOF that the peer has closed
// its side; io.ErrUnexpectedEOF that it has done so without ending TLS first.
func (c *Conn) Fill(want int, deadline int64) error {
	if t, a := c.task(); t != nil {
		return c.fillInLoop(t, a, want, deadline)
	}
	if err := c.makeRoom(want); err != nil {
		return err
	}
	for {
		if err := c.armRead(deadline); err != nil {
			return err
		}
		n, err := c.readOnce(want)
		c.w += n
		switch {
		case n > 0:
			return nil
		case err == nil:
			return io.EOF
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		}
		c.readArmed = fired
		if deadline != 0 && Now() >= deadline {
			return os.ErrDeadlineExceeded
		}
	}
}

// makeRoom sees to it that there is room behind w, unless no buffer is held.
func (c *Conn) makeRoom(want int) error {
	switch {
	case c.in == nil:
		return nil
	case c.r == c.w && want > SmallBuffer && len(c.in) == SmallBuffer:
		c.Release()
		return nil
	case len(c.in)-c.w > len(c.in)/4 || c.w < len(c.in) && c.r == 0:
		return nil
	case c.r > 0:
		c.w = copy(c.in, c.in[c.r:c.w])
		c.r = 0
		return nil
	case len(c.in) == SmallBuffer:
		large := GetBuffer(LargeBuffer)
		c.w = copy(large, c.in[:c.w])
		PutBuffer(c.in)
		c.in = large
		return nil
	}
	return ErrFull
}

// fired stands for a timer that fired: until it is set anew, nothing can be read
// or written. Now is greater.
const fired = 1

// armRead makes the read timer fire at the deadline or before.
func (c *Conn) armRead(deadline int64) error {
	switch {
	case c.watch.loops():
		c.watch.until = deadline
	case deadline != 0 && (c.readArmed <= fired || c.readArmed > deadline):
		if err := c.net.SetReadDeadline(At(deadline)); err != nil {
			return err
		}
		c.readArmed = deadline
	case deadline == 0 && c.readArmed != 0 && c.readArmed <= Now():
		if err := c.net.SetReadDeadline(noDeadline); err != nil {
			return err
		}
		c.readArmed = 0
	}
	if c.interrupted.Load() {
		return ErrInterrupted
	}
	return nil
}

// readOnce reads what is there, or waits for it.
func (c *Conn) readOnce(want int) (int, error) {
	if c.under != nil && c.in == nil {
		return endIsNoError(c.under.judge(c.readSecure(want)))
	}
	if w := c.reader(); w != nil && c.under == nil {
		return w.fill(want)
	}
	if c.try == nil || c.in != nil {
		if c.in == nil {
			c.in = GetBuffer(want)
		}
		if c.wire.raw != nil {
			return endIsNoError(c.wire.read(c.in[c.w:]))
		}
		return endIsNoError(c.under.judge(c.net.Read(c.in[c.w:])))
	}
	c.tryWant = want
	// Whoever waits has just said something, and it takes the peer a moment to
	// answer. Letting others run first makes it likely that the answer is there
	// at the first look, which saves a look in vain and the wait in the poller.
	runtime.Gosched()
	if err := c.raw.Read(c.try); err != nil {
		return 0, err
	}
	return c.tryN, c.tryErr
}

// endIsNoError makes the end of a stream 0 bytes without an error, as the kernel
// has it.
func endIsNoError(n int, err error) (int, error) {
	if n > 0 || err == io.EOF {
		err = nil
	}
	return n, err
}

// tryRead reads into a buffer taken for the purpose and gives it back if there
// is nothing to read yet; it is called again when there is.
func (c *Conn) tryRead(fd uintptr) bool {
	buf := GetBuffer(c.tryWant)
	n, err := readNow(int(fd), buf)
	if n > 0 {
		c.in, c.tryN, c.tryErr = buf, n, nil
		return true
	}
	PutBuffer(buf)
	if err == syscall.EAGAIN {
		return false
	}
	c.tryN = 0
	c.tryErr = nil
	if err != nil {
		c.tryErr = os.NewSyscallError("read", err)
	}
	return true
}

func orEOF(err error) error {
	if err == nil {
		return io.EOF
	}
	return err
}
