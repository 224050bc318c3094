package http2

import "github.com/headgate/headgate/dataplane/message"

// Messages that are there as a whole are written as one, with one look at what
// may be written.

// WriteRequest opens the stream with a head and, if they can be written without
// waiting, all the bytes of its body, which end it. Otherwise whole is false, and
// the body is left to WriteData. See WriteRequestHead for the rest.
func (s *Stream) WriteRequest(h *RequestHead, body []byte, deadline int64) (whole bool, err error) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := s.writeRequestHead(h, false, deadline); err != nil {
		return false, err
	}
	if s.sendable(len(body)) < len(body) {
		return false, nil
	}
	s.appendData(body, true)
	return true, nil
}

// WriteResponse writes a final head, a body and trailers, of which the last that
// is there ends the stream. It never waits: if not all of it can be written now it
// reports false, and nothing is written. Once it is written, nobody is told of a
// reset any more.
func (s *Stream) WriteResponse(status int, fields *message.Fields, body []byte, trailers *message.Fields) bool {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	size := int64(len(body))
	switch {
	case s.unwritable() != nil, len(c.blocked) > 0, s.sentHead:
		return false
	case len(body) > maxFrameBytes, s.sendWindow < size, c.sendWindow < size:
		return false
	case len(c.out)+len(body) > maxOut-2*minRoom:
		return false
	}
	trailing := trailers.Len() > 0
	s.writeHead(status, fields, len(body) == 0 && !trailing)
	if len(body) > 0 {
		s.appendData(body, !trailing)
	}
	if trailing {
		s.writeTrailers(trailers)
	}
	s.hook = nil
	return true
}
