package proxy

import (
	"sync/atomic"

	"github.com/headgate/headgate/dataplane/socket"
)

// loopAt is where the loop of a shard is; nil until it is needed.
func (e *Engine) loopAt(shard int) *atomic.Pointer[socket.Loop] {
	return &e.loops[uint(shard)%uint(len(e.loops))]
}

// Loop is the loop of a shard, which is made when it is needed first; nil if there
// can be none.
func (e *Engine) Loop(shard int) *socket.Loop {
	at := e.loopAt(shard)
	if l := at.Load(); l != nil {
		return l
	}
	e.looping.Lock()
	defer e.looping.Unlock()
	if l := at.Load(); l != nil || e.closed {
		return l
	}
	l, err := socket.NewLoop(e.crew, shard)
	if err != nil {
		e.logger.Warn("a goroutine for each connection, for want of a loop", "error", err)
		return nil
	}
	at.Store(l)
	return l
}

// upstreamLoop is the loop that waits for the upstream's connections, or nil. It is made
// where the answer may be awaited there.
func (x *exchange) upstreamLoop() *socket.Loop {
	if x.h2 != nil && x.route.prompt {
		return x.conn.engine.Loop(x.conn.shard)
	}
	return x.conn.engine.loopAt(x.conn.shard).Load()
}

// closeLoops ends the loops when their last connections have gone.
func (e *Engine) closeLoops() {
	e.looping.Lock()
	defer e.looping.Unlock()
	e.closed = true
	for i := range e.loops {
		if l := e.loops[i].Swap(nil); l != nil {
			l.Close()
		}
	}
}
