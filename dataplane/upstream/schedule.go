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

// schedule knows when each endpoint is to be probed next, and when its ejection
// ends or its circuit is due. One goroutine waits for all of them; probes run on a bounded number of
// others.
type schedule struct {
	stopped context.Context
	probe   func(*Endpoint)
	wake    chan struct{} // one message: look again
	workers sync.WaitGroup

	mu sync.Mutex
	// guarded by mu
	probes agenda
	alarms agenda // of all that is not a probe
	busy   int    // workers that run
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
	rings, wait := s.takeDue(now)
	for _, ring := range rings {
		ring(now)
	}
	return wait
}

func (s *schedule) takeDue(now int64) (rings []func(int64), wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.alarms.due(now) {
		rings = append(rings, s.alarms.next().ring)
	}
	for s.busy < probeWorkers && s.probes.due(now) {
		e := s.probes.next().endpoint
		s.busy++
		s.workers.Go(func() {
			s.probe(e)
			s.finished()
		})
	}
	wait = s.alarms.wait(now)
	if s.busy < probeWorkers {
		wait = min(wait, s.probes.wait(now))
	}
	return rings, wait
}

// finished makes room for a probe. Nobody waits for that unless there was none.
func (s *schedule) finished() {
	s.mu.Lock()
	full := s.busy == probeWorkers
	s.busy--
	s.mu.Unlock()
	if full {
		s.look()
	}
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

func (s *schedule) probeAt(e *Endpoint, at int64) { s.set(&s.probes, &e.probing, at) }

// ringAt has a timer ring at a time, and not at the one set before.
func (s *schedule) ringAt(t *timer, at int64) { s.set(&s.alarms, t, at) }

func (s *schedule) set(a *agenda, t *timer, at int64) {
	s.mu.Lock()
	a.set(t, at)
	first := (*a)[0] == t
	s.mu.Unlock()
	if first {
		s.look()
	}
}

func (s *schedule) cancelProbe(e *Endpoint) { s.cancel(&s.probes, &e.probing) }
func (s *schedule) silence(t *timer)        { s.cancel(&s.alarms, t) }

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
	s.alarms.cancel(&e.back)
	s.alarms.cancel(&e.retry)
}

// timer is a place in an agenda.
type timer struct {
	at       int64           // of socket.Now
	place    int             // index in the agenda plus 1; 0: in none
	endpoint *Endpoint       // to probe
	ring     func(now int64) // of an alarm
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

func (a *agenda) next() *timer { return heap.Pop(a).(*timer) }

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
