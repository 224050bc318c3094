// Package retry says whether a request may be tried again, and after how long.
// What happened to the request, and whether it may be repeated at all, is the
// proxy's to judge.
package retry

import "sync/atomic"

// MinRetries is how many retries may be under way whatever the traffic.
const MinRetries = 3

// Bounds are what the retries of a cluster are held to.
type Bounds struct {
	Active  int64 // requests in flight, of which Percent counts
	Percent int   // of Active that may be retries, but MinRetries always may
	Most    int   // retries that may be under way at all; 0: no such limit
	Free    bool  // this one makes no work for the cluster: Percent does not count
}

// Verdict is whether a retry may begin.
type Verdict uint8

// The verdicts of Budget.Take.
const (
	Taken      Verdict = iota
	OverBudget         // as many are under way as Percent allows
	OverLimit          // as many are under way as Most allows
)

// Budget counts the retries of a cluster that are under way at one time, and
// bounds them, so that a cluster in trouble is not drowned by them. The zero
// value is ready.
type Budget struct {
	all     atomic.Int64
	charged atomic.Int64 // those that are not free
}

// Place is one retry that is under way. The zero value is none.
type Place struct{ all, charged bool }

// Held reports whether there is a retry under way.
func (p Place) Held() bool { return p.all }

// Take counts a retry in, if it may begin. p is the place that the request
// holds already: what retries twice is one retry under way. Release must follow.
func (b *Budget) Take(p *Place, bounds Bounds) Verdict {
	fresh := !p.all
	if fresh && !take(&b.all, int64(bounds.Most)) {
		return OverLimit
	}
	p.all = true
	if bounds.Free || p.charged {
		return Taken
	}
	if !take(&b.charged, max(MinRetries, bounds.Active*int64(bounds.Percent)/100)) {
		if fresh {
			b.all.Add(-1)
			p.all = false
		}
		return OverBudget
	}
	p.charged = true
	return Taken
}

// take adds one to n unless that exceeds limit; 0 is no limit.
func take(n *atomic.Int64, limit int64) bool {
	if now := n.Add(1); limit == 0 || now <= limit {
		return true
	}
	n.Add(-1)
	return false
}

// Release gives back what is held, when the retry is over.
func (b *Budget) Release(p *Place) {
	if p.all {
		b.all.Add(-1)
	}
	if p.charged {
		b.charged.Add(-1)
	}
	*p = Place{}
}

// InFlight is how many retries are under way.
func (b *Budget) InFlight() int64 { return b.all.Load() }
