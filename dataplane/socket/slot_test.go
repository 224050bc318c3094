package socket

import (
	"runtime"
	"testing"
	"time"
)

// TestSlot keeps an event for the next, one of them, and takes out who waits once.
func TestSlot(t *testing.T) {
	var s slot
	w := &waiter{bell: make(chan struct{}, 1)}
	if !s.await(w) {
		t.Error("an event has come to a new slot")
	}
	if !s.leave(w) || s.leave(w) {
		t.Error("left not once")
	}
	if got := s.happen(); got != nil {
		t.Errorf("%v waited", got)
	}
	s.happen()
	if s.await(w) {
		t.Error("the event was not kept")
	}
	if !s.await(w) {
		t.Error("two events were kept")
	}
	if got := s.happen(); got != w || s.leave(w) {
		t.Errorf("%v waited", got)
	}
	if got := s.happen(); got != nil {
		t.Errorf("%v waited when it was taken out", got)
	}
}

// TestSlotLosesNothing: who waits is woken, however the event and the wait meet.
func TestSlotLosesNothing(t *testing.T) {
	var s slot
	w := &waiter{bell: make(chan struct{}, 1)}
	next := make(chan struct{})
	go func() {
		for range next {
			runtime.Gosched()
			s.wake()
		}
	}()
	defer close(next)
	for i := range 10_000 {
		next <- struct{}{}
		if s.await(w) && !s.ringsBefore(w, minute()) {
			t.Fatalf("event %d was lost", i)
		}
	}
}

// TestSlotLimit ends a wait for what does not come, and leaves nobody in the slot; an
// event that comes at the same time is no deadline.
func TestSlotLimit(t *testing.T) {
	var s slot
	w := &waiter{bell: make(chan struct{}, 1)}
	for range 3 {
		if !s.await(w) {
			t.Fatal("an event has come")
		}
		if limit := Now() + int64(time.Millisecond); s.ringsBefore(w, limit) || Now() < limit {
			t.Error("the wait has ended before")
		}
		if s.who.Load() != nil {
			t.Error("it waits still")
		}
	}
	s.await(w)
	s.wake()
	if !s.ringsBefore(w, Now()-1) {
		t.Error("the event was lost to a deadline")
	}
}
