package proxy

import (
	"bytes"
	"runtime/debug"
	"sync"

	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
	"github.com/headgate/headgate/dataplane/upstream"
)

// A branch is an exchange that asks an upstream on behalf of another: for a hedge
// or for a mirror. It has a goroutine of its own and a copy of all that it needs,
// so that it may outlive the other, and no client: nothing of it reaches one.
type branch struct {
	mirror bool  // its answer is read and dropped
	pipe   *pipe // what the request's body streams through; nil: it is all there

	mu sync.Mutex
	// guarded by mu
	victim *attempt // has a connection; nil: none, or not yet, or no more
	cut    bool     // its answer is not wanted any more
	over   bool     // it has an answer or a failure
}

// gone reports whether the answer is not wanted any more.
func (b *branch) gone() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cut
}

// cancel ends the branch: its connection is closed or its stream reset. Who is
// connecting finds out when there is a connection. It is false if the branch is
// over, so that its result is there.
func (b *branch) cancel() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return false
	}
	b.cut = true
	if b.victim != nil {
		b.victim.kill()
	}
	return true
}

// connected lets cancel kill an attempt from now on. It is false if the branch
// was cancelled before.
func (b *branch) connected(a *attempt) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.cut {
		b.victim = a
	}
	return !b.cut
}

// finish ends the branch by itself. It is false if it was cancelled.
func (b *branch) finish() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.victim, b.over = nil, true
	return !b.cut
}

// branches are those of an engine that run.
type branches struct {
	running sync.WaitGroup

	mu sync.Mutex
	// guarded by mu
	all    map[*branch]struct{}
	closed bool
}

// begin counts one in. It is false if there may be no more.
func (s *branches) begin(b *branch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.all == nil {
		s.all = map[*branch]struct{}{}
	}
	s.all[b] = struct{}{}
	s.running.Add(1)
	return true
}

func (s *branches) end(b *branch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, b)
	s.running.Done()
}

// close cancels those that run, and waits for them.
func (s *branches) close() {
	s.mu.Lock()
	s.closed = true
	for b := range s.all {
		b.cancel()
	}
	s.mu.Unlock()
	s.running.Wait()
}

var branchPool = sync.Pool{New: func() any { return newExchange() }}

// branchOff makes an exchange with a copy of the request and of its body, as far
// as that is all there.
func (x *exchange) branchOff(b *branch) *exchange {
	h := branchPool.Get().(*exchange)
	h.branch = b
	h.conn, h.gen, h.site, h.client, h.trusted = x.conn, x.gen, x.site, x.client, x.trusted
	h.route, h.deadline, h.now = x.route, x.deadline, x.now
	h.req = x.req.Clone()
	h.path = append(h.pathSpace[:0], x.path...)
	h.pathSpace = h.path[:0]
	h.target = append(h.targetSpace[:0], x.target...)
	h.targetSpace = h.target[:0]
	h.body = requestBody{whole: x.body.whole, raw: x.body.raw, data: bytes.Clone(x.body.data), streams: x.body.streams}
	h.replay.drop() // it is sent once
	if h.body.streams {
		h.bodyDecoder.Reset(message.Body{Kind: message.BodyUntilClose}, &h.site.limits)
	}
	h.tried = h.triedSpace[:0]
	h.out = socket.GetBuffer(0)[:0]
	h.facts.Shard, h.facts.Started, h.facts.Trace = x.facts.Shard, x.now, x.facts.Trace.Detached()
	h.facts.Method, h.facts.Listener, h.facts.Route = x.facts.Method, x.facts.Listener, x.facts.Route
	return h
}

// runBranch runs a branch that was counted in. A fault of ours ends it and
// nothing else; failed is told, on the branch's goroutine.
func (x *exchange) runBranch(what, failed func()) {
	e, b := x.conn.engine, x.branch
	go func() {
		defer e.branches.end(b)
		defer func() {
			if fault := recover(); fault != nil {
				e.logger.Error("a branch of an exchange panicked", "fault", fault, "stack", string(debug.Stack()))
				b.finish()
				x.load.End(x.now, upstream.Ignored)
				x.forsake()
				failed()
			}
		}()
		what()
	}()
}

// recycle lets go of a branch whose attempt is settled, or was taken over.
func (x *exchange) recycle() {
	socket.PutBuffer(x.out)
	x.req = message.Request{}
	x.fields.Reset()
	x.reset()
	branchPool.Put(x)
}
