// Package retry says whether a request may be tried again, and after how long.
// What happened to the request, and whether it may be repeated at all, is the
// proxy's to judge.
package retry

import "sync/atomic"

// MinRetries is how many retries may be under way whatever the traffic.
const MinRetries = 3

// Budget bounds the retries of a cluster that are under way at one time, so
// that a cluster in trouble is not drowned by them. The zero value is ready.
type Budget struct{ retries atomic.Int64 }

// Allow takes one retry out of the budget, of percent of the active requests
// but at least MinRetries. If it reports true, Release must follow.
func (b *Budget) Allow(active int64, percent int) bool {
	limit := max(MinRetries, active*int64(percent)/100)
	for {
		n := b.retries.Load()
		if n >= limit {
			return false
		}
		if b.retries.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release gives back what Allow took, when the retry is over.
func (b *Budget) Release() { b.retries.Add(-1) }

// InFlight is how many retries are under way.
func (b *Budget) InFlight() int64 { return b.retries.Load() }
