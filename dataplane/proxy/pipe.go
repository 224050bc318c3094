package proxy

import (
	"io"
	"os"
	"sync"
	"time"

	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
)

// pipeBytes bounds what a pipe holds that nobody has begun to read.
const pipeBytes = 64 << 10

// A pipe hands the body of a request on to a mirror while it is sent to the
// upstream. Who writes never waits: what the mirror is too slow for cuts it off.
type pipe struct {
	ready chan struct{} // holds one when there is something new

	mu sync.Mutex
	// guarded by mu
	waiting     []byte // written, not taken
	left        int64  // bytes that are not written yet; below 0: not known
	ended       bool   // nothing follows
	broken      bool   // what follows is lost
	overflowed  bool   // because the reader was too slow
	interrupted bool

	// Owned by the reader.
	taken []byte // taken[r:] is unread
	r     int
}

// newPipe makes a pipe for a body. One whose length is known is whole when that is
// there, whenever its end is seen.
func newPipe(body message.Body) *pipe {
	p := &pipe{ready: make(chan struct{}, 1), left: -1}
	if body.Kind == message.BodyLength {
		p.left = body.Length
	}
	return p
}

// put writes a piece of the body. A nil pipe takes nothing.
func (p *pipe) put(data []byte) {
	if p == nil || len(data) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.broken:
		return
	case len(p.waiting)+len(data) > pipeBytes:
		p.broken, p.overflowed, p.waiting = true, true, nil
	default:
		p.waiting = append(p.waiting, data...)
		p.left -= int64(len(data))
		p.ended = p.ended || p.left == 0
	}
	p.wake()
}

// end says that the body is whole.
func (p *pipe) end() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.wake()
}

// abandon says that nothing follows, though the body may not be whole.
func (p *pipe) abandon() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.broken = true
	}
	p.wake()
}

// tooSlow reports whether the reader was cut off because it was too slow.
func (p *pipe) tooSlow() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.overflowed
}

// wake tells the reader. mu is held.
func (p *pipe) wake() {
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

// Buffered is what was taken and not consumed.
func (p *pipe) Buffered() []byte { return p.taken[p.r:] }

// Consume drops the first n bytes of Buffered.
func (p *pipe) Consume(n int) { p.r += n }

// Fill waits for more, once all is consumed. The error is io.EOF at the end,
// io.ErrUnexpectedEOF where the rest is lost.
func (p *pipe) Fill(_ int, deadline int64) error {
	var late <-chan time.Time
	if deadline != 0 {
		timer := time.NewTimer(time.Duration(deadline - socket.Now()))
		defer timer.Stop()
		late = timer.C
	}
	for {
		if done, err := p.take(); done {
			return err
		}
		select {
		case <-p.ready:
		case <-late:
			return os.ErrDeadlineExceeded
		}
	}
}

// take takes what waits. done is false if there is nothing yet.
func (p *pipe) take() (done bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.interrupted:
		return true, socket.ErrInterrupted
	case p.broken:
		return true, io.ErrUnexpectedEOF
	case len(p.waiting) > 0:
		p.taken, p.waiting, p.r = p.waiting, p.taken[:0], 0
		return true, nil
	case p.ended:
		return true, io.EOF
	}
	return false, nil
}

// Interrupt ends the wait and those that follow, until Resume.
func (p *pipe) Interrupt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.interrupted = true
	p.wake()
}

// Resume lets reads go on after an Interrupt.
func (p *pipe) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.interrupted = false
}
