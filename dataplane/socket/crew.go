package socket

import (
	"iter"
	"slices"
	"sync"
	"time"
)

// Crew is a stock of coroutines that have grown their stacks. A connection that
// rests keeps only the small stack on which it waits; when something comes, a
// member of the crew serves it. They are coroutines and no goroutines that are
// sent work, because a switch to a coroutine asks no scheduler.
type Crew struct{ shards []crewShard }

// The bounds of a shard of a crew.
const (
	crewSpare = 1024        // members that wait for work, at most
	crewLook  = time.Second // those that were not needed for as long are let go
)

type crewShard struct {
	mu sync.Mutex
	// guarded by mu
	spare  []*member
	fewest int  // of spare since the last look
	looks  bool // a look is due
	closed bool
	_      [64]byte // cores share no line
}

// NewCrew makes a crew of so many shards; connections of one shard share a lock.
func NewCrew(shards int) *Crew {
	c := &Crew{shards: make([]crewShard, max(1, shards))}
	for i := range c.shards {
		c.shards[i].spare = make([]*member, 0, crewSpare) // to grow it takes a stack
	}
	return c
}

// Close lets all go that wait for work, and the others when they are done.
func (c *Crew) Close() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		s.closed = true
		spare := s.spare
		s.spare, s.fewest = nil, 0
		s.mu.Unlock()
		dismiss(spare)
	}
}

func (c *Crew) shard(n int) *crewShard { return &c.shards[uint(n)%uint(len(c.shards))] }

// take gives a member to a watch.
func (s *crewShard) take(w *watch) *member {
	m := s.pop()
	if m == nil {
		m = newMember()
	}
	m.watch = w
	return m
}

func (s *crewShard) pop() *member {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.spare) - 1
	if last < 0 {
		return nil
	}
	m := s.spare[last]
	s.spare[last] = nil
	s.spare = s.spare[:last]
	s.fewest = min(s.fewest, last)
	return m
}

// put takes a member back.
func (s *crewShard) put(m *member) {
	m.watch = nil
	if !s.keep(m) {
		m.stop()
	}
}

// keep reports whether a member waits for work from now on.
func (s *crewShard) keep(m *member) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.spare) == crewSpare {
		return false
	}
	s.spare = append(s.spare, m)
	if !s.looks {
		s.looks = true
		time.AfterFunc(crewLook, s.look)
	}
	return true
}

// look lets those go that were not needed since the last look, and looks again
// while there are others.
func (s *crewShard) look() {
	s.mu.Lock()
	idle := slices.Clone(s.spare[:min(s.fewest, len(s.spare))])
	s.spare = slices.Delete(s.spare, 0, len(idle))
	s.fewest = len(s.spare)
	if s.looks = len(s.spare) > 0; s.looks {
		time.AfterFunc(crewLook, s.look)
	}
	s.mu.Unlock()
	dismiss(idle)
}

func dismiss(idle []*member) {
	for _, m := range idle {
		m.stop()
	}
}

// signal is what a member wants when it switches back.
type signal int

const (
	pause  signal = iota // wake me when there is something to read
	rest                 // all is served: somebody else will be called for what comes
	left                 // others will read: leave the descriptor to them
	finish               // the connection is over
)

// member is one coroutine.
type member struct {
	resume func() (signal, bool)
	stop   func()
	yield  func(signal) bool // of the coroutine
	watch  *watch            // what it serves
}

func newMember() *member {
	m := new(member)
	m.resume, m.stop = iter.Pull(m.run)
	return m
}

// run serves one watch after the other.
func (m *member) run(yield func(signal) bool) {
	m.yield = yield
	for yield(m.watch.serve()) {
	}
}
