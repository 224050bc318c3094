// Package limit finds out how many requests a cluster can take at one time, by
// how latency answers to their number. It has no clock, lock or goroutine: times
// are nanoseconds of whatever monotonic clock the caller uses, and the caller
// counts and measures.
//
// It is of the family of TCP Vegas (Brakmo, O'Malley, Peterson, SIGCOMM 1994) and
// of Netflix's Gradient2 (github.com/Netflix/concurrency-limits): a rise of
// latency above a baseline is a queue, and a queue brings nothing. Both are undone
// by a baseline that is wrong: one that is only ever lowered starves a cluster
// that has become slower, one that follows grows with the queue that it should
// show. So here a rise is not believed but tried. By Little's law, latency falls
// in proportion with the number of requests where there is a queue, and not at all
// where there is none: the limit is cut, and cut again, as long as that makes
// latency fall. When it does not, what is left is the baseline, be it higher or
// lower than before, and the limit goes back to where a cut last helped. That
// tries nothing while latency stays where it was, and needs no phase in which
// requests are refused to measure an idle cluster. The price is that a cluster
// which becomes slower by itself is tried once: part of its requests are refused
// for a second or so, for some seconds where latencies are very uneven.
//
//	climb ── latency above Tolerance times the baseline ──▶ hold, measure
//	  ▲                                                          │
//	  │                                                          ▼
//	  └── it did not fall: go back ── measure ◀── wait ◀──────── cut ◀──┐
//	                                     └──────── it fell ─────────────┘
package limit

import (
	"math"
	"time"
)

// What governs an Adaptive. They are no options: none depends on the cluster.
const (
	// Tolerance is how far latency may rise above the baseline while the limit
	// grows. There has to be a queue, or a server that is done with one request
	// has to wait for the next.
	Tolerance = 2.0
	// Cut is what is left of the limit after a cut. The smaller, the better can a
	// fall of latency be told from chance, and the more is lost by the last cut.
	Cut = 0.75
	// Climb is by how much the limit grows with each window.
	Climb = 0.025
	// Start is the limit before anything is known; it doubles with each window
	// until latency rises.
	Start = 64
	// Most bounds a limit that nothing else bounds.
	Most = 10_000_000
)

// A window of measurements is closed when it is long enough, has enough samples,
// and its mean is exact enough or it has lasted too long for that.
const (
	shortWindow = 100 * time.Millisecond
	longWindow  = time.Second
	deadWindow  = 10 * time.Second // when it is given up if there are too few samples
	fewSamples  = 16
	rough       = 0.15 // standard error of the mean of logarithms: 11%
	exact       = 0.07 // 5%
)

// fell is the part of the fall that a queue would bring with which it is believed
// that there is one.
const fell = 0.6

// floorWindows is for how many windows latency may be too long while the limit
// is as low as may be, until that is taken for the baseline.
const floorWindows = 50

// Window is what was measured since the last one was closed.
type Window struct {
	Samples
	Peak    int  // the most requests at one time
	Refused bool // some were refused
}

// Adaptive is the limit of one cluster. NewAdaptive makes one. Latencies in it
// are as of Samples.Mean.
type Adaptive struct {
	least float64

	limit    float64
	baseline float64 // 0: not known
	seen     int     // the most requests at one time with which latency was about that
	swift    bool    // no rise has been seen yet: it doubles
	floored  int     // windows in a row at the least limit with too long a latency

	phase  phase
	since  int64   // of the window, or of the wait
	until  int64   // of the wait
	before float64 // the limit before the cut that is tried
	was    float64 // latency then
	over   float64 // where to go back to when a cut brings nothing
}

type phase uint8

const (
	climbing phase = iota
	holding        // the limit, to see how long latency becomes with it
	trying         // whether a cut has made latency fall
)

// NewAdaptive makes a limit that is never below least.
func NewAdaptive(now int64, least int) *Adaptive {
	a := &Adaptive{swift: true, since: now}
	a.SetLeast(least)
	a.limit = max(Start, a.least)
	return a
}

// SetLeast changes what the limit is never below.
func (a *Adaptive) SetLeast(least int) {
	a.least = float64(min(max(1, least), Most))
	a.limit = max(a.limit, a.least)
}

// Limit is how many requests there may be at one time.
func (a *Adaptive) Limit() int { return int(a.limit) }

// Baseline is what latency is taken to be without a queue; 0: not known.
func (a *Adaptive) Baseline() time.Duration {
	if a.baseline == 0 {
		return 0
	}
	return time.Duration(math.Exp2(a.baseline))
}

// Observe looks at the window. closed means that it was used, or is of no use, and
// that another begins; the caller then starts measuring anew. next is when to
// call again.
func (a *Adaptive) Observe(now int64, w *Window) (closed bool, next int64) {
	elapsed := time.Duration(now - a.since)
	switch {
	case now < a.until:
		return false, a.until
	case a.until != 0: // what was measured while it waited is of no use
		a.until = 0
	case elapsed < shortWindow:
		return false, a.since + int64(shortWindow)
	case w.Count < fewSamples && elapsed < deadWindow,
		w.Count >= fewSamples && w.Error() > a.needed() && elapsed < longWindow:
		return false, now + int64(shortWindow)
	case w.Count >= fewSamples:
		a.judge(w)
		a.wait(now, elapsed, w.Count)
	}
	a.since = now
	return true, max(a.until, now+int64(shortWindow))
}

// needed is the standard error with which the window says enough.
func (a *Adaptive) needed() float64 {
	switch a.phase {
	case holding:
		return exact
	case trying:
		return fell * math.Log2(a.before/a.limit) / 4
	}
	return rough
}

// wait has the requests end that are in flight, at the pace of the window, where
// the next window is to be about the limit that holds from now on.
func (a *Adaptive) wait(now int64, elapsed time.Duration, ended int64) {
	if a.phase == climbing {
		return
	}
	drained := float64(elapsed) / float64(ended) * max(a.limit, a.before)
	a.until = now + int64(min(max(drained, float64(shortWindow)), float64(deadWindow)))
}

// judge moves the limit.
func (a *Adaptive) judge(w *Window) {
	mean := w.Mean()
	bound := w.Refused || float64(w.Peak) >= 0.9*a.limit
	risen := a.baseline != 0 && mean-2*w.Error()-a.baseline > math.Log2(Tolerance)
	a.learn(mean, w, risen)
	switch {
	case !bound && a.phase != climbing:
		a.phase = climbing // the load has gone, and nothing can be tried
	case a.phase == trying:
		a.tried(mean)
	case risen && a.phase == holding:
		a.cut(mean)
	case risen && bound:
		a.hold(a.limit)
	case risen && w.Peak > a.seen:
		a.hold(float64(w.Peak))
	case a.phase == holding:
		a.phase = climbing
	case bound:
		a.climb()
	default:
		a.leave(w.Peak)
	}
}

// learn moves the baseline by what says nothing of a queue: latency is lower, or
// it is longer without there being more requests than before.
func (a *Adaptive) learn(mean float64, w *Window, risen bool) {
	switch {
	case a.baseline == 0:
		a.baseline, a.seen = mean, w.Peak
	case mean+w.Error() < a.baseline:
		a.baseline, a.seen = mean+w.Error(), w.Peak
	case mean < a.baseline+rough:
		a.seen = max(a.seen, w.Peak)
	case w.Peak <= max(a.seen, int(a.least)) && !w.Refused:
		a.baseline += (mean - a.baseline) / 4
	}
	if risen && a.limit <= a.least && w.Refused {
		if a.floored++; a.floored > floorWindows {
			a.baseline, a.seen, a.floored = mean, w.Peak, 0
		}
		return
	}
	a.floored = 0
}

// tried goes on from a cut: down, as long as that helps.
func (a *Adaptive) tried(mean float64) {
	switch {
	case a.was-mean > fell*math.Log2(a.before/a.limit):
		a.over = a.before
		a.cut(mean)
	case mean > a.baseline+math.Log2(Tolerance)/2 && a.limit > max(a.least, a.before/4):
		a.lower(Cut * Cut) // a rise is believed only when it is sure
	default:
		if mean > a.baseline {
			a.baseline, a.seen = mean, int(a.limit)
		}
		a.limit, a.phase = a.over, climbing
	}
}

// hold keeps the limit where it is, or where it would bind, until it is known how
// long latency is with it. Where it cannot be lowered there is nothing to see.
func (a *Adaptive) hold(limit float64) {
	a.swift, a.before, a.over = false, 0, a.limit
	if a.limit = max(limit, a.least); a.limit > a.least {
		a.phase = holding
	}
}

// cut lowers the limit to see whether latency falls.
func (a *Adaptive) cut(mean float64) {
	if a.limit <= a.least {
		a.phase = climbing
		return
	}
	a.before, a.was = a.limit, mean
	a.lower(Cut)
}

func (a *Adaptive) lower(to float64) {
	a.limit = max(a.least, math.Floor(a.limit*to))
	a.phase = trying
}

func (a *Adaptive) climb() {
	if a.swift {
		a.limit = min(2*a.limit, Most)
		return
	}
	a.limit = min(a.limit+max(0.25, Climb*a.limit), Most)
}

// leave is for a window in which the limit was far. It stays within sight, so
// that it bounds what comes at once.
func (a *Adaptive) leave(peak int) {
	if roomy := max(Start, 2*float64(peak), a.least); a.limit > roomy {
		a.limit = max(roomy, a.limit*(1-2*Climb))
	}
}
