package http2

import (
	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
)

// An answer can be awaited without a goroutine that waits: the reading goroutine
// says when it has come, after it has handled what else came with it.

// Awaiter is told of an answer.
type Awaiter interface {
	// Answered is called once, when there is something to read of the answer, when
	// the stream has failed or was reset, or when the deadline has passed. whole
	// says that all of the answer is there, so that Answer gives it. The call is made
	// by the reading goroutine, or by who calls Reset, and must not keep it waiting:
	// many streams depend on it. now is the time, of socket.Now: when that goroutine
	// read what it tells of.
	Answered(whole bool, now int64)
}

// Await has a told of the answer, and reports true: the stream is not to be
// touched by the caller then, but for Reset. It reports false if there is something
// to read already, or if a deadline, a time of socket.Now or 0 for none, is too
// close to be seen to: then a is not told of anything.
func (s *Stream) Await(a Awaiter, deadline int64) bool {
	c := s.c
	if deadline == 0 {
		deadline = never
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watches = watchRounds
	if s.err != nil || s.recvEnd || len(s.heads) > 0 || s.interrupted || c.ended || deadline < c.asleepUntil {
		return false
	}
	s.awaiter, s.awaitUntil = a, deadline
	c.lookAt = min(c.lookAt, deadline)
	return true
}

// notify tells who reads the stream, or awaits its answer, that something has
// happened to it. mu is held.
func (s *Stream) notify() {
	switch {
	case s.awaiter == nil:
		s.reader.wake()
	case s.isWhole():
		s.c.whole = s.awaiter
		s.told()
	default:
		s.answer()
	}
}

// isWhole reports whether all of the answer has come, and nothing but a final head
// is to be read before its body. mu is held.
func (s *Stream) isWhole() bool { return s.recvEnd && len(s.heads) == 1 && s.err == nil }

// told takes the awaiter off, who is about to be told. mu is held.
func (s *Stream) told() {
	s.awaiter = nil
	if s.answered {
		s.answered = false
		s.c.answered[s.answeredAt] = nil
		if s.answeredAt == len(s.c.answered)-1 {
			s.c.answered = s.c.answered[:s.answeredAt]
		}
	}
}

// tellWhole tells the awaiter of the answer whose last frame has just been handled,
// if there is one: before the next frame, while all of it is in the caches of the
// processor.
func (c *conn) tellWhole() {
	if a := c.whole; a != nil {
		c.whole = nil
		a.Answered(true, c.now)
	}
}

// desert is who awaits an answer that will not come, and is not told of it
// otherwise; nil: nobody. mu is held.
func (s *Stream) desert() Awaiter {
	a := s.awaiter
	if s.answered {
		return nil
	}
	s.awaiter = nil
	return a
}

// answer puts the stream among those whose awaiters are told next. mu is held.
func (s *Stream) answer() {
	if !s.answered {
		s.answered, s.answeredAt = true, len(s.c.answered)
		s.c.answered = append(s.c.answered, s)
	}
}

// tellAwaiters tells those whose answers have come.
func (c *conn) tellAwaiters() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now >= c.lookAt {
		c.findLate()
	}
	for told := 0; told < len(c.answered); told++ { //nolint:intrange // there may be more by then
		s := c.answered[told]
		if s == nil {
			continue
		}
		a, whole := s.awaiter, s.isWhole()
		s.awaiter, s.answered = nil, false
		c.mu.Unlock()
		a.Answered(whole, c.now)
		c.mu.Lock()
	}
	clear(c.answered)
	c.answered = c.answered[:0]
}

// findLate looks for streams whose deadline has passed, and when to look next. mu
// is held.
func (c *conn) findLate() {
	c.lookAt = never
	for s := range c.streams.all() {
		switch {
		case s.awaiter == nil:
		case s.awaitUntil <= c.now:
			s.answer()
		default:
			c.lookAt = min(c.lookAt, s.awaitUntil)
		}
	}
}

// watchEvery is how long the reading goroutine sleeps at most, in nanoseconds,
// while answers are awaited: deadlines that are closer are left to who has them.
// It does so for watchRounds more after the last of them.
const (
	watchEvery  = 20_000_000
	watchRounds = 50
)

// sleepUntil notes until when the reading goroutine sleeps if nothing comes. mu
// is held.
func (c *conn) sleepUntil(deadline int64) int64 {
	deadline = min(deadline, c.lookAt)
	if c.watches > 0 {
		c.watches--
		deadline = min(deadline, c.now+watchEvery)
	}
	c.asleepUntil = deadline
	return deadline
}

// awake notes that the reading goroutine will look at deadlines before it sleeps
// again.
func (c *conn) awake() {
	c.now = socket.Now()
	c.mu.Lock()
	c.asleepUntil = 0
	c.mu.Unlock()
}

// Answer is an answer that has come whole, and of which nothing was read: as
// ReadHead and Whole give it. ok is that of Whole; the head is nil if there is none.
func (s *Stream) Answer() (head *message.Response, body []byte, trailers *message.Fields, ok bool) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.isWhole() {
		return nil, nil, nil, false
	}
	head = s.nextHead()
	body, trailers, ok = s.whole()
	return head, body, trailers, ok
}

// Whole is the body and the trailers of a message that has come whole, and whose
// head was read. It reports false if it has not, or if the body is in pieces. The
// bytes are valid until the stream is finished.
func (s *Stream) Whole() (body []byte, trailers *message.Fields, ok bool) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.whole()
}

func (s *Stream) whole() (body []byte, trailers *message.Fields, ok bool) {
	if !s.recvEnd || s.err != nil || len(s.heads) > 0 || len(s.queue) > 1 || len(s.in) > s.r {
		return nil, nil, false
	}
	if len(s.queue) == 1 {
		_ = s.take()
	}
	trailers = &noFields
	if s.trailer != nil {
		trailers = &s.trailer.fields
	}
	return s.in[s.r:], trailers, true
}
