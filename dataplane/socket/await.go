package socket

import (
	"sync"
	"time"
)

// Awaiter is told of what comes on a connection, where no goroutine waits for it.
// One of its methods is called, once, and must not wait.
type Awaiter interface {
	// Arrived says that there may be something to read, or an end. It is called on
	// the goroutine of a loop. now is the time.
	Arrived(now int64)
	// Roused says that the deadline has passed, that the connection was closed, or
	// that the loop knows it no more. It is called on any goroutine, with a lock of
	// the connection held: nothing may be done to it there.
	Roused()
}

// call is how an awaiter is reached. A connection keeps it for those who come after,
// with the timer: a later deadline leaves that armed, so that most waits set none.
type call struct {
	self waiter
	in   *slot
	who  Awaiter // whoever takes self out of the slot may have it

	mu sync.Mutex
	// guarded by mu
	wait  uint64 // counts the waits
	limit int64  // of the wait; 0: none
	armed int64  // when the timer fires; 0: not armed
	timer *time.Timer
}

// Await has a told when something can be read, by deadline, a time of Now or 0 for
// none, and reports true: until then the connection is not to be touched by the
// caller, but by Close. Nothing may be buffered. It reports false if there is something
// to be read or looked at now, in Buffered or not, or if no loop knows the connection
// (Join): then a is not told of anything.
func (c *Conn) Await(a Awaiter, deadline int64) bool {
	s, ok := c.net.(*Stream)
	if !ok || s.loop.Load() == nil {
		return false
	}
	if c.call == nil {
		c.call = &call{in: &s.in}
		c.call.self.call = c.call
	}
	wait, ok := c.call.enter(a, deadline)
	for ; !ok; wait, ok = c.call.enter(a, deadline) {
		if c.FillOnce() > 0 || s.over.Load() || s.ending.Load() {
			return false // what had come was no news
		}
	}
	// Of what has happened before nobody is told.
	return s.loop.Load() != nil && !s.over.Load() && !s.ending.Load() || !c.call.leave(wait)
}

// enter has an awaiter wait, and numbers the wait. It reports false if something has
// come.
func (c *call) enter(a Awaiter, deadline int64) (wait uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wait++
	c.who, c.limit = a, deadline
	c.arm()
	return c.wait, c.in.await(&c.self)
}

// leave takes the awaiter of a wait out. It reports false if that has been told:
// another may wait by now, for the next answer on the connection.
func (c *call) leave(wait uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wait != wait || !c.in.leave(&c.self) {
		return false
	}
	c.who = nil
	return true
}

// take is the awaiter, who is about to be told.
func (c *call) take() Awaiter {
	a := c.who
	c.who = nil
	return a
}

// arm makes the timer fire at the limit or before. The caller holds mu.
func (c *call) arm() {
	if c.limit == 0 || c.armed != 0 && c.armed <= c.limit {
		return
	}
	c.armed = c.limit
	left := time.Duration(c.limit - Now())
	if c.timer == nil {
		c.timer = time.AfterFunc(left, c.fire)
	} else {
		c.timer.Reset(left)
	}
}

// fire is called when the time of one who has waited is over, of this awaiter or of
// one before.
func (c *call) fire() {
	if a := c.late(); a != nil {
		a.Roused()
	}
}

// late takes the awaiter whose deadline has passed; nil if none has.
func (c *call) late() Awaiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = 0
	switch {
	case c.in.who.Load() != &c.self:
		return nil // who waits next arms it
	case Now() < c.limit || c.limit == 0:
		c.arm()
		return nil
	case !c.in.leave(&c.self):
		return nil
	}
	return c.take()
}

// stop lets go of the timer of a connection that is not used again.
func (c *call) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
}
