package http2

// incoming is the DATA frame that is being read. Its payload is handed on as it
// comes, so that a frame needs no buffer of its size.
type incoming struct {
	pending bool
	stream  uint32
	left    int // bytes of data to come
	pad     int // bytes of padding behind them
	end     bool
}

// beginData takes the header of a DATA frame (RFC 9113 section 6.1); p is what is
// there of its payload.
func (c *conn) beginData(f *frame, p []byte) (more bool, err error) {
	if f.stream == 0 {
		return false, connError(ProtocolError, "DATA on stream 0")
	}
	pad, used := 0, 0
	if f.has(flagPadded) {
		if len(p) == 0 && f.length > 0 {
			c.waits()
			return false, nil
		}
		switch {
		case f.length == 0:
			return false, connError(FrameSizeError, "DATA without room for the length of its padding")
		case int(p[0]) >= f.length:
			return false, connError(ProtocolError, "padding longer than the frame")
		}
		pad, used = int(p[0]), 1
	}
	c.waitSince = 0
	c.sock.Consume(frameHeaderBytes + used)
	c.data = incoming{pending: true, stream: f.stream, left: f.length - pad - used, pad: pad, end: f.has(flagEndStream)}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.admitData(f.length)
	if rest := f.length - used; err == nil && len(p) >= f.length {
		data := p[used : used+c.data.left]
		c.data.pending = false
		c.sock.Consume(rest)
		return true, c.deliver(s, data, c.data.end)
	}
	return true, err
}

// admitData takes a DATA frame of a length against the windows and the state of
// its stream, which is nil if it takes none. Whatever is wrong with the stream, the
// frame counts for the connection. mu is held.
func (c *conn) admitData(length int) (*Stream, error) {
	d := &c.data
	if c.recvWindow -= int64(length); c.recvWindow < 0 {
		return nil, connError(FlowControlError, "more DATA than the window of the connection")
	}
	c.owe(length)
	s := c.streams.get(d.stream)
	if s == nil {
		return nil, c.strayData(d.stream)
	}
	switch {
	case s.recvEnd:
		return nil, streamError(s.id, StreamClosed, "DATA after the end of the stream")
	case !s.headRead:
		return nil, streamError(s.id, ProtocolError, "DATA before the response head")
	case s.recvWindow < int64(length):
		return nil, streamError(s.id, FlowControlError, "more DATA than the window of the stream")
	}
	s.recvWindow -= int64(length)
	if s.bodyLeft >= 0 {
		if s.bodyLeft -= int64(d.left); s.bodyLeft < 0 {
			return nil, streamError(s.id, ProtocolError, "more DATA than Content-Length")
		}
	}
	if d.left > 0 {
		c.nuisance.refund(creditFrame)
		s.startEpoch(c.now)
	} else if !d.end {
		if err := c.spend(costEmpty); err != nil {
			return nil, err
		}
	}
	s.creditLocked(length - d.left) // padding is consumed by being read
	return s, nil
}

// strayData judges DATA for a stream that is not open. mu is held.
func (c *conn) strayData(id uint32) error {
	if c.isIdle(id) {
		return connError(ProtocolError, "DATA on an idle stream")
	}
	known, ours := c.closed.find(id)
	switch {
	case ours:
		return c.spend(1)
	case known:
		return streamError(id, StreamClosed, "DATA on a closed stream")
	}
	return streamError(id, StreamClosed, "DATA on a stream closed long ago")
}

// isIdle reports whether a stream was never opened (RFC 9113 section 5.1.1).
// Streams that a server opens there are none. mu is held.
func (c *conn) isIdle(id uint32) bool {
	if id%2 == 0 {
		return true
	}
	if c.client {
		return id >= c.nextID
	}
	return id > c.lastID
}

// owe notes credit of the connection that is to be given back; half of the window
// at a time. mu is held.
func (c *conn) owe(n int) {
	c.recvOwed += n
	if c.recvOwed < c.o.ConnWindow/2 {
		return
	}
	c.reserve(16)
	c.out = appendWindowUpdate(c.out, 0, c.recvOwed)
	c.recvWindow += int64(c.recvOwed)
	c.recvOwed = 0
}

// continueData hands on what there is of the frame.
func (c *conn) continueData() (more bool, err error) {
	d := &c.data
	b := c.sock.Buffered()
	n := min(len(b), d.left)
	last := d.left == n
	skip := 0
	if last {
		skip = min(len(b)-n, d.pad)
	}
	whole := last && skip == d.pad
	if n == 0 && skip == 0 && !whole {
		return false, nil
	}
	c.mu.Lock()
	err = c.deliver(c.streams.get(d.stream), b[:n], whole && d.end)
	c.mu.Unlock()
	d.left -= n
	d.pad -= skip
	d.pending = !whole
	c.sock.Consume(n + skip)
	return whole || len(c.sock.Buffered()) > 0, err
}

// deliver gives data to its stream, if that is still there. mu is held.
func (c *conn) deliver(s *Stream, p []byte, end bool) error {
	if s == nil || s.recvEnd {
		return nil
	}
	s.queueBytes(p)
	if end {
		if s.bodyLeft > 0 {
			return streamError(s.id, ProtocolError, "less DATA than Content-Length")
		}
		c.endRecv(s)
		return nil
	}
	s.notify()
	return nil
}

// endRecv notes that the peer has ended its side of a stream. mu is held.
func (c *conn) endRecv(s *Stream) {
	s.recvEnd = true
	s.notify()
	if s.sentEnd {
		c.forget(s, false)
	}
}
