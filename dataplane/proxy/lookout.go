package proxy

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dataplane/socket"
)

// A lookout notices clients of HTTP/1 that leave while their answer is awaited:
// nobody reads from their connections then. Who waits says so with two stores;
// no timer is set and nothing is asked of the kernel for a request that is
// answered before the lookout comes by. It runs while there is a connection that
// was in use within the last second. Streams of HTTP/2 need none: their
// connections are read all the time.
type lookout struct {
	mu sync.Mutex
	// guarded by mu
	conns   []*Conn
	next    int // where the next round begins
	running bool
	_       [24]byte // shards do not share a cache line
}

// Bounds of a lookout. A client that leaves is noticed after lookEvery and
// looksPerRound connections at most, in all but the largest crowds.
const (
	lookEvery     = 40 * time.Millisecond
	lookAfter     = int64(10 * time.Millisecond) // who waits for less is not looked at
	looksInRow    = 64                           // before others may enter and leave
	looksPerRound = 2000                         // in larger crowds each has its turn
	quietRounds   = 25                           // after which a connection that waits for nothing is let go
)

// lookouts is one for each shard of connections, up to a number.
type lookouts [8]lookout

func (l *lookouts) of(c *Conn) *lookout { return &l[c.shard%len(l)] }

// wait is what a connection and its lookout share.
type wait struct {
	since  atomic.Int64 // when the wait began, a time of socket.Now; or one of the following
	listed atomic.Bool  // the lookout knows the connection
	what   *attempt     // that is waited for; owned by the connection but between telling and told

	// guarded by the lookout's mu
	place int // in conns
	quiet int // rounds without a wait
}

// Values of wait.since that are no time.
const (
	waitsNot int64 = 0
	telling  int64 = -1 // the lookout is ending the wait
	told     int64 = -2 // and has done so
)

// beginWait has the lookout see to the client until endWait, or its stream.
func (x *exchange) beginWait() {
	if x.stream != nil || x.branch != nil {
		x.heed()
		return
	}
	w := &x.conn.wait
	w.what = &x.attempt
	w.since.Store(x.now)
	if !w.listed.Load() {
		x.conn.engine.lookouts.of(x.conn).enlist(x.conn)
	}
}

// endWait reports whether the client has left meanwhile: the attempt was killed
// then.
func (x *exchange) endWait() (left bool) {
	if x.stream != nil || x.branch != nil {
		return false
	}
	w := &x.conn.wait
	if since := w.since.Load(); since > waitsNot && w.since.CompareAndSwap(since, waitsNot) {
		return false
	}
	for w.since.Load() != told {
		runtime.Gosched()
	}
	w.since.Store(waitsNot)
	return true
}

// enlist has the lookout know a connection.
func (l *lookout) enlist(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.wait.listed.Load() {
		return
	}
	c.wait.listed.Store(true)
	c.wait.place, c.wait.quiet = len(l.conns), 0
	l.conns = append(l.conns, c)
	if !l.running {
		l.running = true
		go l.run()
	}
}

// leave has the lookout forget a connection that ends.
func (l *lookout) leave(c *Conn) {
	if !c.wait.listed.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.wait.listed.Swap(false) {
		l.remove(c)
	}
}

// remove takes a connection off the list. mu is held.
func (l *lookout) remove(c *Conn) {
	last := len(l.conns) - 1
	l.conns[c.wait.place] = l.conns[last]
	l.conns[c.wait.place].wait.place = c.wait.place
	l.conns[last] = nil
	l.conns = l.conns[:last]
}

func (l *lookout) run() {
	for l.round(socket.Now()) {
		time.Sleep(lookEvery)
	}
}

// round looks once at who waits, and reports whether there is anybody left to
// look at.
func (l *lookout) round(now int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	looks := 0
	for n := len(l.conns); n > 0 && looks < looksPerRound; n-- {
		if l.next >= len(l.conns) {
			l.next = 0
		}
		c := l.conns[l.next]
		switch since := c.wait.since.Load(); {
		case since == waitsNot:
			if !l.quiet(c) {
				continue // another is in its place
			}
		case now-since > lookAfter:
			looks++
			c.lookAt(since)
			if looks%looksInRow == 0 { // loops may wait for mu
				l.mu.Unlock()
				runtime.Gosched()
				l.mu.Lock()
			}
			fallthrough
		default:
			c.wait.quiet = 0
		}
		l.next++
	}
	l.running = len(l.conns) > 0
	return l.running
}

// quiet notes that a connection waits for nothing, and reports whether it stays
// on the list. mu is held.
func (l *lookout) quiet(c *Conn) bool {
	if c.wait.quiet++; c.wait.quiet < quietRounds {
		return true
	}
	c.wait.listed.Store(false)
	if c.wait.since.Load() != waitsNot {
		c.wait.listed.Store(true) // it has begun to wait, and may have seen that it is listed
		c.wait.quiet = 0
		return true
	}
	l.remove(c)
	return false
}

// lookAt ends the wait that began at since, if the client has left.
func (c *Conn) lookAt(since int64) {
	if !c.sock.Left() || !c.wait.since.CompareAndSwap(since, telling) {
		return
	}
	c.wait.what.kill()
	c.wait.since.Store(told)
}
