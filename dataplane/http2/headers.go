package http2

import "encoding/binary"

// block is the header block that is being read. Between its first and its last
// frame nothing else may come (RFC 9113 section 4.3).
type block struct {
	open   bool
	stream uint32
	end    bool // END_STREAM
	since  int64
	bytes  int
	frames int
	head   *head
	fault  error // of the stream, found before the block was decoded, which it must be all the same
}

// maxBlockFrames bounds the frames of a header block: the largest head that is
// taken fits in several times fewer, and each costs us work.
const maxBlockFrames = 64

// onHeaders takes a HEADERS frame (section 6.2).
func (c *conn) onHeaders(f *frame, p []byte) error {
	if f.stream == 0 {
		return connError(ProtocolError, "HEADERS on stream 0")
	}
	p, ok := unpad(f, p)
	switch {
	case !ok && f.length == 0:
		return connError(FrameSizeError, "HEADERS without room for the length of its padding")
	case !ok:
		return connError(ProtocolError, "padding longer than the frame")
	}
	b := &c.block
	*b = block{open: true, stream: f.stream, end: f.has(flagEndStream), since: c.now, head: c.blankHead(b.head)}
	c.decoder.begin()
	if f.has(flagPriority) {
		if len(p) < 5 {
			return connError(FrameSizeError, "HEADERS without room for its priority")
		}
		if binary.BigEndian.Uint32(p)&maxStreamID == f.stream {
			b.fault = streamError(f.stream, ProtocolError, "stream that depends on itself")
		}
		p = p[5:]
	}
	return c.fragment(p, f.has(flagEndHeaders))
}

// blankHead is the head for the next block: what the last block was given, if it
// brought nothing.
func (c *conn) blankHead(left *head) *head {
	if left != nil && left.reset() {
		return left
	}
	return getHead()
}

// onContinuation takes a CONTINUATION frame (section 6.10).
func (c *conn) onContinuation(f *frame, p []byte) error {
	if len(p) == 0 && !f.has(flagEndHeaders) {
		if err := c.spend(costEmpty); err != nil {
			return err
		}
	}
	return c.fragment(p, f.has(flagEndHeaders))
}

// fragment decodes a piece of a header block. Of a block that is too large the
// rest is decoded all the same and charged for, so that what comes of it concerns
// its stream alone.
func (c *conn) fragment(p []byte, last bool) error {
	b := &c.block
	b.bytes += len(p)
	if b.frames++; b.frames > maxBlockFrames {
		return connError(EnhanceYourCalm, "header block too large")
	}
	if b.bytes > 2*c.o.MaxHeaderBytes {
		if err := c.spend(costExcess); err != nil {
			return err
		}
	}
	if err := c.decoder.write(b.head, p, last, &c.o); err != nil {
		return err
	}
	if !last {
		return nil
	}
	b.open = false
	c.waitSince = 0
	b.head.finish()
	b.head.end = b.end
	return c.onBlock()
}

// onBlock takes a whole header block to its stream.
func (c *conn) onBlock() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := &c.block
	s := c.streams.get(b.stream)
	switch {
	case s != nil && b.fault != nil:
		return b.fault
	case s == nil && c.client:
		return c.strayBlock()
	case s == nil:
		return c.openStream()
	case s.recvEnd:
		return streamError(s.id, StreamClosed, "HEADERS after the end of the stream")
	case !s.headRead:
		return c.responseHead(s)
	}
	return c.trailers(s)
}

// strayBlock judges HEADERS for a stream that is not open. mu is held.
func (c *conn) strayBlock() error {
	id := c.block.stream
	if id%2 == 0 || c.client && c.isIdle(id) {
		return connError(ProtocolError, "HEADERS on a stream that cannot be")
	}
	known, ours := c.closed.find(id)
	switch {
	case ours:
		return c.spend(costControl)
	case known:
		return connError(StreamClosed, "HEADERS on a closed stream")
	case c.client:
		return c.spend(costError)
	}
	return connError(ProtocolError, "stream number lower than one before")
}

// openStream begins the stream of a new request. mu is held.
func (c *conn) openStream() error {
	b := &c.block
	if b.stream%2 == 0 || b.stream <= c.lastID {
		return c.strayBlock()
	}
	if c.goAwaySent {
		c.o.Counters.Refused.Add(1)
		return c.spend(costControl) // it is above what GOAWAY named, and the peer knows
	}
	c.lastID = b.stream
	if b.fault != nil {
		return b.fault
	}
	if c.streams.len() >= c.o.MaxConcurrentStreams || c.running >= 2*c.o.MaxConcurrentStreams {
		return c.refuse(b.stream)
	}
	s := c.newStream()
	reason, fault := b.head.request(&s.request, &c.o)
	if reason != "" {
		c.recycle(s)
		return streamError(b.stream, ProtocolError, reason)
	}
	c.nuisance.refund(creditFrame)
	s.open(b.stream, c.peerWindow)
	s.fault, s.head, b.head = fault, b.head, c.getHead()
	s.headRead, s.bodyLeft = true, s.head.requestBytes(&s.request)
	s.recvEnd, s.readAt = b.end, c.now
	c.streams.add(s)
	c.o.Counters.Streams.Add(1)
	c.running++
	c.ready = append(c.ready, s)
	return nil
}

// refuse turns a stream away unseen (section 5.1.2). mu is held.
func (c *conn) refuse(id uint32) error {
	c.o.Counters.Refused.Add(1)
	c.closed.add(id, true)
	c.reserve(16)
	c.out = appendReset(c.out, id, RefusedStream)
	if !c.resets.spend(c.now, 1) {
		return connError(EnhanceYourCalm, "too many streams over the limit")
	}
	return c.tooMuchQueued()
}

// maxInterim is how many interim responses may wait for their reader.
const maxInterim = 16

// responseHead takes an interim or final response head. mu is held.
func (c *conn) responseHead(s *Stream) error {
	b := &c.block
	if reason := b.head.checkResponse(s.method); reason != "" {
		return streamError(s.id, ProtocolError, reason)
	}
	if len(s.heads) >= maxInterim {
		return streamError(s.id, EnhanceYourCalm, "too many interim responses")
	}
	c.nuisance.refund(creditFrame)
	if b.head.status >= 200 {
		s.headRead, s.bodyLeft = true, b.head.bodyBytes(s.method)
		if b.end {
			s.bodyLeft = 0
			defer c.endRecv(s)
		}
	}
	s.heads = append(s.heads, b.head)
	b.head = c.getHead()
	s.notify()
	return nil
}

// trailers takes a trailer section. mu is held.
func (c *conn) trailers(s *Stream) error {
	b := &c.block
	if !b.end {
		return streamError(s.id, ProtocolError, "trailers that do not end the stream")
	}
	if reason := b.head.checkTrailers(c.client); reason != "" {
		return streamError(s.id, ProtocolError, reason)
	}
	if s.bodyLeft > 0 {
		return streamError(s.id, ProtocolError, "less DATA than Content-Length")
	}
	s.trailer, b.head = b.head, c.getHead()
	c.endRecv(s)
	return nil
}
