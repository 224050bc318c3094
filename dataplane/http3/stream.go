package http3

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/headgate/headgate/dataplane/http2"
	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
)

// Stream is one request and its response. One goroutine uses the methods that
// read and one those that write; they may be the same. Gone, Reset and Interrupt
// may be called by any goroutine until the handler returns.
//
// Nothing that a stream returned, heads and bytes among it, may be used after its
// handler has returned.
type Stream struct {
	server *Server
	quic   *quic.Stream

	request message.Request
	fault   *http2.Fault
	head    http2.Section
	trailer http2.Section

	// Owned by the reader.
	in       input
	headSeen bool
	trailers *message.Fields
	bodyLeft int64 // bytes of DATA to come, -1: not known
	ended    bool  // the peer has ended the stream, and all of it was read
	err      error // why it ended before its end

	// Owned by the writer.
	answered  bool  // a head was sent
	broken    error // why nothing can be written any more
	unhook    func()
	frameHead [frameHeaderBytes]byte

	closed atomic.Bool // our side has ended it
	lost   atomic.Bool // the peer has reset it

	mu          sync.Mutex
	interrupted bool // guarded by mu
}

// noTrailers is what a stream without trailers has.
var noTrailers message.Fields

// Request is the head of the request. HTTPS is what :scheme claims. A CONNECT
// request has no Path and no Body unless Upgrade is set: then it is an extended one
// (RFC 9220), and Upgrade is its :protocol. What follows on the stream of either is
// a tunnel's.
func (s *Stream) Request() *message.Request { return &s.request }

// Fault is what is wrong with the request, or nil. Such a request must be
// answered with its Status; Request holds what was understood.
func (s *Stream) Fault() *http2.Fault { return s.fault }

// Gone reports whether the peer wants no answer any more, or the connection is
// lost.
func (s *Stream) Gone() bool {
	switch {
	case s.lost.Load():
		return true
	case s.quic.Context().Err() == nil:
		return false
	}
	return !s.closed.Load() || s.server.conn.Context().Err() != nil
}

// OnReset has a function called once when the peer wants no answer any more or the
// connection is lost, or now if that has been. OnReset(nil) takes it back: after
// that it does not run. Both are called by the writer.
func (s *Stream) OnReset(hook func()) {
	if s.unhook != nil {
		s.unhook()
		s.unhook = nil
	}
	if hook == nil {
		return
	}
	done := make(chan struct{})
	stop := context.AfterFunc(s.quic.Context(), func() {
		defer close(done)
		if s.Gone() {
			hook()
		}
	})
	s.unhook = func() {
		if !stop() {
			<-done
		}
	}
}

// Reset ends the stream at once, and tells the peer why, in the word that HTTP/3
// has for a code of HTTP/2. Peers that can take a reset with partial delivery still
// get what was written before (draft-ietf-quic-reliable-stream-reset); to others
// QUIC gives no such promise (RFC 9000 section 3.3).
func (s *Stream) Reset(code http2.ErrCode) {
	s.quic.SetReliableBoundary()
	s.abort(codeOf(code))
}

func (s *Stream) abort(code Code) {
	s.closed.Store(true)
	s.quic.CancelRead(quic.StreamErrorCode(code))
	s.quic.CancelWrite(quic.StreamErrorCode(code))
}

// run reads the head of a request and has it handled.
func (s *Stream) run() {
	defer s.finish()
	if err := s.readHead(); err != nil {
		s.fail(err)
		return
	}
	s.server.handle(s)
}

// fail ends the stream, or the connection, for a fault of the peer. Its reader
// sees the error from then on.
func (s *Stream) fail(err error) {
	s.err = err
	fault, ours := errors.AsType[*Error](err)
	switch {
	case !ours: // the peer has reset it, or the connection is lost
		s.lost.Store(true)
		s.abort(RequestCancelled)
	case fault.Conn:
		s.server.end(fault)
	default:
		s.abort(fault.Code)
	}
}

// finish ends what the handler left. The rest of a request that was answered is not
// wanted (RFC 9114 section 4.1.1).
func (s *Stream) finish() {
	s.OnReset(nil)
	abandoned := s.Gone() && !s.answered
	if !s.closed.Swap(true) {
		s.quic.CancelWrite(quic.StreamErrorCode(InternalError))
	}
	if !s.ended {
		s.quic.CancelRead(quic.StreamErrorCode(NoError))
	}
	s.request, s.trailers = message.Request{}, nil
	s.head.Release()
	s.trailer.Release()
	s.in.release()
	s.quic.ReleaseStreamCredit()
	s.server.finished(abandoned)
}

// at is a deadline, a time of socket.Now or 0 for none, as quic-go wants it.
func at(deadline int64) time.Time {
	if deadline == 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(deadline - socket.Now()))
}
