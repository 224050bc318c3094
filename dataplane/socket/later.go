package socket

// WriteLater has p written together with what others write, and does not wait for
// that, if a loop serves the connection, its peer has not left and there is something
// to write. Otherwise it reports false, and nothing is written. p is of GetBuffer, and
// is given back.
//
// What there is no room for is written before anything else happens on the connection,
// by deadline, a time of Now or 0 for none. If that fails the connection is closed.
func (c *Conn) WriteLater(p []byte, deadline int64) bool {
	w := c.watch
	if len(p) == 0 || !w.loops() || c.under != nil || w.later.bytes != nil || w.socket.ending.Load() {
		return false
	}
	w.later.bytes, w.laterBy = p, deadline
	if w.loop.post(&w.later); w.later.done {
		w.later.bytes = nil
		return false
	}
	return true
}

// owes reports whether there is something left of what was to be written later, now
// that the rest is.
func (w *watch) owes() bool {
	if w.later.bytes != nil && !w.later.done {
		w.loop.write()
	}
	return w.later.bytes != nil
}

// pay writes what is left of what was to be written later. The error is that of Write,
// and the connection is closed then.
func (w *watch) pay() error {
	if w.owes() {
		w.conn.Leave() // to wait until there is room
	}
	return w.unpaid
}

// payAside is the part of pay that may wait.
func (w *watch) payAside() {
	p := &w.later
	if p.bytes == nil {
		return
	}
	if _, w.unpaid = w.conn.Write(p.bytes[p.n:], w.laterBy); w.unpaid != nil {
		_ = w.conn.Close() // the descriptor stays until the handler has heard of it
	}
	PutBuffer(p.bytes)
	p.bytes = nil
}
