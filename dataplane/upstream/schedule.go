package upstream

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/headgate/headgate/dataplane/socket"
)

// probeWorkers is how many probes run at one time. It also spreads the first
// probes of a large snapshot.
const probeWorkers = 128

// schedule knows when each endpoint is to be probed next and when its ejection
// ends. One goroutine waits for all of them; probes run on a bounded number of
// others.
type schedule struct {
	stopped context.Context
	probe   func(*Endpoint)
	wake    chan struct{} // one message: look again
	workers sync.WaitGroup

	mu sync.Mutex
	// guarded by mu
	probes  agenda
	returns agenda
	busy    int // workers that run
}

func newSchedule(stopped context.Context, probe func(*Endpoint)) *schedule {
	return &schedule{stopped: stopped, probe: probe, wake: make(chan struct{}, 1)}
}

// run works until stopped is done, and then waits for the workers.
func (s *schedule) run() {
	defer s.workers.Wait()
	clock := time.NewTimer(0)
	defer clock.Stop()
	for {
		select {
		case <-s.stopped.Done():
			return
		case <-s.wake:
		case <-clock.C:
		}
		clock.Reset(s.startDue(socket.Now()))
	}
}

// startDue does what is due and returns how long there is nothing to do.
func (s *schedule) startDue(now int64) time.Duration {
	back, wait := s.takeDue(now)
	for _, e := range back {
		e.group.comeBack(e, now)
	}
	return wait
}

func (s *schedule) takeDue(now int64) (back []*Endpoint, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.returns.due(now) {
		back = append(back, s.returns.next())
	}
	for s.busy < probeWorkers && s.probes.due(now) {
		e := s.probes.next()
		s.busy++
		s.workers.Go(func() {
			s.probe(e)
			s.finished()
		})
	}
	wait = s.returns.wait(now)
	if s.busy < probeWorkers {
		wait = min(wait, s.probes.wait(now))
	}
	return back, wait
}

func (s *schedule) finished() {
	s.mu.Lock()
	s.busy--
	s.mu.Unlock()
	s.look()
}

func (s *schedule) look() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// startAll has all of the endpoints probed as soon as there are workers.
func (s *schedule) startAll(endpoints []*Endpoint, now int64) {
	if len(endpoints) == 0 {
		return
	}
	s.mu.Lock()
	for _, e := range endpoints {
		s.probes.set(&e.probing, now)
	}
	s.mu.Unlock()
	s.look()
}

func (s *schedule) probeAt(e *Endpoint, at int64)  { s.set(&s.probes, &e.probing, at) }
func (s *schedule) returnAt(e *Endpoint, at int64) { s.set(&s.returns, &e.back, at) }

func (s *schedule) set(a *agenda, t *timer, at int64) {
	s.mu.Lock()
	a.set(t, at)
	first := (*a)[0] == t
	s.mu.Unlock()
	if first {
		s.look()
	}
}

func (s *schedule) cancelProbe(e *Endpoint)  { s.cancel(&s.probes, &e.probing) }
func (s *schedule) cancelReturn(e *Endpoint) { s.cancel(&s.returns, &e.back) }

func (s *schedule) cancel(a *agenda, t *timer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.cancel(t)
}

// remove forgets an endpoint. A probe that is under way goes on.
func (s *schedule) remove(e *Endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probes.cancel(&e.probing)
	s.returns.cancel(&e.back)
}

// timer is the place of an endpoint in an agenda.
type timer struct {
	at       int64 // of socket.Now
	place    int   // index in the agenda plus 1; 0: in none
	endpoint *Endpoint
}

// agenda is a heap of timers, the earliest first.
type agenda []*timer

func (a *agenda) set(t *timer, at int64) {
	t.at = at
	if t.place == 0 {
		heap.Push(a, t)
		return
	}
	heap.Fix(a, t.place-1)
}

func (a *agenda) cancel(t *timer) {
	if t.place != 0 {
		heap.Remove(a, t.place-1)
	}
}

func (a *agenda) due(now int64) bool { return len(*a) > 0 && (*a)[0].at <= now }

func (a *agenda) next() *Endpoint { return heap.Pop(a).(*timer).endpoint }

// wait is how long there is nothing to do, at most an hour.
func (a *agenda) wait(now int64) time.Duration {
	if len(*a) == 0 {
		return time.Hour
	}
	return min(time.Hour, time.Duration((*a)[0].at-now))
}

func (a *agenda) Len() int           { return len(*a) }
func (a *agenda) Less(i, j int) bool { return (*a)[i].at < (*a)[j].at }

func (a *agenda) Swap(i, j int) {
	s := *a
	s[i], s[j] = s[j], s[i]
	s[i].place, s[j].place = i+1, j+1
}

func (a *agenda) Push(x any) {
	t := x.(*timer)
	*a = append(*a, t)
	t.place = len(*a)
}

func (a *agenda) Pop() any {
	s := *a
	t := s[len(s)-1]
	s[len(s)-1] = nil
	*a = s[:len(s)-1]
	t.place = 0
	return t
}
