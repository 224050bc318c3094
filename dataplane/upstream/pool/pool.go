package pool

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dataplane/socket"
)

// Pool holds the connections to one endpoint. Its methods may be called from
// any goroutine.
type Pool struct {
	group  *Group
	width  int // shards
	shards atomic.Pointer[[]shard]
	open   atomic.Int64 // connections and permits to open one
	closed atomic.Bool

	// Guarded by Group.mu.
	waiting int         // in the queue of the group
	yield   func() bool // of Share; nil: none is shared
}

// shard is the idle connections that one core released.
type shard struct {
	n  atomic.Int32 // len(idle), to be looked at without the lock
	mu sync.Mutex
	// guarded by mu
	idle []*Conn // oldest first
	_    [88]byte
}

// Idle is the connection that went idle last, out of the caller's own shard if
// it has one, or nil. Whether the peer still has it open is not looked at.
func (p *Pool) Idle(own int, now int64) *Conn {
	shards := p.shards.Load()
	if shards == nil {
		return nil
	}
	return p.take(*shards, own, now)
}

func (p *Pool) take(shards []shard, own int, now int64) *Conn {
	oldest := now - p.group.keepAlive.Load()
	for i := range shards {
		s := &shards[uint(own+i)%uint(len(shards))]
		if s.n.Load() == 0 {
			continue
		}
		if c := s.pop(oldest); c != nil {
			return c
		}
	}
	return nil
}

// pop takes the youngest connection unless it went idle before oldest. Then all
// of them did, and closing them is left to Sweep.
func (s *shard) pop(oldest int64) *Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.idle) - 1
	if last < 0 || s.idle[last].since <= oldest {
		return nil
	}
	c := s.idle[last]
	s.idle[last] = nil
	s.idle = s.idle[:last]
	s.n.Store(int32(last))
	c.use.Store(inUse)
	return c
}

// put makes a connection idle, or gives it to who waits for one.
func (p *Pool) put(c *Conn, own int, now int64) {
	if p.group.waiting.Load() > 0 && p.group.give(c) {
		return
	}
	s := p.shard(own)
	s.mu.Lock()
	if p.closed.Load() {
		s.mu.Unlock()
		p.drop(c)
		return
	}
	c.since = now
	s.idle = append(s.idle, c)
	s.n.Store(int32(len(s.idle)))
	s.mu.Unlock()
	// Someone may have begun to wait between the look and the lock.
	if p.group.waiting.Load() > 0 {
		p.group.serve()
	}
}

// shard is one's own; shards are made when the first connection is released,
// for there may be very many endpoints without traffic.
func (p *Pool) shard(own int) *shard {
	shards := p.shards.Load()
	if shards == nil {
		fresh := make([]shard, p.width)
		p.shards.CompareAndSwap(nil, &fresh)
		shards = p.shards.Load()
	}
	return &(*shards)[uint(own)%uint(len(*shards))]
}

// drop closes an idle connection that is in no shard any more.
func (p *Pool) drop(c *Conn) {
	c.use.Store(isClosed)
	c.close()
	p.forget()
}

// forget gives back the place of a connection that was closed, or of a permit
// that was not used.
func (p *Pool) forget() {
	p.open.Add(-1)
	p.group.open.Add(-1)
	if p.group.waiting.Load() > 0 {
		p.group.serve()
	}
}

// Acquire takes the place for one more connection. It waits its turn if there
// are as many as may be, until deadline (a time of socket.Now). The result is
// an idle connection that came free meanwhile, or nil: then the caller opens one and
// calls Add, or Cancel if that failed. The error is ErrFull, ErrWaited, ErrShed or,
// if there is a client, which may be nil, ErrLeft.
func (p *Pool) Acquire(deadline int64, client Client) (*Conn, error) {
	if p.group.waiting.Load() == 0 && p.reserve() {
		return nil, nil
	}
	w, err := p.group.enqueue(p, false)
	if err != nil {
		return nil, err
	}
	return w.wait(deadline, client)
}

// Client is whoever a connection is for.
type Client interface {
	// Left reports whether it has gone and awaits nothing any more.
	Left() bool
}

// lookEvery is how often a client whose request waits is looked at.
const lookEvery = 100 * time.Millisecond

// wait waits for a turn.
func (w *waiter) wait(deadline int64, client Client) (*Conn, error) {
	pause := func() time.Duration {
		left := time.Duration(deadline - socket.Now())
		if client != nil {
			return min(left, lookEvery)
		}
		return left
	}
	timer := time.NewTimer(pause())
	defer timer.Stop()
	for {
		err := ErrWaited
		select {
		case c, ok := <-w.turn:
			return w.taken(c, ok)
		case <-timer.C:
		}
		switch {
		case client != nil && client.Left():
			err = ErrLeft
		case socket.Now() < deadline:
			timer.Reset(pause())
			continue
		}
		if w.pool.group.leave(w) {
			return nil, err
		}
		c, ok := <-w.turn
		return w.taken(c, ok)
	}
}

// taken is what came over w.turn.
func (w *waiter) taken(c *Conn, ok bool) (*Conn, error) {
	switch {
	case ok:
		return c, nil
	case w.room:
		return nil, ErrRoom
	}
	return nil, ErrShed
}

// Reserve is Acquire for those who can do without: it takes a place if there is
// one that nobody waits for. Add or Cancel must follow if it is true.
func (p *Pool) Reserve() bool { return p.group.waiting.Load() == 0 && p.reserve() }

// reserve counts one more connection if both limits allow it.
func (p *Pool) reserve() bool {
	limits := p.group.limits.Load()
	if !count(&p.open, limits.PerPool) {
		return false
	}
	if !count(&p.group.open, limits.Connections) {
		p.open.Add(-1)
		return false
	}
	return true
}

// count adds one to n unless that exceeds limit; 0 is no limit.
func count(n *atomic.Int64, limit int) bool {
	for {
		v := n.Load()
		if limit > 0 && v >= int64(limit) {
			return false
		}
		if n.CompareAndSwap(v, v+1) {
			return true
		}
	}
}

// Add makes a connection of a place that Acquire gave.
func (p *Pool) Add(s *socket.Conn) *Conn { return &Conn{Conn: s, pool: p} }

// Cancel gives a place back that Acquire gave.
func (p *Pool) Cancel() { p.forget() }

// Close closes the idle connections, and those in use when they are released.
func (p *Pool) Close() {
	p.closed.Store(true)
	p.group.remove(p)
	p.clear(func(*Conn) bool { return true })
}

// Counts is how many connections are idle, and how many there are in all,
// counting those being opened.
func (p *Pool) Counts() (idle, open int) {
	if shards := p.shards.Load(); shards != nil {
		for i := range *shards {
			idle += int((*shards)[i].n.Load())
		}
	}
	return idle, max(idle, int(p.open.Load()))
}
