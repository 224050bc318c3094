package socket

import (
	"sync/atomic"
	"time"
)

// patience is how a loop waits when nothing has come. To rest by the runtime's poller
// costs four calls into the kernel and a way through the scheduler: a tenth of what a
// small request costs, if the next comes soon. So a loop to which something comes
// every few microseconds waits for it in its own poller and keeps its processor.
// Goroutines that could run there have to wait meanwhile: for patientMost, as they
// would if the loop were busy, or once for patientFor when all of a sudden nothing
// comes any more. A collection does not: its signal ends the wait.
//
// The times are in nanoseconds, and now is one of Now.
type patience struct {
	pace    int64 // for how long nothing comes: an average
	resting int64 // since when the loop rests by the runtime's poller; 0: it does not, or has work
	waited  int64 // in the loop's poller, since the last rest
	before  int64 // a time until which it rests at once
	pause   int64 // how long that was, when it had waited in vain
	over    bool  // it rests next
}

const (
	// patientFor is in milliseconds. An alarm that comes after the next tick of the
	// kernel's clock costs little.
	patientFor    = 5
	patientPace   = int64(100 * time.Microsecond)
	patientMost   = int64(200 * time.Microsecond)
	patientSeldom = int64(50 * time.Millisecond) // after a goroutine has waited for a socket
	pauseLeast    = int64(100 * time.Millisecond)
	pauseMost     = int64(2 * time.Second)
)

// stirring is set when a goroutine waits for a socket: where a loop keeps its processor
// it, and those whom it will wake, may have to wait for longer.
var stirring struct {
	_   [64]byte
	yes atomic.Bool
	_   [63]byte
}

func stir() {
	if !stirring.yes.Load() {
		stirring.yes.Store(true)
	}
}

// wake ends a rest.
func (p *patience) wake(now int64) {
	if p.resting != 0 {
		p.note(now - p.resting)
	}
	p.resting, p.waited, p.over = 0, 0, false
}

// rest begins a rest for want of work.
func (p *patience) rest(now int64) { p.resting = now }

// note learns for how long nothing came.
func (p *patience) note(rest int64) { p.pace += (min(rest, 4*patientPace) - p.pace) / 8 }

// left reports whether to wait.
func (p *patience) left(now int64) bool {
	switch {
	case p.over || p.pace > patientPace || p.waited > patientMost || now < p.before:
		return false
	case stirring.yes.Load():
		stirring.yes.Store(false)
		p.before = now + patientSeldom
		return false
	}
	return true
}

// vain notes that nothing came while it waited: it will not for a while, for longer
// each time.
func (p *patience) vain(now int64) {
	if now-p.before > 2*p.pause {
		p.pause = 0
	}
	p.pause = min(max(2*p.pause, pauseLeast), pauseMost)
	p.before, p.over = now+p.pause, true
}

// wait is pollNow that waits, if there is patience left. It returns 0 if there is
// none, or no more.
func (l *Loop) wait() int {
	p, now := &l.patience, Now()
	if !p.left(now) {
		return 0
	}
	n := pollFor(l.fd, l.events[:], patientFor)
	p.learn(n, now, Now())
	return n
}

// learn notes how a wait ended, with n events.
func (p *patience) learn(n int, began, now int64) {
	p.waited += now - began
	switch {
	case n > 0:
		p.note(now - began)
	case now-began < patientFor*int64(time.Millisecond):
		p.over = true // by a signal: the runtime wants the processor, which says nothing of what comes
	default:
		p.vain(now)
	}
}
