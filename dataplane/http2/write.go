package http2

import (
	"errors"
	"os"
	"runtime"
	"slices"

	"github.com/headgate/headgate/dataplane/socket"
)

// reserve sees to it that out has room for n more bytes. mu is held.
func (c *conn) reserve(n int) {
	need := len(c.out) + n
	switch {
	case c.out == nil:
		c.out = socket.GetBuffer(n)[:0]
	case need <= cap(c.out):
	case cap(c.out) == socket.SmallBuffer:
		larger := append(socket.GetBuffer(socket.LargeBuffer)[:0], c.out...)
		socket.PutBuffer(c.out)
		c.out = larger
	}
}

// append appends to out. mu is held.
func (c *conn) append(p []byte) {
	c.reserve(len(p))
	c.out = append(c.out, p...)
}

// kick has what is in out written. mu is held.
func (c *conn) kick() {
	if len(c.out) > 0 && !c.flushing {
		c.flushing = true
		go c.flushFunc()
	}
}

// flush writes until there is nothing more. Before each write it lets those run
// who have something to add to it. It never waits for a reader, and the reading
// goroutine never for it, so that two peers that both write do not stop each
// other.
func (c *conn) flush() {
	for {
		runtime.Gosched()
		c.mu.Lock()
		if len(c.out) == 0 {
			c.flushing = false
			socket.PutBuffer(c.out)
			c.out = nil
			if c.onFlushed != nil {
				close(c.onFlushed)
				c.onFlushed = nil
			}
			c.mu.Unlock()
			return
		}
		out := c.out
		c.out = nil
		c.unblock()
		c.mu.Unlock()
		err := c.write(out)
		socket.PutBuffer(out)
		if err != nil {
			c.writeFailed(err)
		}
	}
}

// write writes to the socket. A peer may be slow, but must take something within
// the timeout.
func (c *conn) write(p []byte) error {
	for {
		n, err := c.sock.Write(p, socket.Now()+int64(c.o.WriteTimeout))
		if err == nil || n == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		p = p[n:]
	}
}

// writeFailed ends the connection; what is still to be written is dropped.
func (c *conn) writeFailed(err error) {
	reason := "connection lost"
	if errors.Is(err, os.ErrDeadlineExceeded) {
		reason = "the peer takes no bytes"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = c.out[:0]
	c.end(&ConnError{Code: ConnectError, Reason: reason, Err: err})
}

// maxOut is how much may be waiting to be written before writers wait too.
const maxOut = socket.LargeBuffer

// minRoom is the least room that is given away: less would make small frames.
const minRoom = 4 << 10

// sendRoom is how much of DATA may be appended now: what fits behind a frame
// header, in the window of the connection and in one frame. mu is held.
func (c *conn) sendRoom() int {
	room := maxOut - len(c.out) - frameHeaderBytes
	if room < minRoom || c.sendWindow <= 0 {
		return 0
	}
	return int(min(int64(room), c.sendWindow, maxFrameBytes))
}

// unblock wakes who has waited longest for room, if there is some; it wakes the
// next when it has taken its part. mu is held.
func (c *conn) unblock() {
	if len(c.blocked) == 0 || c.sendRoom() == 0 {
		return
	}
	s := c.blocked[0]
	c.blocked = c.blocked[:copy(c.blocked, c.blocked[1:])]
	s.queued, s.turn = false, true
	s.writer.wake()
}

// block waits for room behind those who have waited longer. mu is held, and
// released meanwhile.
func (s *Stream) block(deadline int64) bool {
	c := s.c
	if !s.queued {
		s.queued = true
		c.blocked = append(c.blocked, s)
	}
	return s.wait(&s.writer, deadline)
}

// passOn lets the next have the room that a stream was woken for, or waited for,
// and does not need any more. mu is held.
func (s *Stream) passOn() {
	c := s.c
	s.turn = false
	if s.queued {
		s.queued = false
		i := slices.Index(c.blocked, s)
		c.blocked = slices.Delete(c.blocked, i, i+1)
	}
	c.unblock()
}
