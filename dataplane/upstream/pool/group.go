package pool

import (
	"container/list"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dataplane/socket"
)

// The errors of Acquire.
var (
	// ErrFull says that as many wait for a connection as may.
	ErrFull = errors.New("pool: too many wait for a connection")
	// ErrWaited says that no connection came free in time.
	ErrWaited = errors.New("pool: no connection came free in time")
	// ErrShed says that the wait was given up for somebody who came later: the
	// queue stands, and is full.
	ErrShed = errors.New("pool: gave way to one that came later")
	// ErrRoom says that a connection that many share has room.
	ErrRoom = errors.New("pool: a connection has room")
	// ErrLeft says that whoever the connection was for has left.
	ErrLeft = errors.New("pool: the client has left")
)

// Limits bound a Group.
type Limits struct {
	Connections int           // of all its pools; 0: none
	PerPool     int           // of each pool; 0: none
	Waiting     int           // who may wait for a connection; 0: nobody
	KeepAlive   time.Duration // how long a connection may be idle
}

// Group bounds the connections of several pools together, and lets those wait
// that find no place.
type Group struct {
	limits    atomic.Pointer[Limits]
	keepAlive atomic.Int64 // of limits, in nanoseconds
	open      atomic.Int64 // of all pools
	waiting   atomic.Int64 // queue.Len(), to be looked at without the lock

	mu sync.Mutex
	// guarded by mu
	queue list.List // of *waiter, in the order in which they came
	order order     // in which they have their turns
	pools []*Pool
	// of those that many share
	shared int  // how many there are
	asks   bool // a goroutine is about to end one
	again  bool // and is to look once more
}

// waiter is one who waits for a connection to a pool.
type waiter struct {
	pool    *Pool
	shares  bool          // it can do with room on a connection
	turn    chan *Conn    // one message: a connection, or nil for a place; closed: there is room, or it is shed
	room    bool          // which of the two; set before turn is closed
	element *list.Element // nil once it had its turn; guarded by Group.mu
}

// NewGroup makes a group without pools.
func NewGroup(l Limits) *Group {
	g := &Group{}
	g.SetLimits(l)
	return g
}

// SetLimits changes the limits. What exceeds lower ones is not closed.
func (g *Group) SetLimits(l Limits) {
	g.limits.Store(&l)
	g.keepAlive.Store(int64(l.KeepAlive))
	if g.waiting.Load() > 0 {
		g.serve()
	}
}

// NewPool adds a pool with so many shards.
func (g *Group) NewPool(shards int) *Pool {
	p := &Pool{group: g, width: max(1, shards)}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pools = append(g.pools, p)
	return p
}

func (g *Group) remove(p *Pool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.pools, p); i >= 0 {
		g.pools = slices.Delete(g.pools, i, i+1)
	}
}

// Counts is how many connections there are, and how many wait for one.
func (g *Group) Counts() (open, waiting int) {
	return int(g.open.Load()), int(g.waiting.Load())
}

// Waiting is how many wait for a connection of this pool.
func (p *Pool) Waiting() int {
	p.group.mu.Lock()
	defer p.group.mu.Unlock()
	return p.waiting
}

// enqueue makes p's caller wait. It may have had its turn when it returns. The
// error is ErrFull.
func (g *Group) enqueue(p *Pool, shares bool) (*waiter, error) {
	w, now := &waiter{pool: p, shares: shares, turn: make(chan *Conn, 1)}, socket.Now()
	g.mu.Lock()
	w.element = g.queue.PushBack(w)
	g.order.joined(now)
	g.waiting.Add(1)
	p.waiting++
	evicted := g.serveLocked()
	full := w.element != nil && g.queue.Len() > g.limits.Load().Waiting
	if full && g.order.lastFirst(now) && g.shed(w) {
		full = false
	}
	if full {
		g.unlink(w)
	}
	g.mu.Unlock()
	closeAll(evicted)
	if full {
		return nil, ErrFull
	}
	return w, nil
}

// shed ends the wait of the one that came first, to make room for w. It is false
// if nobody else waits. The caller holds mu.
func (g *Group) shed(w *waiter) bool {
	first := g.queue.Front().Value.(*waiter)
	if first == w {
		return false
	}
	g.unlink(first)
	close(first.turn)
	return true
}

// leave ends a wait. It is false if there is something in w.turn already.
func (g *Group) leave(w *waiter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.element == nil {
		return false
	}
	g.unlink(w)
	return true
}

func (g *Group) unlink(w *waiter) {
	g.queue.Remove(w.element)
	w.element = nil
	g.waiting.Add(-1)
	w.pool.waiting--
	if g.queue.Len() == 0 {
		g.order.emptied()
	}
}

// turns goes through the queue in the order of turns. The caller holds mu.
func (g *Group) turns(now int64) (first *list.Element, next func(*list.Element) *list.Element) {
	if g.order.lastFirst(now) {
		return g.queue.Back(), (*list.Element).Prev
	}
	return g.queue.Front(), (*list.Element).Next
}

// give hands a connection that was just released to the one whose turn it is of
// those who wait for one of its pool.
func (g *Group) give(c *Conn) bool {
	if c.pool.closed.Load() {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	first, next := g.turns(socket.Now())
	for e := first; e != nil; e = next(e) {
		w := e.Value.(*waiter)
		if w.pool == c.pool {
			c.use.Store(inUse)
			g.unlink(w)
			w.turn <- c
			return true
		}
	}
	return false
}

// serve gives those a turn who can have one.
func (g *Group) serve() {
	g.mu.Lock()
	evicted := g.serveLocked()
	g.mu.Unlock()
	closeAll(evicted)
}

// serveLocked goes through the queue in order. Who waits for a pool that is at
// its own limit holds nobody up. What it evicted is to be closed after mu is
// let go; its place has been given away.
func (g *Group) serveLocked() (evicted []*Conn) {
	now := socket.Now()
	first, next := g.turns(now)
	for e := first; e != nil; {
		w := e.Value.(*waiter)
		e = next(e)
		c := w.pool.Idle(0, now)
		if c == nil && !w.pool.reserve() {
			old, exhausted := g.makePlace(w.pool)
			if exhausted {
				g.ask()
				break
			}
			if old == nil {
				continue
			}
			evicted = append(evicted, old)
		}
		g.unlink(w)
		w.turn <- c
	}
	return evicted
}

// makePlace takes the place of an idle connection of another pool for p.
// exhausted means that the group is at its limit and nothing is idle, so that
// nobody behind can have a turn either.
func (g *Group) makePlace(p *Pool) (old *Conn, exhausted bool) {
	limits := g.limits.Load()
	if limits.Connections == 0 || g.open.Load() < int64(limits.Connections) {
		return nil, false
	}
	if limits.PerPool > 0 && p.open.Load() >= int64(limits.PerPool) {
		return nil, false
	}
	for _, other := range g.pools {
		if old = other.evict(); old != nil {
			other.open.Add(-1)
			p.open.Add(1)
			return old, false
		}
	}
	return nil, true
}

func closeAll(evicted []*Conn) {
	for _, c := range evicted {
		c.use.Store(isClosed)
		c.close()
	}
}

// KeepAlive is how long a connection of the pool may be idle.
func (p *Pool) KeepAlive() time.Duration { return time.Duration(p.group.keepAlive.Load()) }
