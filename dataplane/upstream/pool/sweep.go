package pool

import (
	"slices"
	"time"

	"github.com/headgate/headgate/dataplane/socket"
)

// A connection that was used less than this before is not peeked at: it is in
// rotation, and who takes it next finds out at once.
const rested = int64(time.Second)

// Sweep closes the idle connections that are too old, and those that the peer
// has closed or has sent something on that nobody asked for.
func (p *Pool) Sweep(now int64) {
	oldest := now - p.group.keepAlive.Load()
	p.clear(func(c *Conn) bool {
		return c.since <= oldest || c.since <= now-rested && c.Peek() != socket.Quiet
	})
}

// clear takes the idle connections out that bad holds for, and closes them.
func (p *Pool) clear(bad func(*Conn) bool) {
	shards := p.shards.Load()
	if shards == nil {
		return
	}
	for i := range *shards {
		for _, c := range (*shards)[i].remove(bad) {
			p.drop(c)
		}
	}
}

// batch is how many connections are looked at while a shard is locked: each
// look may be a system call.
const batch = 16

// remove takes out of the shard what bad holds for. It goes from the youngest
// down, so that what is released meanwhile does not move what is left to see.
func (s *shard) remove(bad func(*Conn) bool) (removed []*Conn) {
	if s.n.Load() == 0 {
		return nil
	}
	for end := -1; end != 0; {
		removed, end = s.removeBelow(end, bad, removed)
	}
	return removed
}

// removeBelow looks at up to batch connections below end, or below the top if
// end is negative, and returns where to go on.
func (s *shard) removeBelow(end int, bad func(*Conn) bool, removed []*Conn) ([]*Conn, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if end < 0 || end > len(s.idle) {
		end = len(s.idle)
	}
	start := max(0, end-batch)
	kept := slices.DeleteFunc(s.idle[start:end], func(c *Conn) bool {
		if bad(c) {
			removed = append(removed, c)
			return true
		}
		return false
	})
	s.idle = slices.Delete(s.idle, start+len(kept), end)
	s.n.Store(int32(len(s.idle)))
	return removed, start
}

// popOldest takes the connection that has been idle longest.
func (s *shard) popOldest() *Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) == 0 {
		return nil
	}
	c := s.idle[0]
	s.idle = slices.Delete(s.idle, 0, 1)
	s.n.Store(int32(len(s.idle)))
	return c
}

// evict takes an idle connection out of the pool, one of those that have been
// idle longest in their shard.
func (p *Pool) evict() *Conn {
	shards := p.shards.Load()
	if shards == nil {
		return nil
	}
	for i := range *shards {
		s := &(*shards)[i]
		if s.n.Load() == 0 {
			continue
		}
		if c := s.popOldest(); c != nil {
			return c
		}
	}
	return nil
}
