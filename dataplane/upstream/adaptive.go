package upstream

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dataplane/upstream/limit"
)

// longestSample bounds the latencies that are added up, so that sums cannot
// overflow. One that is longer counts as that long.
const longestSample = int64(time.Hour)

// adaptive gives the limit of a cluster that follows latency a clock, a count and
// a place. Requests that wait for an answer write it; they take no lock but when a
// window is due, and then only if nobody else has it.
type adaptive struct {
	_        [64]byte
	waiting  atomic.Int64 // requests
	most     atomic.Int64 // how many may wait
	peak     atomic.Int64 // of waiting, in this window
	refused  atomic.Bool  // some were, in this window
	count    atomic.Int64 // of samples, as the next two
	sum      atomic.Int64
	squares  atomic.Int64
	due      atomic.Int64 // when the window is to be looked at
	_        [64]byte
	mu       sync.Mutex
	machine  *limit.Adaptive // guarded by mu
	baseline atomic.Int64    // nanoseconds, to be shown
}

func newAdaptive(now int64, least int) *adaptive {
	a := &adaptive{machine: limit.NewAdaptive(now, least)}
	a.most.Store(int64(a.machine.Limit()))
	return a
}

// setLeast changes what the limit is never below; what it has learnt stays.
func (a *adaptive) setLeast(least int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.machine.SetLeast(least)
	a.most.Store(int64(a.machine.Limit()))
}

// adapt has the limit of a group follow latency, or not: least is 0.
func (g *group) adapt(now int64, least int) {
	switch a := g.adaptive.Load(); {
	case least == 0:
		g.adaptive.Store(nil)
	case a == nil:
		g.adaptive.Store(newAdaptive(now, least))
	default:
		a.setLeast(least)
	}
}

// Load is a request that waits for the head of its answer, in a cluster whose
// limit follows latency. The zero value is one in no such cluster.
type Load struct {
	in    *adaptive
	began int64
}

// Await counts a request in that is about to wait for an answer, at now. It is
// false if as many wait as the cluster can take. Otherwise Load.End must follow.
// It costs nothing where no limit follows latency.
func (c *Cluster) Await(now int64) (l Load, ok bool) {
	a := c.group.adaptive.Load()
	if a == nil {
		return Load{}, true
	}
	n := a.waiting.Add(1)
	if n > a.most.Load() {
		a.waiting.Add(-1)
		if !a.refused.Load() {
			a.refused.Store(true)
		}
		return Load{}, false
	}
	for peak := a.peak.Load(); n > peak && !a.peak.CompareAndSwap(peak, n); {
		peak = a.peak.Load()
	}
	return Load{in: a, began: now}, true
}

// End counts the request out, at now; a second call does nothing. An answer, and
// that there was none in time, say how long requests take. Other failures say
// nothing: those that fail fast look quick.
func (d *Load) End(now int64, o Outcome) {
	a := d.in
	if a == nil {
		return
	}
	d.in = nil
	a.waiting.Add(-1)
	if o != Success && o != Timeout {
		return
	}
	l := limit.Log(min(now-d.began, longestSample))
	a.count.Add(1)
	a.sum.Add(l)
	a.squares.Add(l * l)
	if now >= a.due.Load() && a.mu.TryLock() {
		a.look(now)
		a.mu.Unlock()
	}
}

// look has the machine see the window. What others add while a window is closed
// falls into this one or the next. The caller holds mu.
func (a *adaptive) look(now int64) {
	w := limit.Window{
		Samples: limit.Samples{Count: a.count.Load(), Sum: a.sum.Load(), Squares: a.squares.Load()},
		Peak:    int(a.peak.Load()), Refused: a.refused.Load(),
	}
	closed, next := a.machine.Observe(now, &w)
	if closed {
		a.count.Add(-w.Count)
		a.sum.Add(-w.Sum)
		a.squares.Add(-w.Squares)
		a.peak.Store(a.waiting.Load())
		a.refused.Store(false)
		a.most.Store(int64(a.machine.Limit()))
		a.baseline.Store(int64(a.machine.Baseline()))
	}
	a.due.Store(next)
}
