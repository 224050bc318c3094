package pool

import "github.com/headgate/headgate/dataplane/socket"

// Connections that many requests share never go idle, so who waits for one is not
// served by its release: it has its turn when there is room on one of them. Who waits
// for another pool has it when one that nobody uses has been ended.

// Share counts a connection of the pool that many share. yield ends one that nobody
// uses, and reports whether there was one. It is called on a goroutine of its own when
// somebody waits for a place, and those of all connections are taken.
func (p *Pool) Share(yield func() bool) {
	p.group.mu.Lock()
	defer p.group.mu.Unlock()
	p.group.shared++
	p.yield = yield
}

// Unshare ends what Share began.
func (p *Pool) Unshare() {
	p.group.mu.Lock()
	defer p.group.mu.Unlock()
	p.group.shared--
}

// ask has a connection ended that many share and nobody uses. The caller holds mu.
func (g *Group) ask() {
	if g.shared == 0 {
		return
	}
	if g.again = true; !g.asks {
		g.asks = true
		go g.endOne()
	}
}

// endOne ends one connection each time that somebody has asked for it.
func (g *Group) endOne() {
	for pools := g.asked(); pools != nil; pools = g.asked() {
		for _, yield := range pools {
			if yield() {
				break
			}
		}
	}
}

// asked is by what a connection can be ended, if that was asked for, and somebody
// still waits; or nil.
func (g *Group) asked() (yields []func() bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asks = g.again && g.queue.Len() > 0
	g.again = false
	if !g.asks {
		return nil
	}
	yields = make([]func() bool, 0, len(g.pools))
	for _, p := range g.pools {
		if p.yield != nil {
			yields = append(yields, p.yield)
		}
	}
	return yields
}

// AcquireShared is Acquire for those who can do with room on a connection that others
// use too, and have found neither that nor a place. The error may also be ErrRoom: some
// connection may have room. look looks for it once more, when nothing can happen unheard
// any more; if it returns true, so is the error ErrRoom.
func (p *Pool) AcquireShared(deadline int64, client Client, look func() bool) (*Conn, error) {
	w, err := p.group.enqueue(p, true)
	if err != nil {
		return nil, err
	}
	if look() {
		p.renounce(w)
		return nil, ErrRoom
	}
	return w.wait(deadline, client)
}

// renounce ends a wait, and gives back what came of it meanwhile.
func (p *Pool) renounce(w *waiter) {
	if p.group.leave(w) {
		return
	}
	switch c, err := w.taken(w.came()); {
	case err == ErrRoom:
		p.Room()
	case err != nil:
	case c != nil:
		c.Release(0)
	default:
		p.Cancel()
	}
}

// came is what came over w.turn.
func (w *waiter) came() (*Conn, bool) {
	c, ok := <-w.turn
	return c, ok
}

// Room says that a connection of the pool that many share has room: of those who can
// do with that, the one whose turn it is looks for it. If there is none, others may want
// its place.
func (p *Pool) Room() {
	g := p.group
	if g.waiting.Load() == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	first, next := g.turns(socket.Now())
	for e := first; e != nil; e = next(e) {
		if w := e.Value.(*waiter); w.pool == p && w.shares {
			g.unlink(w)
			w.room = true
			close(w.turn)
			return
		}
	}
	g.ask()
}
