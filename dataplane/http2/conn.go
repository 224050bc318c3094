package http2

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dataplane/socket"
)

// conn is one connection, of either side.
type conn struct {
	sock      *socket.Conn
	o         Options
	client    bool
	handle    func(*Stream) // of a server
	flushFunc func()
	settled   chan struct{} // closed when the peer's first settings were read
	done      chan struct{} // closed when nothing of the connection runs any more

	// Owned by the reading goroutine.
	decoder   *decoder
	block     block
	data      incoming
	whole     Awaiter // of the answer that the last frame made whole; nil: none
	now       int64   // when the frames that are being handled were read
	greeted   bool    // the preface of the peer is complete, its SETTINGS too
	prefaced  bool    // the fixed bytes of a client's preface were read
	waitSince int64   // since when an incomplete head or frame waits for its rest, or 0
	want      int     // how much to read at once
	nuisance  budget
	resets    budget // also with mu held

	framesSent atomic.Int64 // with content, since the peer was last credited for them

	mu sync.Mutex
	// guarded by mu

	// What is written.
	out       []byte // frames in order; nil while there are none
	flushing  bool
	onFlushed chan struct{} // closed when the flusher has ended, if not nil
	encoder   *encoder
	blocked   []*Stream // that wait for room in out or in the connection's window, in order

	// Streams.
	streams streams
	opened  int // streams of a client that have no number yet
	lastID  uint32
	nextID  uint32 // of a client
	closed  closedStreams
	lent    int       // streams that somebody has
	ready   []*Stream // requests that nobody has taken yet; from readyAt on
	readyAt int

	// Answers that are awaited.
	answered    []*Stream // whose awaiters are to be told, and nil for those who were
	lookAt      int64     // when a deadline of one may have passed
	asleepUntil int64     // when the reading goroutine wakes at the latest; 0: it does not sleep
	watches     int       // how often it sleeps for a short time yet
	spare       []*Stream
	heads       []*head // empty

	// Flow control.
	sendWindow int64 // bytes that we may send
	recvWindow int64 // bytes that the peer may send
	recvOwed   int   // bytes that came and that the peer has no credit for yet
	grown      int   // by which the windows of all streams exceed StreamWindow
	trip       trip

	// What the peer has set.
	peerWindow   int64
	peerFrame    int
	peerStreams  int64
	peerExtended bool
	settingsOwed int // SETTINGS of ours that were not acknowledged
	settingsSent int64
	pingSent     int64 // of the keepalive, 0: none
	lastRead     int64
	idleSince    int64
	goAwaySent   bool  // the final one
	draining     int64 // since when, 0: not
	peerGoAway   bool
	peerLast     uint32
	peerSaid     error // why the peer goes away, if it said so
	ended        bool
	endErr       error
	workers      []*worker // that have nothing to do
	dispatching  bool      // a worker takes what is ready
	running      int       // requests that are handled, or are to be
	staff        int       // workers, whether they have something to do or not
	staffGone    *sync.Cond
}

func (c *conn) init(sock *socket.Conn, o Options, client bool) {
	c.sock, c.o, c.client = sock, o.resolve(), client
	c.now = socket.Now()
	c.flushFunc = c.flush
	c.settled, c.done = make(chan struct{}), make(chan struct{})
	c.decoder = newDecoder(&c.o)
	c.nuisance = newBudget(c.now, nuisanceFull, nuisancePerSecond)
	c.resets = newBudget(c.now, c.o.MaxResets, resetsPerSecond)
	c.encoder = newEncoder()
	c.nextID = 1
	c.sendWindow, c.peerWindow = initialWindow, initialWindow
	c.recvWindow = int64(c.o.ConnWindow)
	c.peerFrame, c.peerStreams = maxFrameBytes, assumedStreams
	c.lastRead, c.idleSince = c.now, c.now
	c.lookAt = never
	c.staffGone = sync.NewCond(&c.mu)
	c.greet()
}

const (
	// initialWindow is what a window is before anything was said (RFC 9113
	// section 6.9.2).
	initialWindow = 65535
	// assumedStreams is how many streams a client opens before it knows how many
	// it may (section 6.5.2).
	assumedStreams = 100
)

// greet says what we set. It is the first that is written.
func (c *conn) greet() {
	o := &c.o
	if c.client {
		c.append([]byte(preface))
	}
	list := make([]setting, 0, 8)
	if c.client {
		list = append(list, setting{settingEnablePush, 0})
	} else {
		list = append(list, setting{settingMaxStreams, uint32(o.MaxConcurrentStreams)})
		if o.ExtendedConnect {
			list = append(list, setting{settingExtendedConnect, 1})
		}
	}
	list = append(list,
		setting{settingWindow, uint32(o.StreamWindow)},
		setting{settingHeaderBytes, uint32(o.MaxHeaderBytes)})
	c.reserve(256)
	c.out = appendSettings(c.out, list...)
	if more := o.ConnWindow - initialWindow; more > 0 {
		c.out = appendWindowUpdate(c.out, 0, more)
	}
	c.settingsOwed = 1
}

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// run reads until the connection ends, and takes it down.
func (c *conn) run() error {
	c.mu.Lock()
	c.settingsSent = socket.Now()
	c.kick()
	c.mu.Unlock()
	err := c.read()
	return c.takeDown(err)
}

// end has the reading goroutine take the connection down. mu is held.
func (c *conn) end(err error) {
	if c.ended {
		return
	}
	c.ended, c.endErr = true, err
	c.sock.Interrupt()
}

// takeDown ends everything and waits for it. The error is nil if the connection
// ended as it was meant to.
func (c *conn) takeDown(err error) error {
	c.mu.Lock()
	if c.ended {
		err = c.endErr // what comes of that is not the reason
	}
	c.ended, c.endErr = true, err
	leaves := c.streams.len()+c.opened == 0 && errors.Is(err, io.EOF) // as a peer may that wants nothing more
	polite := c.sayGoodbye(err)
	c.mu.Unlock()
	c.failStreams(err)
	c.tellAwaiters()
	c.dismiss()
	wait := c.o.Linger
	if err == nil {
		wait = c.o.WriteTimeout
	}
	if c.awaitFlush(wait) && polite && c.sock.CloseWrite() == nil {
		c.linger()
	}
	_ = c.sock.Close()
	c.awaitFlush(0)
	c.awaitStaff()
	c.release()
	close(c.done)
	if leaves {
		return nil
	}
	return err
}

// sayGoodbye appends a GOAWAY, if there is somebody to read it. mu is held.
func (c *conn) sayGoodbye(err error) bool {
	if fault, ok := errors.AsType[*ConnError](err); ok {
		switch {
		case fault.Err != nil:
			return false
		case !fault.Remote:
			c.countEnd(fault.Code)
			c.goAway(fault.Code, fault.Reason)
			return true
		}
	}
	if !c.goAwaySent {
		c.goAway(NoError, "")
	}
	return true
}

func (c *conn) countEnd(code ErrCode) {
	if code == EnhanceYourCalm {
		c.o.Counters.Abused.Add(1)
	} else {
		c.o.Counters.Broken.Add(1)
	}
}

// goAway appends the final GOAWAY. mu is held.
func (c *conn) goAway(code ErrCode, reason string) {
	c.goAwaySent = true
	c.reserve(64 + len(reason))
	last := c.lastID
	if c.client {
		last = 0
	}
	c.out = appendGoAway(c.out, last, code, reason)
	c.kick()
}

// failStreams ends every stream that is left. They were cut off, in however
// orderly a way the connection ended: io.EOF, which is the end of a whole body,
// is not to be found in their errors.
func (c *conn) failStreams(err error) {
	switch {
	case err == nil:
		err = ErrClosed
	case errors.Is(err, io.EOF):
		err = &ConnError{Code: ConnectError, Reason: "connection lost", Err: io.ErrUnexpectedEOF}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.blocked {
		s.writer.wake() // it may have no number yet
	}
	for c.streams.len() > 0 {
		for s := range c.streams.all() {
			c.fail(s, err)
			break // the lock was released meanwhile
		}
	}
}

// awaitFlush waits until the flusher has ended; 0 is for ever.
func (c *conn) awaitFlush(limit time.Duration) bool {
	c.mu.Lock()
	if !c.flushing {
		c.mu.Unlock()
		return true
	}
	if c.onFlushed == nil {
		c.onFlushed = make(chan struct{})
	}
	flushed := c.onFlushed
	c.mu.Unlock()
	if limit == 0 {
		<-flushed
		return true
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-flushed:
		return true
	case <-timer.C:
		return false
	}
}

// lingerBytes is how much of what the peer still sends is read for the sake of
// what it has not read yet.
const lingerBytes = 1 << 20

// linger reads what still comes: closing at once would reset the connection and
// lose what the peer has not read (RFC 9112 section 9.6 says it of HTTP/1.1).
func (c *conn) linger() {
	c.sock.Resume()
	deadline := socket.Now() + int64(c.o.Linger)
	for dropped := 0; dropped < lingerBytes; {
		dropped += len(c.sock.Buffered())
		c.sock.Consume(len(c.sock.Buffered()))
		if c.sock.Fill(0, deadline) != nil {
			return
		}
	}
}

// release lets go of what the connection holds.
func (c *conn) release() {
	c.sock.Discard()
	putHead(c.block.head)
	c.block.head = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spare {
		s.discard()
	}
	c.spare = nil
	c.dropHeads()
	socket.PutBuffer(c.out)
	c.out = nil
}

// closedStreams remembers the streams that were closed last, and which of them
// we reset: what the peer sent before it knew is to be passed over (RFC 9113
// section 5.1).
type closedStreams struct {
	ring [256]uint32 // id<<1, and 1 if we reset it
	next uint8
}

func (r *closedStreams) add(id uint32, ours bool) {
	mark := id << 1
	if ours {
		mark |= 1
	}
	r.ring[r.next] = mark
	r.next++
}

// find reports whether a stream is remembered, and whether we reset it.
func (r *closedStreams) find(id uint32) (known, ours bool) {
	for _, mark := range r.ring {
		if mark>>1 == id {
			return true, mark&1 != 0
		}
	}
	return false, false
}
