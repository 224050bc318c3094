package socket

// How a loop comes to serve a connection, and how that ends.

// Attend has a loop serve a connection until the handler has had enough or the
// connection has; over is called then. It does not wait. It reports false if a loop
// cannot serve it.
func (c *Conn) Attend(l *Loop, h Handler, over func()) bool {
	a := c.stream()
	if a == nil || !l.enter() {
		return false
	}
	t := &watch{conn: c, handler: h, shard: l.shard, loop: l, over: over, socket: a, fd: a.fd, inside: true, young: true}
	t.self.task = t
	t.later = letter{to: a, spent: true, task: t}
	open := c.watched(t)
	// What has come may have been told of already, or be read.
	looks := c.under != nil || a.loop.Load() == l
	if looks {
		t.mode.Store(returning)
	} else {
		t.enter(&a.in, h.Deadline())
	}
	if open && l.join(a) {
		l.expect(t)
		if looks {
			l.call(t)
		}
		return true
	}
	a.in.leave(&t.self)
	t.stop()
	l.leave(t)
	return false
}

// stream is the socket below, if a loop's poller can know it; else nil.
func (c *Conn) stream() *Stream {
	wire := c.net
	if c.under != nil {
		wire = c.under.Conn
	}
	a, _ := wire.(*Stream)
	return a
}

// stop ends the time in which a task serves its connection.
func (w *watch) stop() {
	if w.mode.Store(ended); w.timer != nil {
		w.timer.Stop()
	}
	w.conn.watched(nil)
}

// enter counts a connection in, unless the loop is over.
func (l *Loop) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.attended++
	return true
}

// end is the end of a connection.
func (w *watch) end() {
	w.stop()
	w.over()
	w.loop.leave(w)
}
