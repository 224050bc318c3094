package http3

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/headgate/headgate/dataplane/http2"
	"github.com/headgate/headgate/dataplane/socket"
)

// Server is the server side of a connection.
type Server struct {
	conn   *quic.Conn
	o      Options
	rules  http2.Options // of field sections
	handle func(*Stream)

	// guarded by mu
	mu       sync.Mutex
	control  *quic.SendStream // nil until Serve
	open     int
	next     quic.StreamID // above every request that was taken
	draining bool
	refusing bool        // requests from next on are not taken
	over     bool        // the connection has ended
	timer    *time.Timer // for what comes next: see wait
	resets   resets
	seen     [streamDecoder + 1]bool // kinds of streams of which there is one
	fault    error                   // of the peer's, which ended the connection
	staff    sync.WaitGroup
}

// NewServer makes the server side of a connection whose handshake is over. handle
// is called for each request on a goroutine of its own; the stream is finished when
// it returns. It must not panic.
func NewServer(c *quic.Conn, o Options, handle func(*Stream)) *Server {
	o = o.resolve()
	return &Server{
		conn: c, o: o, rules: o.sections(), handle: handle,
		resets: newResets(4*o.MaxConcurrentStreams, socket.Now()),
	}
}

// Serve runs the connection to its end. It returns when every handler has returned.
// The error is nil if either side ended the connection in order, or it was idle for
// too long.
func (s *Server) Serve() error {
	if err := s.greet(); err != nil {
		s.end(err)
	} else {
		s.staff.Go(s.acceptOthers)
		s.acceptRequests()
	}
	s.stop()
	s.staff.Wait()
	return s.verdict()
}

// stop has nothing more waited for.
func (s *Server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.stopTimer()
}

// greet opens our control stream.
func (s *Server) greet() error {
	control, err := s.conn.OpenUniStream()
	if err == nil {
		err = control.TryWriteAll(appendSettings(nil, &s.o))
	}
	if err != nil {
		// RFC 9114 section 6.2: a peer has to give credit for that.
		return connError(GeneralProtocolError, "no room for a control stream")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.control = control
	if s.draining {
		s.announceDrain()
	} else {
		s.idle()
	}
	return nil
}

func (s *Server) acceptRequests() {
	for {
		stream, err := s.conn.AcceptStream(context.Background())
		if err != nil {
			return
		}
		if !s.begin(stream.StreamID()) {
			stream.CancelRead(quic.StreamErrorCode(RequestRejected))
			stream.CancelWrite(quic.StreamErrorCode(RequestRejected))
			stream.ReleaseStreamCredit()
			continue
		}
		st := &Stream{server: s, quic: stream}
		s.staff.Go(st.run)
	}
}

// begin counts a request, unless it is not taken any more.
func (s *Server) begin(id quic.StreamID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusing {
		return false
	}
	s.next = max(s.next, id+4)
	s.open++
	if !s.draining {
		s.stopTimer()
	}
	return true
}

// finished counts a request that is over.
func (s *Server) finished(abandoned bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	if !s.resets.ended(abandoned, socket.Now()) {
		s.endLocked(connError(ExcessiveLoad, "too many requests were given up"))
		return
	}
	if s.open == 0 {
		s.idle()
	}
}

// How a connection that drains comes to its end.
const (
	// minNotice is how long after the first GOAWAY a request may still have been
	// sent before the peer knew, for paths whose round trip is shorter.
	minNotice = 20 * time.Millisecond
	// linger is how long the peer has to take the last answer and close.
	linger = time.Second
)

// Shutdown lets the requests that are under way, or on their way, be the last, and
// ends the connection after them. It does not wait.
func (s *Server) Shutdown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shutdown()
}

func (s *Server) shutdown() {
	if s.draining {
		return
	}
	s.draining = true
	if s.control != nil {
		s.announceDrain()
	}
}

// announceDrain tells the peer that it should stop, and after a round trip which
// request was the last (RFC 9114 section 5.2). mu is held.
func (s *Server) announceDrain() {
	_ = s.control.TryWriteAll(appendGoAway(nil, maxStreamID)) // who gives no credit is not told
	s.wait(max(minNotice, 2*s.conn.ConnectionStats().SmoothedRTT), s.lastCall)
}

// lastCall says which request was the last. mu is held.
func (s *Server) lastCall() {
	s.refusing = true
	_ = s.control.TryWriteAll(appendGoAway(nil, uint64(s.next)))
	if s.open == 0 {
		s.idle()
	}
}

// idle has a connection without a request end when that has lasted for long enough.
// mu is held.
func (s *Server) idle() {
	switch {
	case s.refusing:
		s.wait(linger, func() { s.endLocked(nil) })
	case s.draining: // lastCall is waited for
	case s.o.IdleTimeout > 0:
		s.wait(s.o.IdleTimeout, s.shutdown)
	}
}

// wait has something done later, in place of what was waited for before. mu is held,
// and when it is done too.
func (s *Server) wait(d time.Duration, then func()) {
	s.stopTimer()
	if s.over {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.timer == timer { // it is not too late
			s.timer = nil
			then()
		}
	})
	s.timer = timer
}

func (s *Server) stopTimer() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}

// Close cuts the connection, whatever it is doing. It does not wait.
func (s *Server) Close() { s.end(nil) }

// end ends the connection for a fault of the peer's, or nil.
func (s *Server) end(fault error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(fault)
}

func (s *Server) endLocked(fault error) {
	code, reason := NoError, ""
	if f, ok := errors.AsType[*Error](fault); ok {
		code, reason = f.Code, f.Reason
	}
	if s.fault == nil && s.conn.Context().Err() == nil {
		s.fault = fault
	}
	_ = s.conn.CloseWithError(quic.ApplicationErrorCode(code), reason) // never fails
}

// verdict is why the connection ended, if that was not in order.
func (s *Server) verdict() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil {
		return s.fault
	}
	cause := context.Cause(s.conn.Context())
	if closed, ok := errors.AsType[*quic.ApplicationError](cause); ok && Code(closed.ErrorCode) == NoError {
		return nil
	}
	if _, ok := errors.AsType[*quic.IdleTimeoutError](cause); ok {
		return nil
	}
	return cause
}
