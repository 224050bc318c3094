package socket

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// errStalled says that a peer reads so slowly that not even the messages of TLS
// itself find room.
var errStalled = errors.New("socket: the peer does not read")

const (
	// recordSize is the most that one TLS record carries, in bytes (RFC 8446
	// section 5.1).
	recordSize = 16 << 10
	// maxPending bounds the ciphertext that waits: a record and, behind it,
	// answers to key updates.
	maxPending = 4 * recordSize
)

// Under is the connection that TLS runs over. Half a record cannot be taken
// back, so crypto/tls takes a write that times out for the end of a connection.
// Here it is not: what is left of a record waits, and goes out before the next
// one. And a reader that wants to hold no buffer must know what TLS has already
// read ahead, which it says only to those who read without waiting.
//
// Until a Conn is made of the TLS connection, it passes everything through.
type Under struct {
	net.Conn
	wire     wire
	streams  bool         // a Conn was made of what runs over it
	deadline atomic.Int64 // of writes, a time of Now; 0: none

	// Owned by the reader.
	quick bool // do not read from the wire
	brisk bool // do not wait for the wire
	watch *watch
	ended bool // the wire has been seen to end

	mu sync.Mutex
	// guarded by mu
	armed   int64  // when the write timer fires; 0: not armed
	pending []byte // written as far as TLS knows
}

// NewUnder prepares a connection for TLS: tls.Server(NewUnder(c), config).
func NewUnder(c net.Conn) *Under { return &Under{Conn: c, wire: wireOf(c)} }

// underOf is what a TLS connection runs over, or nil.
func underOf(c net.Conn) *Under {
	t, ok := c.(interface{ NetConn() net.Conn })
	if !ok {
		return nil
	}
	u, _ := t.NetConn().(*Under)
	return u
}

// SyscallConn is that of the wrapped connection.
func (u *Under) SyscallConn() (syscall.RawConn, error) {
	if s, ok := u.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// Read reads from the wire, unless the reader is in a hurry.
func (u *Under) Read(p []byte) (int, error) {
	if u.quick {
		return 0, os.ErrDeadlineExceeded
	}
	n, err := u.read(p)
	u.ended = u.ended || err == io.EOF
	return n, err
}

// read reads from the wire.
func (u *Under) read(p []byte) (n int, err error) {
	w := u.watch
	switch {
	case (w == nil || w.away) && u.streams && u.wire.raw != nil:
		return u.wire.read(p)
	case w == nil || w.away:
		return u.Conn.Read(p)
	case u.brisk:
		if n, err = w.receive(p); err == syscall.EAGAIN {
			return 0, os.ErrDeadlineExceeded
		}
	default:
		n, err = w.read(p)
	}
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// fillSecureNow is FillNow for TLS.
func (c *Conn) fillSecureNow() (bool, error) {
	c.under.brisk = true
	n, err := endIsNoError(c.under.judge(c.readSecure(0)))
	c.under.brisk = false
	c.w += n
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return false, nil
	case n == 0 && err == nil:
		return false, io.EOF
	}
	return n > 0, err
}

// judge tells an end that the peer announced from one that anybody on the way
// can make. crypto/tls does not, where a record ends (RFC 8446 section 6.1, RFC
// 9112 section 9.8). u may be nil.
func (u *Under) judge(n int, err error) (int, error) {
	if u != nil && err == io.EOF && u.ended {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Write takes a record, or fails for good.
func (u *Under) Write(p []byte) (int, error) {
	if !u.streams {
		return u.Conn.Write(p)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	err := u.flush()
	n := 0
	if err == nil {
		n, err = u.push(p)
	}
	switch {
	case err == nil:
		return len(p), nil
	case !errors.Is(err, os.ErrDeadlineExceeded):
		return n, err
	case len(u.pending)+len(p)-n > maxPending:
		return n, errStalled
	}
	u.pending = append(u.pending, p[n:]...)
	return len(p), nil
}

// Flush writes what waits. The error is os.ErrDeadlineExceeded if some is left.
func (u *Under) Flush() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.flush()
}

// flush is Flush with mu held.
func (u *Under) flush() error {
	if len(u.pending) == 0 {
		return nil
	}
	n, err := u.push(u.pending)
	if u.pending = u.pending[n:]; len(u.pending) == 0 {
		u.pending = nil
	}
	return err
}

// push writes until the deadline has passed. The caller holds mu.
func (u *Under) push(p []byte) (n int, err error) {
	if u.watch.loops() {
		n, err = u.pushInLoop(p)
	} else {
		n = u.wire.write(p, u.watch.reads())
	}
	if n == len(p) || err != nil {
		return n, err
	}
	for {
		deadline := u.deadline.Load()
		if err := u.arm(deadline); err != nil {
			return n, err
		}
		m, err := u.Conn.Write(p[n:])
		n += m
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		u.armed = 0
		if deadline != 0 && Now() >= deadline {
			return n, err
		}
	}
}

// arm makes the write timer fire at the deadline or before. The caller holds mu.
func (u *Under) arm(deadline int64) error {
	at := noDeadline
	switch {
	case deadline != 0 && (u.armed == 0 || u.armed > deadline):
		at = At(deadline)
	case deadline != 0 || u.armed == 0 || u.armed > Now():
		return nil
	}
	u.armed = deadline
	return u.Conn.SetWriteDeadline(at)
}

// SetWriteDeadline sets the deadline of the writes that follow; what waits
// already goes by its own.
func (u *Under) SetWriteDeadline(t time.Time) error {
	if !u.streams {
		return u.Conn.SetWriteDeadline(t)
	}
	if t.IsZero() {
		u.deadline.Store(0)
	} else {
		u.deadline.Store(max(1, int64(t.Sub(base))+1))
	}
	return nil
}

// SetDeadline sets the deadlines of both directions.
func (u *Under) SetDeadline(t time.Time) error {
	if err := u.Conn.SetReadDeadline(t); err != nil {
		return err
	}
	return u.SetWriteDeadline(t)
}

// stream begins the time in which a Conn owns the deadlines.
func (u *Under) stream() {
	_ = u.Conn.SetWriteDeadline(noDeadline) // a closed one fails at the first use
	u.streams, u.armed = true, 0
}

// writeSecure is Write for TLS. A record that was begun counts as written: its
// rest goes out first at the next call.
func (c *Conn) writeSecure(p []byte, deadline int64) (n int, err error) {
	c.under.deadline.Store(deadline)
	for {
		if err := c.under.Flush(); err != nil || n == len(p) {
			return n, err
		}
		m, err := c.net.Write(p[n:min(n+recordSize, len(p))])
		n += m
		if err != nil {
			return n, err
		}
	}
}

// readSecure waits for one byte with nothing but room for one, and then takes a
// buffer for what TLS has got besides.
func (c *Conn) readSecure(want int) (int, error) {
	n, err := c.net.Read(c.first[:])
	if n == 0 {
		return 0, err
	}
	return c.takeFirst(want)
}

// takeFirst takes a buffer for the first byte and what TLS has got besides.
func (c *Conn) takeFirst(want int) (int, error) {
	c.in = GetBuffer(want)
	c.in[0] = c.first[0]
	n, _ := c.readAhead(c.in[1:]) // an error that matters comes again
	return 1 + n, nil
}

// readAhead reads what TLS has got from the wire already.
func (c *Conn) readAhead(p []byte) (int, error) {
	c.under.quick = true
	defer func() { c.under.quick = false }()
	return c.net.Read(p)
}

// FillAhead adds to Buffered what TLS has read ahead of those who Fill, and
// reports whether there was anything. It does not wait, and nothing interrupts
// it. It is for a connection without TLS too, which has nothing of the kind.
func (c *Conn) FillAhead() bool {
	if c.under == nil || c.in != nil {
		return false
	}
	if n, _ := c.readAhead(c.first[:]); n == 0 {
		return false
	}
	n, _ := c.takeFirst(0)
	c.w = n
	return true
}

// Spent reports whether all that came from the wire was consumed. Peek and
// Buffered do not show what TLS has read ahead. It is for the reader, and for
// connections that are closed if the answer is no: a byte may be lost.
func (c *Conn) Spent() bool {
	if c.r != c.w {
		return false
	}
	if c.under == nil {
		return true
	}
	n, err := c.readAhead(c.first[:])
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}

// Abort closes the connection so that the peer sees that it was cut: with a
// reset, and without the end that TLS would announce.
func (c *Conn) Abort() {
	c.Leave()
	wire := c.net
	if c.under != nil {
		wire = c.under.Conn
	}
	if t, ok := wire.(interface{ SetLinger(sec int) error }); ok {
		_ = t.SetLinger(0)
	}
	_ = wire.Close()
}

// goodbye is more than the longest record that carries a TLS alert, in bytes.
const goodbye = 80

// saysGoodbye reports whether so few bytes can be read that they may be the
// alert with which TLS ends.
func saysGoodbye(fd uintptr) bool {
	var few [goodbye]byte
	n, _ := peekNow(int(fd), few[:])
	return 0 < n && n < goodbye
}
