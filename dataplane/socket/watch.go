package socket

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"
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

// watch is a connection that is being watched: by Watch, on a goroutine, or by a
// loop, as one of its tasks. The goroutine of Watch waits for what can be read, and
// nothing else; a member of the crew runs while it, or the loop, stands still. So all
// of it has one owner at a time.
//
// The runtime's poller is told only once that somebody waits (syscall.RawConn), and what
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
	until   int64 // when what TLS waits for in a loop must have come; 0: whenever

	// Of a task of a loop. What is not atomic belongs to the loop's goroutine, or to
	// the one on which the task is aside.
	loop   *Loop // nil: Watch runs it
	socket *Stream
	over   func()
	self   waiter
	mode   atomic.Int32
	fired  atomic.Bool // the timer has
	waits  *slot       // nil: for nothing, or for what is written
	limit  int64       // of the wait; 0: none
	armed  int64       // when the timer fires; 0: not armed
	row    int         // reads without a pause
	young  bool        // the loop has not come by
	seen   bool        // it has been served
	parts  bool        // all that is left to do is to end TLS
	crowd  *crowd      // guarded by loop.mu, as is the next
	place  int
	timer  *time.Timer
	letter letter // what it writes, and waits for something

	onItsOwn func() // proceedAside; nil until it is needed

	later   letter // that it does not wait for; no bytes: there is none
	laterBy int64  // when that must be written; 0: whenever
	unpaid  error  // why it was not
}

// Watch serves a connection until the handler has had enough or the connection
// has. While it rests it holds neither a buffer nor more than a small stack. The
// reader's methods may be called from Ready only, unless it calls Leave.
func (c *Conn) Watch(crew *Crew, shard int, h Handler) {
	if c.raw == nil {
		c.serveAlone(h)
		return
	}
	if a := c.stream(); a != nil && a.loop.Load() != nil {
		_, _ = a.introduce() // the first read says it
	}
	w := &watch{conn: c, handler: h, shard: crew.shard(shard)}
	w.step = w.ready
	defer c.watched(nil)
	w.done = !c.watched(w)
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
}

// watched tells all who have to know by whom the connection is watched. It reports false
// if Close was called before; who calls it later leaves the descriptor to the watch.
func (c *Conn) watched(w *watch) bool {
	c.watch = w
	if c.under != nil {
		c.under.watch = w
	}
	c.serving.Store(w != nil)
	return !c.closed.Load()
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
	stir()
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
	if w.loop != nil {
		return w.handler.Rest()
	}
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
	if !w.parts && w.handler.Ready() && w.rest() {
		return rest
	}
	_ = w.pay() // the connection ends anyway
	if w.loop != nil && w.conn.under != nil {
		_ = w.conn.CloseWrite() // here it may wait for room
	}
	return finish
}

// wait switches back until there may be something to read.
func (w *watch) wait() error {
	if w.loop != nil {
		return w.waitInLoop()
	}
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
	if w.loop != nil {
		n, err := readNow(w.fd, p)
		w.dry = n < len(p) && !w.socket.ending.Load() // all of it, or an event follows (epoll(7))
		return n, err
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
			if w.loop != nil {
				w.giveWay()
			}
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

// reader is the watch that the reader has to go by, or nil.
func (c *Conn) reader() *watch {
	if c.watch.reads() {
		return c.watch
	}
	return nil
}

// reads reports whether the connection is read by the watch and by nobody else. w
// may be nil.
func (w *watch) reads() bool { return w != nil && !w.away }

// loops reports whether a loop does so. w may be nil.
func (w *watch) loops() bool { return w.reads() && w.loop != nil }

// Leave makes the connection one like any other until Ready returns: its methods
// may then be called from the goroutines that their comments allow.
func (c *Conn) Leave() {
	w := c.reader()
	if w == nil {
		return
	}
	w.away = true
	if w.loop != nil {
		w.owes()
		w.mode.Store(aside)
		w.member.yield(left)
		w.payAside()
	} else if w.inside {
		w.member.yield(left)
	}
}

// Aside reports whether Ready has left what serves the connection, by Leave or because
// it had to wait.
func (c *Conn) Aside() bool { return c.watch != nil && c.watch.away }

// FillNow adds to Buffered what can be read without waiting, and reports whether
// anything is buffered. The error is that of Fill, or of what was to be written later.
func (c *Conn) FillNow() (bool, error) {
	there, err := c.fillNow()
	if w := c.watch; w != nil && w.later.bytes != nil && (there || err != nil || w.later.done) {
		if fault := w.pay(); fault != nil {
			return false, fault
		}
	}
	return there, err
}

func (c *Conn) fillNow() (bool, error) {
	c.Release()
	w := c.reader()
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
