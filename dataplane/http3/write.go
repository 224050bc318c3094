package http3

import (
	"errors"
	"os"

	"github.com/headgate/headgate/dataplane/message"
)

var errEnded = errors.New("http3: stream written to after its end")

// WriteResponseHead writes an interim or final head; end says that nothing follows
// it. It waits while the peer gives no credit, until deadline, a time of socket.Now
// or 0 for none; then the error is os.ErrDeadlineExceeded and the stream takes
// nothing more.
func (s *Stream) WriteResponseHead(status int, fields *message.Fields, end bool, deadline int64) error {
	s.answered = true
	return s.writeHeaders(status, fields, end, deadline)
}

// WriteTrailers ends the stream with trailer fields, or without if there are none.
func (s *Stream) WriteTrailers(fields *message.Fields, deadline int64) error {
	if fields == nil || fields.Len() == 0 {
		return s.endIf(true)
	}
	return s.writeHeaders(0, fields, true, deadline)
}

func (s *Stream) writeHeaders(status int, fields *message.Fields, end bool, deadline int64) error {
	if s.broken != nil {
		return s.broken
	}
	e := encoders.Get().(*encoder)
	defer e.release()
	_ = s.quic.SetWriteDeadline(at(deadline)) // never fails
	if err := s.write(e.frame(status, fields)); err != nil {
		return err
	}
	return s.endIf(end)
}

// WriteData writes a part of the body; end says that it is the last. It waits while
// the peer gives no credit, until deadline: then the error is
// os.ErrDeadlineExceeded and the stream takes nothing more. It keeps nothing of p.
func (s *Stream) WriteData(p []byte, end bool, deadline int64) (n int, err error) {
	if s.broken != nil {
		return 0, s.broken
	}
	if len(p) > 0 {
		_ = s.quic.SetWriteDeadline(at(deadline)) // never fails
		if err := s.write(appendFrame(s.frameHead[:0], frameData, len(p))); err != nil {
			return 0, err
		}
		if err := s.write(p); err != nil {
			return 0, err
		}
	}
	return len(p), s.endIf(end)
}

// write writes all of p. What is left of a frame that was begun cannot be made up
// for.
func (s *Stream) write(p []byte) error {
	_, err := s.quic.Write(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = os.ErrDeadlineExceeded
	}
	s.broken = err
	return err
}

func (s *Stream) endIf(end bool) error {
	if !end || s.broken != nil {
		return s.broken
	}
	s.broken = errEnded
	s.OnReset(nil) // what is heard of the stream from now on is its own end
	s.closed.Store(true)
	return s.quic.Close()
}
