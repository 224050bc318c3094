package http2

import (
	"io"
	"os"

	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
)

// Buffered is what was read of the body and not consumed; valid until the next
// Fill.
func (s *Stream) Buffered() []byte { return s.in[s.r:] }

// Consume drops the first n bytes of Buffered. That is what gives the peer credit
// for more.
func (s *Stream) Consume(n int) {
	s.r += n
	s.consumed += n
	if s.consumed >= s.owedAt {
		s.c.mu.Lock()
		s.tell()
		s.c.mu.Unlock()
	}
}

// tell gives credit for what was consumed. mu is held.
func (s *Stream) tell() {
	n := s.consumed
	s.consumed = 0
	s.creditLocked(n)
	s.owedAt = s.window / 2
}

// Fill waits for bytes of the body and adds them to Buffered. The error is io.EOF
// at its end, after which there may be Trailers; os.ErrDeadlineExceeded when
// deadline, a time of socket.Now or 0 for none, has passed; socket.ErrInterrupted
// after Interrupt; else that of Err. No buffer is held while it waits. The hint of
// how much is wanted is not needed.
func (s *Stream) Fill(_ int, deadline int64) error {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.r == len(s.in) && s.in != nil {
		s.putBack(s.in)
		s.in, s.r = nil, 0
	}
	for {
		switch {
		case s.interrupted:
			return socket.ErrInterrupted
		case len(s.queue) > 0:
			return s.take()
		case s.recvEnd:
			return io.EOF
		case s.err != nil:
			return s.err
		case !s.wait(&s.reader, deadline):
			return os.ErrDeadlineExceeded
		}
	}
}

// Interrupt ends the Fill or ReadHead that is waiting and all that follow with
// socket.ErrInterrupted, until Resume. It may be called from any goroutine.
func (s *Stream) Interrupt() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.interrupted = true
	s.reader.wake()
}

// Resume lets reads go on after an Interrupt.
func (s *Stream) Resume() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.interrupted = false
}

// take makes the next bytes of the queue those that are buffered. mu is held.
func (s *Stream) take() error {
	if rest := s.in[s.r:]; len(rest) > 0 {
		return s.join(rest)
	}
	s.putBack(s.in)
	s.in, s.r = s.queue[0], 0
	s.queue = s.queue[:copy(s.queue, s.queue[1:])]
	return nil
}

// join puts what is next in the queue behind bytes that were not consumed.
func (s *Stream) join(rest []byte) error {
	next := s.queue[0]
	if len(rest)+len(next) > socket.LargeBuffer {
		return socket.ErrFull
	}
	both := append(append(socket.GetBuffer(len(rest) + len(next))[:0], rest...), next...)
	s.putBack(s.in)
	s.putBack(next)
	s.in, s.r = both, 0
	s.queue = s.queue[:copy(s.queue, s.queue[1:])]
	return nil
}

// putBack takes a piece of body back. mu is held.
func (s *Stream) putBack(b []byte) {
	if cap(b) == roomBytes {
		s.roomUsed = false
		return
	}
	socket.PutBuffer(b)
}

// dropQueue lets go of what nobody will read. mu is held.
func (s *Stream) dropQueue() {
	for i, b := range s.queue {
		s.putBack(b)
		s.queue[i] = nil
	}
	s.queue = s.queue[:0]
}

// queueBytes adds to what the reader has not taken. It is bounded by the window.
// mu is held.
func (s *Stream) queueBytes(p []byte) {
	if n := len(s.queue); n > 0 && len(p) > 0 {
		last := s.queue[n-1]
		fits := min(len(p), cap(last)-len(last))
		s.queue[n-1] = append(last, p[:fits]...)
		p = p[fits:]
	}
	for len(p) > 0 {
		b := s.piece(len(p))
		n := min(len(p), cap(b))
		s.queue = append(s.queue, append(b, p[:n]...))
		p = p[n:]
	}
}

// piece is an empty buffer for n bytes or a part of them.
func (s *Stream) piece(n int) []byte {
	switch {
	case !s.roomUsed && n <= roomBytes:
		s.roomUsed = true
		return s.room[:0]
	case len(s.queue) == 0:
		return socket.GetBuffer(n)[:0]
	}
	return socket.GetBuffer(socket.LargeBuffer)[:0] // the reader is slower than the peer
}

// HeadOnly reports whether the head that was read last is all of its message:
// neither a body nor trailers follow.
func (s *Stream) HeadOnly() bool {
	if s.c.client {
		return s.current != nil && s.current.end
	}
	return s.head.end
}

// Ended reports whether the whole body has come, though it may not be consumed
// yet.
func (s *Stream) Ended() bool {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.recvEnd
}

// Trailers are the trailer fields, after Fill has returned io.EOF; there may be
// none.
func (s *Stream) Trailers() *message.Fields {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.trailer == nil {
		return &noFields
	}
	return &s.trailer.fields
}

var noFields message.Fields
