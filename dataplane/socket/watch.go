package socket

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// Handler serves a connection that is watched.
type Handler interface {
	// Ready serves what has come, on a coroutine of the crew, until FillNow has
	// nothing more. It reports whether the connection lives on. The first call
	// may come before anything has.
	Ready() bool
	// Deadline is when a connection that rests is to be woken: a time of Now,
	// or 0 for never.
	Deadline() int64
	// Rest says that the connection is about to rest. It reports false if it is
	// to be closed instead.
	Rest() bool
	// Woken says that a rest has ended with an error: os.ErrDeadlineExceeded,
	// ErrInterrupted or that of a broken connection. It reports whether the
	// connection lives on.
	Woken(err error) bool
}

// watch is a connection that is being watched. The goroutine of Watch waits for
// what can be read, and nothing else; a member of the crew runs while it stands
// still. So all of it has one owner at a time.
//
// The poller is told only once that somebody waits (syscall.RawConn), and what
// comes later is remembered. A reader that asked for each read anew would have
// to look before each wait, for fear of having missed something.
type watch struct {
	conn    *Conn
	handler Handler
	shard   *crewShard
	member  *member // nil while the connection rests
	step    func(fd uintptr) bool
	fd      int
	inside  bool  // the descriptor is held: it can be used directly
	dry     bool  // inside, and nothing can be read until the poller says so
	counts  bool  // the kernel says how much is unread
	away    bool  // others read
	done    bool  // Watch is to return
	err     error // that ended the wait of the member
}

// Watch serves a connection until the handler has had enough or the connection
// has. While it rests it holds neither a buffer nor more than a small stack. The
// reader's methods may be called from Ready only, unless it calls Leave.
func (c *Conn) Watch(crew *Crew, shard int, h Handler) {
	if c.raw == nil {
		c.serveAlone(h)
		return
	}
	c.serving.Store(true)
	defer c.serving.Store(false)
	w := &watch{conn: c, handler: h, shard: crew.shard(shard)}
	w.step = w.ready
	c.watch = w
	c.under.watched(w)
	for !w.done {
		err := c.raw.Read(w.step)
		w.inside = false
		switch {
		case w.done:
		case w.away:
			w.advance()
		case w.member != nil:
			w.err = err
			w.advance()
		default:
			w.done = !h.Woken(c.interruption(err)) || c.armRead(h.Deadline()) != nil
		}
	}
	c.watch = nil
	c.under.watched(nil)
}

// interruption is ErrInterrupted for the deadline by which Interrupt ends waits.
func (c *Conn) interruption(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.readArmed = fired
		if c.interrupted.Load() {
			return ErrInterrupted
		}
	}
	return err
}

// ready is called when the wait begins, and then whenever there is something to
// read. It reports true to end the waiting.
func (w *watch) ready(fd uintptr) bool {
	w.fd, w.inside, w.dry = int(fd), true, false
	return w.advance()
}

// advance lets a member run until it has to wait, and reports whether the
// descriptor is to be let go.
func (w *watch) advance() bool {
	if w.member == nil {
		w.member = w.shard.take(w)
	}
	switch sig, _ := w.member.resume(); sig {
	case pause:
		return false
	case left:
		return true
	case rest:
		w.dismiss()
	case finish:
		w.dismiss()
		w.done = true
	}
	return w.done
}

// dismiss gives the member back.
func (w *watch) dismiss() {
	w.shard.put(w.member)
	w.member, w.away = nil, false
}

// rest prepares for a wait without a member, and reports whether there is to be
// one.
func (w *watch) rest() bool {
	if !w.counts && w.inside {
		w.counts = true
		countUnread(w.fd)
	}
	if err := w.conn.armRead(w.handler.Deadline()); err != nil && err != ErrInterrupted {
		return false
	}
	return w.handler.Rest()
}

// serve is what a member does for the connection. It prepares the rest too: the
// stack of whoever waits stays small by doing nothing.
func (w *watch) serve() signal {
	if w.handler.Ready() && w.rest() {
		return rest
	}
	return finish
}

// wait switches back until there may be something to read.
func (w *watch) wait() error {
	w.member.yield(pause)
	err := w.err
	w.err = nil
	return err
}

// receive reads what is there; the error is syscall.EAGAIN if that is nothing.
// 0 bytes without an error are the end.
func (w *watch) receive(p []byte) (int, error) {
	if !w.inside || w.dry {
		return 0, syscall.EAGAIN
	}
	n, unread, err := receiveNow(w.fd, p)
	w.dry = err == syscall.EAGAIN || n > 0 && unread == 0
	return n, err
}

// read reads what is there, or waits for it. The error is that of a wait, or
// what the kernel says.
func (w *watch) read(p []byte) (int, error) {
	for {
		n, err := w.receive(p)
		if err != syscall.EAGAIN {
			return n, os.NewSyscallError("recvmsg", err)
		}
		if err := w.wait(); err != nil {
			return 0, err
		}
	}
}

// fill is read into the connection's buffer, which is taken when there is
// something to put into it.
func (w *watch) fill(want int) (int, error) {
	for {
		n, err := w.take(want)
		if err != syscall.EAGAIN {
			return n, os.NewSyscallError("recvmsg", err)
		}
		if err := w.wait(); err != nil {
			return 0, err
		}
	}
}

// take reads what is there into the connection's buffer. Errors are those of
// receive.
func (w *watch) take(want int) (int, error) {
	c := w.conn
	if !w.inside || w.dry {
		return 0, syscall.EAGAIN
	}
	if c.in == nil {
		c.in = GetBuffer(want)
	}
	n, err := w.receive(c.in[c.w:])
	if n == 0 {
		c.Release()
	}
	return n, err
}

// watched is the watch that the reader has to go by, or nil.
func (c *Conn) watched() *watch {
	if c.watch.reads() {
		return c.watch
	}
	return nil
}

// reads reports whether the connection is read by the watch and by nobody else. w
// may be nil.
func (w *watch) reads() bool { return w != nil && !w.away }

// Leave makes the connection one like any other until Ready returns: its methods
// may then be called from the goroutines that their comments allow.
func (c *Conn) Leave() {
	w := c.watched()
	if w == nil {
		return
	}
	w.away = true
	if w.inside {
		w.member.yield(left)
	}
}

// FillNow adds to Buffered what can be read without waiting, and reports whether
// anything is buffered. The error is that of Fill.
func (c *Conn) FillNow() (bool, error) {
	c.Release()
	w := c.watched()
	switch {
	case c.r < c.w:
		return true, nil
	case w == nil || !w.inside:
		return c.FillAhead(), nil
	}
	return c.fillDry(w)
}

// fillDry is FillNow when nothing is buffered.
func (c *Conn) fillDry(w *watch) (bool, error) {
	if c.under != nil {
		return c.fillSecureNow()
	}
	n, err := w.take(0)
	c.w += n
	switch {
	case err == syscall.EAGAIN:
		return false, nil
	case n == 0 && err == nil:
		return false, io.EOF
	}
	return n > 0, err
}

// serveAlone is Watch for a connection that the poller does not know.
func (c *Conn) serveAlone(h Handler) {
	for h.Ready() {
		deadline := h.Deadline()
		if !h.Rest() {
			return
		}
		if err := c.Fill(0, deadline); err != nil && !h.Woken(err) {
			return
		}
	}
}
