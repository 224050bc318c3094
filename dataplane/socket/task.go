package socket

import (
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// A task is a watch that a loop runs. What follows runs on the loop's goroutine,
// most of it on a coroutine that it has switched to.

// The modes of a task.
const (
	inLoop    int32 = iota // the loop runs it
	aside                  // a goroutine of its own does
	returning              // the loop is to settle it
	ended                  // the connection is over
)

// proceed goes on with a task until it waits again.
func (w *watch) proceed() {
	if w.waits == &w.socket.in {
		w.dry = false
	}
	w.waits, w.seen = nil, true
	for {
		if w.member == nil {
			if err := w.restEnded(); err != nil && !w.owes() && !w.handler.Woken(err) {
				if w.conn.under == nil {
					w.end()
					return
				}
				w.parts = true
			}
			w.member = w.shard.take(w)
		}
		switch sig, _ := w.member.resume(); sig {
		case pause:
			return
		case left:
			w.loop.patience.over = true
			if w.onItsOwn == nil {
				w.onItsOwn = w.proceedAside
			}
			go w.onItsOwn()
			return
		case rest:
			w.dismiss()
			if w.settle() {
				return
			}
		case finish:
			w.dismiss()
			w.end()
			return
		}
	}
}

// proceedAside goes on with a task on a goroutine of its own until it rests.
func (w *watch) proceedAside() {
	sig, _ := w.member.resume()
	w.dismiss()
	if sig == finish {
		w.end()
		return
	}
	w.mode.Store(returning)
	w.loop.call(w)
}

// restEnded is why a rest has ended, if that is not that something came.
func (w *watch) restEnded() error {
	err := w.err
	w.err = nil
	if w.conn.interrupted.Load() {
		return ErrInterrupted
	}
	return err
}

// settle has a task rest. It reports false if something has come already.
func (w *watch) settle() bool {
	if w.enter(&w.socket.in, w.handler.Deadline()) {
		return true
	}
	w.dry = false
	return false
}

// enter has a task wait until something happens, or limit. It reports false if that
// has happened already.
func (w *watch) enter(s *slot, limit int64) bool {
	w.limit = limit
	w.arm()
	if !s.await(&w.self) {
		return false
	}
	w.waits = s
	return true
}

// look sees whether a task is to go on: others have called for it, or its time is
// over.
func (w *watch) look() {
	switch s := w.waits; {
	case s == nil:
	case s.who.Load() != &w.self:
		w.proceed()
	case w.limit != 0 && Now() >= w.limit:
		if s.leave(&w.self) {
			w.err = os.ErrDeadlineExceeded
		}
		w.proceed()
	default:
		w.arm()
	}
}

// arm makes the timer fire at the limit or before.
func (w *watch) arm() {
	if w.limit == 0 || w.armed != 0 && w.armed <= w.limit {
		return
	}
	left := time.Duration(w.limit - Now())
	if w.young && left > 2*firstLook {
		return // the loop will come by
	}
	w.armed = w.limit
	if w.timer == nil {
		w.timer = time.AfterFunc(left, w.fire)
	} else {
		w.timer.Reset(left)
	}
}

// growUp has a connection have a timer, and serves one that has been silent: it rests
// like the others then.
func (w *watch) growUp() {
	w.young = false
	switch {
	case w.waits == nil:
	case w.seen:
		w.arm()
	case w.waits.leave(&w.self):
		w.proceed()
	}
}

func (w *watch) fire() {
	w.fired.Store(true)
	w.loop.call(w)
}

// await waits until something can be read from a connection, or limit.
func (w *watch) await(a *Stream, limit int64) error {
	if w.enter(&a.in, limit) {
		w.pause()
	} else if a == w.socket {
		w.dry = false
	}
	err := w.err
	w.err = nil
	return err
}

// task is who the connection is served by, and the connection as it knows it; nil if
// that is not a loop, or what is read and written is not what goes over the socket.
func (c *Conn) task() (*watch, *Stream) {
	w := c.watch
	switch {
	case w != nil:
	case c.rider != nil && !c.rider.away:
		return c.rider, c.net.(*Stream)
	}
	if !w.loops() || c.under != nil {
		return nil, nil
	}
	return w, w.socket
}

// RideOn has whoever serves the client's connection wait for this one, as long as
// that is a loop.
func (c *Conn) RideOn(client *Conn) {
	c.rider = nil
	if client.watch == nil || client.watch.loop == nil {
		return
	}
	if a, ok := c.net.(*Stream); ok && client.watch.loop.join(a) {
		c.rider = client.watch
		return
	}
	client.Leave()
}

// Unride ends what RideOn began.
func (c *Conn) Unride() { c.rider = nil }

// Join has who waits for the connection wait by the poller of a loop, where others
// may want it, as long as it is not known to the runtime's.
func (c *Conn) Join(l *Loop) {
	if a, ok := c.net.(*Stream); ok {
		a.Join(l)
	}
}

// Silent reports whether a loop would know if something had come.
func (c *Conn) Silent() bool {
	a, ok := c.net.(*Stream)
	return ok && a.loop.Load() != nil && a.in.who.Load() == nil
}

// StepAside leaves the loop, if that is what serves the connection, until Ready
// returns: others would have to wait otherwise.
func (c *Conn) StepAside() {
	if c.watch != nil && c.watch.loop != nil {
		c.Leave()
	}
}

// Depart is Leave for good: the connection will be waited for by goroutines.
func (c *Conn) Depart() {
	c.Leave()
	if a := c.stream(); a != nil {
		_, _ = a.introduce() // what waits says it
	}
}

// askInLoop is Ask.
func (c *Conn) askInLoop(t *watch, a *Stream, p []byte, spent bool, look, deadline int64) (n int, err error) {
	if c.interrupted.Load() {
		return 0, ErrInterrupted
	}
	if deadline != 0 {
		look = min(look, deadline)
	}
	n, err = t.exchange(a, p, spent, look)
	if n < len(p) {
		return n, nil
	}
	if err == nil && !c.interrupted.Load() {
		var got int
		got, err = c.receiveInLoop(t, a, 0)
		c.w += got
		switch {
		case got > 0:
			return n, nil
		case err == nil:
			return n, io.EOF
		case err != syscall.EAGAIN:
			return n, os.NewSyscallError("read", err)
		}
	}
	return n, c.fillInLoop(t, a, 0, deadline)
}

// exchange writes p, together with what others write, and waits until something can
// be read or the time look. It returns how much was written; if that is not all,
// nothing was awaited.
func (w *watch) exchange(a *Stream, p []byte, spent bool, look int64) (int, error) {
	m := &w.letter
	*m = letter{to: a, bytes: p, spent: spent, task: w}
	if w.loop.post(m); m.done {
		return m.n, nil
	}
	if w.enter(&a.in, look) {
		w.pause()
	} else { // something had come before
		m.sleeps = true
		w.pause()
	}
	if !m.done {
		w.loop.write() // and now
	}
	err := w.err
	w.err = nil
	return m.n, err
}

// readsInRow is how often a task reads before others have their turn.
const readsInRow = 16

// giveWay lets others be served, if this task has read for a while without a pause.
func (w *watch) giveWay() {
	if w.row++; w.row < readsInRow {
		return
	}
	w.loop.written = append(w.loop.written, w)
	w.limit = 0
	w.pause()
}

// pause switches back to the loop.
func (w *watch) pause() {
	w.row = 0
	w.member.yield(pause)
}

// fillInLoop is Fill.
func (c *Conn) fillInLoop(t *watch, a *Stream, want int, deadline int64) error {
	if err := c.makeRoom(want); err != nil {
		return err
	}
	for {
		if c.interrupted.Load() {
			return ErrInterrupted
		}
		n, err := c.receiveInLoop(t, a, want)
		c.w += n
		switch {
		case n > 0:
			t.giveWay()
			return nil
		case err == nil:
			return io.EOF
		case err != syscall.EAGAIN:
			return os.NewSyscallError("read", err)
		}
		if err := t.await(a, deadline); err != nil {
			return err
		}
	}
}

// receiveInLoop reads what is there behind what is buffered.
func (c *Conn) receiveInLoop(t *watch, a *Stream, want int) (int, error) {
	if a == t.socket {
		return t.take(want)
	}
	return c.receive(a, want)
}

// receive reads what is there behind what is buffered.
func (c *Conn) receive(a *Stream, want int) (int, error) {
	if !a.hold() {
		return 0, net.ErrClosed
	}
	defer a.letGo()
	if c.in != nil {
		return readNow(a.fd, c.in[c.w:])
	}
	buf := GetBuffer(want)
	n, err := readNow(a.fd, buf)
	if n > 0 {
		c.in = buf
	} else {
		PutBuffer(buf)
	}
	return n, err
}

// sendInLoop writes what there is room for, together with what others write.
func (w *watch) sendInLoop(a *Stream, p []byte) int {
	m := &w.letter
	*m = letter{to: a, bytes: p, task: w}
	w.loop.post(m)
	if !m.done {
		m.sleeps, w.limit = true, 0
		w.pause()
	}
	return m.n
}
