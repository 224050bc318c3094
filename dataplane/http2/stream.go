package http2

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
)

// Stream is one request and its response. One goroutine uses the methods that
// read and one those that write; they may be the same. Gone, Err and Reset may be
// called by any goroutine until the stream is finished: on a server when its
// handler returns, on a client by Finish.
//
// Nothing that a stream returned, heads and bytes among it, may be used after it
// is finished.
//
// What each stream needs stands together, and what few do behind it: with hundreds of
// streams open, a line of the cache that is not touched is one that is not missed.
type Stream struct {
	c    *conn
	room []byte // for the first bytes of a body
	gone atomic.Bool

	// guarded by c.mu
	roomUsed    bool
	headRead    bool // the final head has come
	recvEnd     bool
	sentHead    bool
	sentEnd     bool
	listed      bool // counted among those that are open
	oursReset   bool // ended by us before its end
	hooking     bool
	interrupted bool
	queued      bool   // in c.blocked
	turn        bool   // woken out of it, and has not had its part yet
	detached    bool   // see Detach
	answered    bool   // in c.answered
	id          uint32 // 0 on a client until its head is written
	method      message.Method

	// Owned by the reader.
	in       []byte // in[r:] is unread
	r        int
	consumed int // bytes consumed and not told yet
	owedAt   int // how much of that is worth telling

	// guarded by c.mu
	head     *head // of request
	trailer  *head
	fault    *Fault
	heads    []*head  // of a response, not read yet
	queue    [][]byte // bytes that the reader has not taken
	bodyLeft int64    // bytes of DATA to come, -1: not known
	err      error    // why it ended before its end
	hook     func()

	sendWindow int64
	recvWindow int64
	window     int // what recvWindow is when nothing is consumed
	owed       int // consumed, and not credited yet
	epochStart int64
	epochBytes int

	behalf *Stream   // of a client: the server's stream whose handler uses it, until it waits
	worker *worker   // of a server: the one that handles it
	next   Continuer // what a worker goes on with
	readAt int64     // of a server: when the head was read

	awaiter    Awaiter // of a client: who is to be told of the answer
	awaitUntil int64
	answeredAt int // where it is in c.answered

	current  *head            // of response; owned by the reader, as that is
	response message.Response // on a client
	request  message.Request  // on a server

	// What those use that wait.
	reader waiter
	writer waiter
	timer  *time.Timer
	armed  int64 // when timer fires, 0: it does not
}

// roomBytes holds the body of a small message without a buffer.
const roomBytes = 1 << 10

// newStream is a stream for use, one that was used before if there is one. mu is
// held.
func (c *conn) newStream() *Stream {
	c.lent++
	if n := len(c.spare); n > 0 {
		s := c.spare[n-1]
		c.spare[n-1] = nil
		c.spare = c.spare[:n-1]
		return s
	}
	s := &Stream{c: c, room: make([]byte, 0, roomBytes)}
	s.reader.ready = make(chan struct{}, 1)
	s.writer.ready = make(chan struct{}, 1)
	return s
}

// open gives a stream its number and its windows. mu is held.
func (s *Stream) open(id uint32, sendWindow int64) {
	s.id, s.listed = id, true
	s.sendWindow = sendWindow
	s.window = s.c.o.StreamWindow
	s.recvWindow = int64(s.window)
	s.owedAt = s.window / 2
	s.bodyLeft = -1
}

// waiter is one goroutine that waits for its stream.
type waiter struct {
	waiting bool
	ready   chan struct{}
}

// wake ends the wait, if there is one; who waited looks again at what it waited
// for. mu is held.
func (w *waiter) wake() {
	if w.waiting {
		w.waiting = false
		w.ready <- struct{}{}
	}
}

// wait waits to be woken. It reports false if the deadline, 0 for none, has
// passed. mu is held, and released meanwhile.
func (s *Stream) wait(w *waiter, deadline int64) bool {
	if deadline != 0 {
		now := socket.Now()
		if now >= deadline {
			return false
		}
		s.arm(now, deadline)
	}
	if s.behalf != nil {
		return s.letOthers()
	}
	w.waiting = true
	s.yieldDuty()
	s.c.mu.Unlock()
	<-w.ready
	s.c.mu.Lock()
	return true
}

// arm makes the timer fire at a deadline or before. A later deadline leaves it as
// it is, and a stream keeps its timer for the requests that come after, so that
// most waits set none. mu is held.
func (s *Stream) arm(now, deadline int64) {
	if s.armed != 0 && s.armed <= deadline {
		return
	}
	s.armed = deadline
	if s.timer == nil {
		s.timer = time.AfterFunc(time.Duration(deadline-now), s.tick)
	} else {
		s.timer.Reset(time.Duration(deadline - now))
	}
}

func (s *Stream) tick() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.armed = 0
	s.reader.wake()
	s.writer.wake()
}

// discard lets go of a stream that is not used again. mu is held.
func (s *Stream) discard() {
	if s.timer != nil {
		s.timer.Stop()
	}
}

// Gone reports whether the peer has reset the stream, or the connection is lost.
// It costs nothing.
func (s *Stream) Gone() bool { return s.gone.Load() }

// Err is why the stream ended before its end, or nil: a *StreamError, a
// *ConnError or ErrClosed.
func (s *Stream) Err() error {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.err
}

// OnReset has a function called once when the peer resets the stream or the
// connection is lost, or now if that has been. It must not wait, nor finish the
// stream. OnReset(nil) takes it back: after that it does not run.
func (s *Stream) OnReset(hook func()) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	s.awaitHook()
	s.hook = hook
	if hook != nil && s.gone.Load() {
		c.runHook(s)
	}
}

// awaitHook waits until the hook is not running. mu is held, and released
// meanwhile.
func (s *Stream) awaitHook() {
	for s.hooking {
		s.c.mu.Unlock()
		runtime.Gosched()
		s.c.mu.Lock()
	}
}

// runHook runs the hook, once. mu is held, and released meanwhile: the hook may
// use another connection, whose hooks may use this one.
func (c *conn) runHook(s *Stream) {
	hook := s.hook
	if hook == nil {
		return
	}
	s.hook, s.hooking = nil, true
	c.mu.Unlock()
	hook()
	c.mu.Lock()
	s.hooking = false
}

// fail ends a stream before its end, and tells those who use it. What came of an
// answer can still be read, as it could be from a connection of HTTP/1; the rest of
// a request that was given up is of no use. mu is held, and released while the hook
// runs.
func (c *conn) fail(s *Stream, err error) {
	if s.err == nil {
		s.err = err
	}
	if !s.recvEnd && !c.client {
		s.dropQueue()
	}
	c.forget(s, s.oursReset)
	s.gone.Store(true)
	s.notify()
	s.writer.wake()
	c.runHook(s)
}

// Reset ends the stream at once, and tells the peer why, and who awaits an answer.
func (s *Stream) Reset(code ErrCode) {
	s.c.mu.Lock()
	s.resetLocked(code)
	s.reader.wake()
	s.writer.wake()
	a := s.desert()
	s.c.mu.Unlock()
	if a != nil {
		a.Answered(false, socket.Now())
	}
}

func (s *Stream) resetLocked(code ErrCode) {
	if s.err == nil {
		s.err = &StreamError{Stream: s.id, Code: code, Reason: "reset by us"}
	}
	c := s.c
	if !s.listed {
		return
	}
	if s.id != 0 && !c.ended {
		c.reserve(16)
		c.out = appendReset(c.out, s.id, code)
		c.kick()
	}
	if !s.recvEnd {
		s.dropQueue()
	}
	c.forget(s, true)
}

// forget takes a stream off those that are open. mu is held.
func (c *conn) forget(s *Stream, ours bool) {
	if !s.listed {
		return
	}
	s.listed = false
	full := c.full()
	c.grown -= s.window - c.o.StreamWindow
	if s.id == 0 {
		c.opened--
	} else {
		c.streams.remove(s)
		c.closed.add(s.id, ours)
	}
	c.tellRoom(full)
	if s.err == nil {
		c.resets.refund(1)
	}
	c.rest()
}

// rest notes that something ended. mu is held.
func (c *conn) rest() {
	if c.idle() {
		c.idleSince = socket.Now()
		c.endIfDrained()
	}
}

// endIfDrained ends a connection that is to take nothing more and has nothing
// left to do. mu is held.
func (c *conn) endIfDrained() {
	if (c.goAwaySent || c.peerGoAway) && c.idle() {
		c.end(c.peerSaid)
	}
}

// finish takes a stream back from its user, and ends it if it has not ended.
func (s *Stream) finish() {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	detached := s.detached
	s.finishLocked()
	if detached {
		c.running--
		c.rest()
		c.staffGone.Broadcast()
	}
}

// finishLocked is finish with mu held.
func (s *Stream) finishLocked() {
	c := s.c
	s.hook = nil
	s.awaitHook()
	if s.listed {
		s.resetLocked(s.leaving())
	}
	s.dropQueue()
	c.recycle(s)
}

// leaving is the code for a stream that its user leaves. The rest of a request
// that was answered is not wanted (RFC 9113 section 8.1).
func (s *Stream) leaving() ErrCode {
	switch {
	case s.sentEnd && !s.c.client:
		return NoError
	case s.c.client:
		return Cancel
	}
	return InternalError
}

// maxSpare is how many streams a connection keeps for use.
const maxSpare = 256

// recycle makes a finished stream ready for its next use. mu is held.
func (c *conn) recycle(s *Stream) {
	c.lent--
	socket.PutBuffer(s.in)
	c.putHead(s.head)
	c.putHead(s.trailer)
	c.putHead(s.current)
	for _, h := range s.heads {
		c.putHead(h)
	}
	clear(s.heads)
	s.in, s.r, s.consumed, s.owedAt = nil, 0, 0, 0
	if c.client {
		s.response, s.current = message.Response{}, nil
	} else {
		s.request = message.Request{}
	}
	s.id, s.head, s.trailer, s.fault, s.method = 0, nil, nil, nil, 0
	s.heads = s.heads[:0]
	s.roomUsed, s.headRead, s.recvEnd, s.sentHead, s.sentEnd = false, false, false, false, false
	s.err, s.oursReset = nil, false
	s.gone.Store(false)
	s.interrupted, s.queued, s.turn = false, false, false
	s.behalf, s.worker, s.next, s.detached = nil, nil, nil, false
	s.awaiter, s.answered = nil, false
	s.owed, s.epochStart, s.epochBytes = 0, 0, 0
	if c.ended || len(c.spare) >= maxSpare {
		s.discard()
		return
	}
	c.spare = append(c.spare, s)
}
