package socket

import (
	"sync"
	"sync/atomic"
	"time"
)

// slot is where one waits for an event. An event that nobody waits for is kept for
// the next who would.
type slot struct{ who atomic.Pointer[waiter] }

// waiter is a task of a loop, an awaiter, or a goroutine.
type waiter struct {
	task *watch
	call *call // of an awaiter; both nil: a goroutine

	// Of a goroutine.
	bell  chan struct{} // holds one
	timer *time.Timer   // nil until it is needed
}

// waiters are those of goroutines.
var waiters = sync.Pool{New: func() any { return &waiter{bell: make(chan struct{}, 1)} }}

// arrived stands for an event that nobody has waited for.
var arrived = new(waiter)

// await enters a waiter. It reports false if the event has come already.
func (s *slot) await(w *waiter) bool {
	for {
		if s.who.CompareAndSwap(nil, w) {
			return true
		}
		if s.who.CompareAndSwap(arrived, nil) {
			return false
		}
	}
}

// leave takes a waiter out. It reports false if the event has come meanwhile.
func (s *slot) leave(w *waiter) bool { return s.who.CompareAndSwap(w, nil) }

// happen takes out who waits for the event, or nil.
func (s *slot) happen() *waiter {
	for {
		switch w := s.who.Load(); {
		case w == arrived:
			return nil
		case w == nil:
			if s.who.CompareAndSwap(nil, arrived) {
				return nil
			}
		case s.who.CompareAndSwap(w, nil):
			return w
		}
	}
}

// wake has who waits look again, from any goroutine.
func (s *slot) wake() {
	switch w := s.happen(); {
	case w == nil:
	case w.task != nil:
		w.task.loop.call(w.task)
	case w.call != nil:
		w.call.take().Roused()
	default:
		w.ring()
	}
}

func (w *waiter) ring() {
	select {
	case w.bell <- struct{}{}:
	default:
	}
}

// ringsBefore waits until a waiter's bell rings, or limit.
func (s *slot) ringsBefore(w *waiter, limit int64) bool {
	if limit == 0 {
		<-w.bell
		return true
	}
	left := time.Duration(limit - Now())
	if w.timer == nil {
		w.timer = time.NewTimer(left)
	} else {
		w.timer.Reset(left)
	}
	defer w.timer.Stop()
	select {
	case <-w.bell:
		return true
	case <-w.timer.C:
	}
	if s.leave(w) {
		return false
	}
	<-w.bell
	return true
}
