package http2

import (
	"os"
	"strconv"

	"github.com/headgate/headgate/dataplane/message"
)

// RequestHead is the head of a request to be sent. Names of fields may be in any
// case. Fields that belong to a connection are left out, and so is Host, which
// Authority stands for.
type RequestHead struct {
	Method    []byte
	HTTPS     bool
	Authority []byte
	Target    []byte // path and query; not used for a plain CONNECT
	Protocol  []byte // of an extended CONNECT (RFC 8441), else nil
	Fields    *message.Fields
}

// WriteRequestHead opens the stream. end says that there is no body. It waits
// only while much is to be written already, until deadline. On a connection that
// goes away the error is one that errors.Is finds ErrNotProcessed in.
func (s *Stream) WriteRequestHead(h *RequestHead, end bool, deadline int64) error {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.writeRequestHead(h, end, deadline)
}

// writeRequestHead is WriteRequestHead with mu held.
func (s *Stream) writeRequestHead(h *RequestHead, end bool, deadline int64) error {
	c := s.c
	if err := s.awaitRoom(deadline); err != nil {
		return err
	}
	if err := c.number(s); err != nil {
		return err
	}
	s.method = message.ParseMethod(h.Method)
	start := c.beginBlock()
	c.out = c.encoder.request(c.out, h)
	c.out = c.encoder.fields(c.out, h.Fields, len(h.Authority) > 0)
	s.endBlock(start, end)
	return nil
}

// WriteResponseHead writes an interim or final head; see WriteRequestHead.
func (s *Stream) WriteResponseHead(status int, fields *message.Fields, end bool, deadline int64) error {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := s.awaitRoom(deadline); err != nil {
		return err
	}
	s.writeHead(status, fields, end)
	return nil
}

// writeHead appends the head of a response. mu is held.
func (s *Stream) writeHead(status int, fields *message.Fields, end bool) {
	c := s.c
	start := c.beginBlock()
	c.out = c.encoder.status(c.out, status)
	c.out = c.encoder.fields(c.out, fields, false)
	s.endBlock(start, end)
}

// WriteTrailers ends the stream with trailer fields, or without if there are
// none.
func (s *Stream) WriteTrailers(fields *message.Fields, deadline int64) error {
	if fields == nil || fields.Len() == 0 {
		_, err := s.WriteData(nil, true, deadline)
		return err
	}
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := s.awaitRoom(deadline); err != nil {
		return err
	}
	s.writeTrailers(fields)
	return nil
}

// writeTrailers appends trailers. mu is held.
func (s *Stream) writeTrailers(fields *message.Fields) {
	c := s.c
	start := c.beginBlock()
	c.out = c.encoder.fields(c.out, fields, true)
	s.endBlock(start, true)
}

// awaitRoom waits until a head may be appended. mu is held, and released
// meanwhile.
func (s *Stream) awaitRoom(deadline int64) error {
	defer s.passOn()
	for {
		err := s.unwritable()
		switch {
		case err != nil:
			return err
		case len(s.c.out) < maxOut-minRoom:
			return nil
		case !s.block(deadline):
			return os.ErrDeadlineExceeded
		}
	}
}

// unwritable is why nothing can be written, or nil. mu is held.
func (s *Stream) unwritable() error {
	switch {
	case s.err != nil:
		return s.err
	case s.c.ended && s.id == 0:
		return errGoingAway
	case s.c.ended:
		return s.c.closedError()
	case s.sentEnd:
		return streamError(s.id, StreamClosed, "written to after its end")
	}
	return nil
}

// closedError is why a connection that has ended takes nothing. mu is held.
func (c *conn) closedError() error {
	if c.endErr != nil {
		return c.endErr
	}
	return ErrClosed
}

// number gives a stream of a client its number, which must be done in the order
// of the heads (RFC 9113 section 5.1.1). mu is held.
func (c *conn) number(s *Stream) error {
	if c.peerGoAway || c.goAwaySent || c.nextID > maxStreamID {
		return errGoingAway
	}
	c.opened--
	s.open(c.nextID, c.peerWindow)
	c.streams.add(s)
	c.nextID += 2
	c.o.Counters.Streams.Add(1)
	return nil
}

// beginBlock begins a HEADERS frame and returns where. mu is held.
func (c *conn) beginBlock() int {
	c.reserve(2 << 10)
	start := len(c.out)
	c.out = appendFrame(c.out, 0, frameHeaders, flagEndHeaders, 0)
	c.out = c.encoder.begin(c.out)
	return start
}

// endBlock ends the HEADERS frame at start. mu is held.
func (s *Stream) endBlock(start int, end bool) {
	c := s.c
	flags := uint8(flagEndHeaders)
	if end {
		flags |= flagEndStream
	}
	length := len(c.out) - start - frameHeaderBytes
	if length > maxFrameBytes {
		c.splitBlock(start, s.id, flags)
	} else {
		appendFrame(c.out[:start], length, frameHeaders, flags, s.id)
	}
	s.sentHead = true
	c.sent(s, end)
}

// splitBlock makes HEADERS and CONTINUATION frames of a block that is too large
// for one.
func (c *conn) splitBlock(start int, id uint32, flags uint8) {
	block := append([]byte(nil), c.out[start+frameHeaderBytes:]...)
	c.out = c.out[:start]
	kind := frameHeaders
	for len(block) > 0 {
		n := min(len(block), maxFrameBytes)
		if n < len(block) {
			c.out = appendFrame(c.out, n, kind, flags&^flagEndHeaders, id)
		} else {
			c.out = appendFrame(c.out, n, kind, flags, id)
		}
		c.out = append(c.out, block[:n]...)
		block = block[n:]
		kind, flags = frameContinuation, flagEndHeaders
	}
}

// sent notes what was appended for a stream. mu is held.
func (c *conn) sent(s *Stream, end bool) {
	c.framesSent.Add(1)
	if end {
		s.sentEnd = true
		if s.recvEnd {
			c.forget(s, false)
		}
	}
	c.kick()
}

// WriteData writes a part of the body; end says that it is the last. It waits
// while the peer gives no credit, or while much is to be written already, until
// deadline, a time of socket.Now or 0 for none: then n bytes were taken and the
// error is os.ErrDeadlineExceeded. It keeps nothing of p.
func (s *Stream) WriteData(p []byte, end bool, deadline int64) (n int, err error) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	defer s.passOn()
	for n < len(p) || end && !s.sentEnd {
		if err := s.unwritable(); err != nil {
			return n, err
		}
		size := s.sendable(len(p) - n)
		if size == 0 && n < len(p) {
			if !s.awaitCredit(deadline) {
				return n, os.ErrDeadlineExceeded
			}
			continue
		}
		s.appendData(p[n:n+size], end && n+size == len(p))
		n += size
	}
	return n, nil
}

// sendable is how much of n bytes may be appended now: nothing while others have
// waited longer. mu is held.
func (s *Stream) sendable(n int) int {
	if len(s.c.blocked) > 0 && !s.turn {
		return 0
	}
	return min(n, s.c.sendRoom(), int(max(s.sendWindow, 0)))
}

// awaitCredit waits for what is missing: credit for the stream, or room. mu is
// held, and released meanwhile.
func (s *Stream) awaitCredit(deadline int64) bool {
	if s.sendWindow <= 0 {
		s.passOn()
		return s.wait(&s.writer, deadline)
	}
	return s.block(deadline)
}

// appendData appends a DATA frame. mu is held.
func (s *Stream) appendData(p []byte, end bool) {
	c := s.c
	var flags uint8
	if end {
		flags = flagEndStream
	}
	c.reserve(frameHeaderBytes + len(p))
	c.out = appendFrame(c.out, len(p), frameData, flags, s.id)
	c.out = append(c.out, p...)
	c.sendWindow -= int64(len(p))
	s.sendWindow -= int64(len(p))
	c.sent(s, end)
	if s.turn {
		s.turn = false
		c.unblock()
	}
}

// request appends the pseudo-header fields of a request.
func (e *encoder) request(dst []byte, h *RequestHead) []byte {
	switch string(h.Method) {
	case "GET":
		dst = append(dst, 0x80|staticGET)
	case "POST":
		dst = append(dst, 0x80|staticPOST)
	default:
		dst = e.pseudo(dst, pseudoMethod, staticMethod, h.Method)
	}
	if string(h.Method) != "CONNECT" || h.Protocol != nil {
		if h.HTTPS {
			dst = append(dst, 0x80|staticHTTPS)
		} else {
			dst = append(dst, 0x80|staticHTTP)
		}
		if string(h.Target) == "/" {
			dst = append(dst, 0x80|staticPath)
		} else {
			dst = e.pseudo(dst, pseudoPath, staticPath, h.Target)
		}
	}
	if len(h.Authority) > 0 {
		dst = e.pseudo(dst, pseudoAuthority, staticAuthority, h.Authority)
	}
	if h.Protocol != nil {
		dst = e.pseudo(dst, pseudoProtocol, 0, h.Protocol)
	}
	return dst
}

// status appends :status.
func (e *encoder) status(dst []byte, status int) []byte {
	for i, s := range staticStatuses {
		if int(s) == status {
			return append(dst, 0x80|byte(staticStatus+i))
		}
	}
	var digits [4]byte
	return e.pseudo(dst, pseudoStatus, staticStatus, strconv.AppendInt(digits[:0], int64(status), 10))
}

// fields appends field lines, but for those that belong to a connection (RFC 9113
// section 8.2.2).
func (e *encoder) fields(dst []byte, fields *message.Fields, dropHost bool) []byte {
	if fields == nil {
		return dst
	}
	list := fields.All()
	for i := range list {
		f := &list[i]
		if Carried(f) && !(f.ID == message.Host && dropHost) {
			dst = e.field(dst, f.ID, f.Name, f.Value)
		}
	}
	return dst
}
