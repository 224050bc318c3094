package telemetry

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

const (
	maxTaps  = 32
	tapQueue = 256 // requests that a reader may lag behind
)

// ErrTooManyTaps says that no more subscriptions are taken.
var ErrTooManyTaps = errors.New("too many taps are open")

// ErrTapSlow is why a reader was cut off that did not keep up.
var ErrTapSlow = errors.New("reader too slow: its queue of requests was full")

// Tap is a subscription to the requests as they end.
type Tap struct {
	// C yields the requests; it is closed when the subscription ends, and Err
	// then says why.
	C <-chan Recent

	filter func(*Recent) bool
	stop   func() bool // of the context
	taps   *taps

	mu     sync.Mutex
	queue  chan Recent
	closed bool
	err    error
}

// Tap subscribes to the requests that the filter lets pass (nil: all) until the
// context ends. A reader that lags by more than tapQueue requests is cut off.
// The filter runs where the request ran, so it must be quick and must not keep
// its argument.
func (r *Recorder) Tap(ctx context.Context, filter func(*Recent) bool) (*Tap, error) {
	queue := make(chan Recent, tapQueue)
	t := &Tap{C: queue, queue: queue, filter: filter, taps: &r.ring.taps}
	if err := r.ring.taps.add(t); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { t.end(context.Cause(ctx)) })
	t.mu.Lock()
	t.stop = stop
	closed := t.closed
	t.mu.Unlock()
	if closed {
		stop()
	}
	return t, nil
}

// Err is why the subscription ended: ErrTapSlow, ErrShutdown or the cause of the
// context; nil while it lasts.
func (t *Tap) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// end closes the subscription.
func (t *Tap) end(err error) {
	t.taps.remove(t)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.closed, t.err = true, err
	close(t.queue)
	if t.stop != nil {
		t.stop()
	}
}

// offer queues a request; false says that the queue was full.
func (t *Tap) offer(r Recent) bool {
	if t.filter != nil && !t.filter(&r) {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return true
	}
	select {
	case t.queue <- r:
		return true
	default:
		return false
	}
}

// tapList is replaced, never changed.
type tapList []*Tap

func (l *tapList) send(r Recent) {
	for _, t := range *l {
		if !t.offer(r) {
			t.taps.cut.Add(1)
			t.end(ErrTapSlow)
		}
	}
}

// taps are the open subscriptions.
type taps struct {
	list atomic.Pointer[tapList] // nil: none
	cut  atomic.Uint64           // readers cut off

	mu     sync.Mutex
	closed bool
}

func (s *taps) add(t *Tap) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrShutdown
	}
	var list tapList
	if old := s.list.Load(); old != nil {
		list = *old
	}
	if len(list) >= maxTaps {
		return ErrTooManyTaps
	}
	list = append(slices.Clone(list), t)
	s.list.Store(&list)
	return nil
}

func (s *taps) remove(t *Tap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.list.Load()
	if old == nil {
		return
	}
	list := slices.DeleteFunc(slices.Clone(*old), func(other *Tap) bool { return other == t })
	if len(list) == 0 {
		s.list.Store(nil)
		return
	}
	s.list.Store(&list)
}

// close ends all subscriptions and takes no more.
func (s *taps) close() {
	s.mu.Lock()
	s.closed = true
	list := s.list.Load()
	s.mu.Unlock()
	if list == nil {
		return
	}
	for _, t := range *list {
		t.end(ErrShutdown)
	}
}
