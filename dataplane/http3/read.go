package http3

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/headgate/headgate/dataplane/http2"
	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
)

// readHead reads the head of the request, and looks whether anything follows.
func (s *Stream) readHead() error {
	deadline := socket.Now() + int64(s.server.o.HeaderTimeout)
	for !s.headSeen {
		if err := s.parse(); err != nil {
			return err
		}
		if s.headSeen {
			break
		}
		if s.in.eof {
			return streamError(RequestIncomplete, "stream that ended before its head")
		}
		err := s.read(0, deadline)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			s.fault = &http2.Fault{Status: 408, Reason: "the request head did not come in time"}
			s.request.Major = 3
			return nil
		}
		if err != nil {
			return err
		}
	}
	return s.takeRequest(deadline)
}

// takeRequest makes the request of its head. That a request has no body may be told
// only after its head; methods that have none as a rule wait for that.
func (s *Stream) takeRequest(deadline int64) error {
	if !s.looksEnded() {
		if err := s.makeRequest(false); err != nil || s.fault != nil {
			return err
		}
		if s.request.Body.Kind != message.BodyChunked || !bodiless(s.request.Method) {
			return nil
		}
		if err := s.await(deadline); err != nil || !s.looksEnded() {
			return err
		}
	}
	return s.makeRequest(true)
}

// looksEnded reports whether it is known already that nothing follows.
func (s *Stream) looksEnded() bool {
	return s.ended && len(s.in.payload()) == 0 && s.trailers == nil
}

// bodiless reports whether requests of a method have no body as a rule.
func bodiless(m message.Method) bool {
	switch m {
	case message.MethodGet, message.MethodHead, message.MethodDelete, message.MethodOptions, message.MethodTrace:
		return true
	}
	return false
}

// await waits for whatever comes next, if only until a deadline.
func (s *Stream) await(deadline int64) error {
	for !s.ended && len(s.in.payload()) == 0 {
		err := s.read(0, deadline)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err == nil {
			err = s.parse()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Stream) makeRequest(end bool) error {
	reason, fault := s.head.Request(&s.request, end)
	if reason != "" {
		return streamError(MessageError, reason)
	}
	s.request.Major = 3
	s.fault = fault
	s.bodyLeft = -1
	if s.request.Body.Kind == message.BodyLength {
		s.bodyLeft = s.request.Body.Length - int64(len(s.in.payload()))
	}
	return s.checkLength()
}

// checkLength holds the body to its Content-Length (RFC 9114 section 4.1.2).
func (s *Stream) checkLength() error {
	switch {
	case s.request.Body.Kind != message.BodyLength:
		return nil
	case s.bodyLeft < 0:
		return streamError(MessageError, "more DATA than Content-Length")
	case s.ended && s.bodyLeft > 0:
		return streamError(MessageError, "less DATA than Content-Length")
	}
	return nil
}

// parse looks at what was read, as far as it goes.
func (s *Stream) parse() error {
	in := &s.in
	for {
		if n := int(min(in.left, uint64(in.e-in.p))); n > 0 {
			in.left -= uint64(n)
			in.take(n)
			s.bodyLeft -= int64(n)
		}
		if n := int(min(in.skip, uint64(in.e-in.p))); n > 0 {
			in.skip -= uint64(n)
			in.drop(n)
		}
		if in.p == in.e {
			return s.parsedAll()
		}
		more, err := s.parseFrame()
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	if in.eof {
		return connError(FrameError, "stream that ended within a frame")
	}
	return nil
}

// parsedAll judges what is known when all that was read was looked at.
func (s *Stream) parsedAll() error {
	if s.in.eof {
		if s.in.left > 0 || s.in.skip > 0 {
			return connError(FrameError, "stream that ended within a frame")
		}
		s.ended = true
	}
	return s.checkLength()
}

// parseFrame looks at the next frame. It reports false if that is not there yet.
func (s *Stream) parseFrame() (bool, error) {
	in := &s.in
	kind, length, n := parseFrame(in.rest())
	switch {
	case n == 0:
		return false, nil
	case kind == frameHeaders:
		return s.parseHeaders(length, n)
	case kind == frameData && s.headSeen && s.trailers == nil:
		in.drop(n)
		in.left = length
	case known(kind):
		return false, connError(FrameUnexpected, "frame that may not come here on a request stream")
	default:
		in.drop(n)
		in.skip = length
	}
	return true, nil
}

// parseHeaders looks at a HEADERS frame whose payload begins n bytes on.
func (s *Stream) parseHeaders(length uint64, n int) (bool, error) {
	if s.trailers != nil {
		return false, connError(FrameUnexpected, "HEADERS after the trailers")
	}
	limit := uint64(s.server.o.MaxHeaderBytes)
	size := int(min(length, limit))
	if len(s.in.rest()) < n+size {
		return false, nil
	}
	block := s.in.rest()[n : n+size]
	into := &s.head
	if s.headSeen {
		into = &s.trailer
	}
	*into = http2.NewSection(&s.server.rules)
	if err := decode(block, into, length > limit); err != nil {
		return false, err
	}
	s.in.drop(n + size)
	s.in.skip = length - uint64(size)
	if !s.headSeen {
		s.headSeen = true
		return true, nil
	}
	fields, reason := s.trailer.Trailers()
	if reason != "" {
		return false, streamError(MessageError, reason)
	}
	s.trailers = fields
	return true, nil
}

// Buffered is what was read of the body and not consumed; valid until the next
// Fill.
func (s *Stream) Buffered() []byte { return s.in.payload() }

// Consume drops the first n bytes of Buffered.
func (s *Stream) Consume(n int) { s.in.r += n }

// Fill waits for bytes of the body and adds them to Buffered; want is how large a
// buffer they deserve. The error is io.EOF at its end, after which there may be
// Trailers; os.ErrDeadlineExceeded when deadline, a time of socket.Now or 0 for
// none, has passed; socket.ErrInterrupted after Interrupt; socket.ErrFull if too
// much was not consumed; else why the stream ended. No buffer is held while it waits.
func (s *Stream) Fill(want int, deadline int64) error {
	before := len(s.in.payload())
	for s.err == nil {
		if err := s.parse(); err != nil {
			s.fail(err)
			break
		}
		switch {
		case len(s.in.payload()) > before:
			return nil
		case s.ended:
			return io.EOF
		}
		if err := s.read(want, deadline); err != nil {
			return err
		}
	}
	return s.err
}

// read waits for more bytes of any kind.
func (s *Stream) read(want int, deadline int64) error {
	if !s.arm(deadline) {
		return socket.ErrInterrupted
	}
	if s.in.empty() {
		var first [1]byte
		if _, err := s.quic.Peek(first[:]); err != nil {
			return s.readFailed(err)
		}
	}
	room := s.in.room(want)
	if room == nil {
		return socket.ErrFull
	}
	n, err := s.quic.Read(room)
	s.in.e += n
	if n > 0 && !errors.Is(err, io.EOF) {
		return nil
	}
	return s.readFailed(err)
}

// readFailed takes what ended a read.
func (s *Stream) readFailed(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF):
		s.in.eof = true
		return nil
	case !errors.Is(err, os.ErrDeadlineExceeded):
		s.fail(err)
		return s.err
	case s.isInterrupted():
		return socket.ErrInterrupted
	}
	return os.ErrDeadlineExceeded
}

// arm has reads end at a deadline. It reports false if they are interrupted.
func (s *Stream) arm(deadline int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.interrupted {
		return false
	}
	_ = s.quic.SetReadDeadline(at(deadline)) // never fails
	return true
}

func (s *Stream) isInterrupted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.interrupted
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// Interrupt ends the Fill that is waiting and all that follow with
// socket.ErrInterrupted, until Resume. It may be called from any goroutine.
func (s *Stream) Interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interrupted = true
	_ = s.quic.SetReadDeadline(past) // never fails
}

// Resume lets reads go on after an Interrupt.
func (s *Stream) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interrupted = false
}

// The rest of a small body is waited for as long as this, so that a request that
// was sent in one go is there as a whole: the packets that carry it need not come
// in one read.
const (
	lookForAnnounced = 10 * time.Millisecond // its Content-Length says that it is small
	lookForOther     = time.Millisecond
)

// Ended reports whether the whole body has come, though it may not be consumed
// yet. It waits a moment for the end of what may be a small one.
func (s *Stream) Ended() bool {
	length, patience := s.request.Body.Length, lookForOther
	switch {
	case s.request.Continue || length > socket.SmallBuffer:
		return s.ended
	case s.request.Body.Kind == message.BodyLength:
		patience = lookForAnnounced
	}
	deadline := socket.Now() + int64(patience)
	for !s.ended && len(s.in.payload()) <= socket.SmallBuffer {
		if s.Fill(0, deadline) != nil {
			break
		}
	}
	return s.ended
}

// Trailers are the trailer fields, after Fill has returned io.EOF; there may be
// none.
func (s *Stream) Trailers() *message.Fields {
	if s.trailers == nil {
		return &noTrailers
	}
	return s.trailers
}
