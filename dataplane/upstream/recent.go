package upstream

import (
	"math"
	"time"
)

// memory is after how long a request counts for 1/e of one that has just ended.
const memory = 10 * time.Second

// recent is how an endpoint has fared of late. It is made of counters that
// requests write anyway, which it looks at now and then, so it costs requests
// nothing. The zero value has seen nothing.
type recent struct {
	at   int64  // of the last look
	seen counts // as they were then

	attempts, failures, waited float64 // what has happened since, fading; waited in nanoseconds
}

// counts are counters of an endpoint that only grow. Of attempts that were
// ignored there is nothing in them.
type counts struct {
	successes, failures int64
	waited              int64 // of all successes together, in nanoseconds
}

// look takes the counters as they are at now. What has happened since the look
// before is taken to have happened just now.
func (r *recent) look(now int64, c counts) {
	fade := math.Exp(-float64(max(0, now-r.at)) / float64(memory))
	failed := float64(c.failures - r.seen.failures)
	r.attempts = r.attempts*fade + failed + float64(c.successes-r.seen.successes)
	r.failures = r.failures*fade + failed
	r.waited = r.waited*fade + float64(c.waited-r.seen.waited)
	r.at, r.seen = now, c
}

// enough is how many attempts, faded, say something: a single one does for
// almost a minute.
const enough = 0.01

// success is the part of the attempts that did not fail; false: there were none.
func (r *recent) success() (ratio float64, ok bool) {
	if r.attempts < enough {
		return 0, false
	}
	return 1 - r.failures/r.attempts, true
}

// latency is the mean of the successes; 0: there were none.
func (r *recent) latency() time.Duration {
	successes := r.attempts - r.failures
	if successes < enough {
		return 0
	}
	return time.Duration(r.waited / successes)
}

// counts reads the counters. An attempt that ends meanwhile may be in some and
// not yet in others; the next look has it whole.
func (e *Endpoint) counts() counts {
	failures, ignored, waited := e.failures.Load(), e.ignored.Load(), e.latency.Load()
	return counts{
		failures: int64(failures), waited: waited,
		successes: max(0, int64(e.ended.Load()-failures-ignored)),
	}
}
