package socket

// FillReady adds to Buffered what can be read at once, and reports how much that
// was. It does not wait, moves nothing that is buffered, and reads nothing if
// there is no buffer or no room behind its bytes. What goes wrong shows at the
// next Fill.
func (c *Conn) FillReady() int {
	if c.try == nil || c.in == nil || c.w == len(c.in) {
		return 0
	}
	if w := c.reader(); w != nil {
		w.dry = false // it may have come meanwhile
		n, _ := w.receive(c.in[c.w:])
		c.w += n
		return n
	}
	if c.more == nil {
		c.more = c.readMore
	}
	c.tryN = 0
	if c.raw.Read(c.more) != nil {
		return 0
	}
	c.w += c.tryN
	return c.tryN
}

// FillOnce is FillReady that takes a buffer if none is held and something is there.
// Over TLS it reads nothing.
func (c *Conn) FillOnce() int {
	if c.in != nil || c.try == nil {
		return c.FillReady()
	}
	if a, ok := c.net.(*Stream); ok {
		n, _ := c.receive(a, 0)
		c.w += n
		return n
	}
	if c.once == nil {
		c.once = func(fd uintptr) bool {
			c.tryRead(fd)
			return true
		}
	}
	c.tryWant, c.tryN = 0, 0
	if c.raw.Read(c.once) != nil {
		return 0
	}
	c.w += c.tryN
	return c.tryN
}

func (c *Conn) readMore(fd uintptr) bool {
	c.tryN, _ = readNow(int(fd), c.in[c.w:])
	return true
}
