package pool

import "time"

// standing is for how long somebody must have been waiting, without a break, for
// the queue to be one that stands.
const standing = 100 * time.Millisecond

// order says whose turn it is: first come first served, unless the queue stands.
// A queue that is empty now and then only evens out bursts. One that is never
// empty makes everybody wait for as long as it is, so that in the end all are
// served when they have given up, or just before. Then the last one goes first: it
// is served at once, and those who have waited long, and so have the least to hope
// for, wait until the queue has been empty once, or their patience ends (Maurer,
// Fail at Scale, ACM Queue 13(8), 2015: adaptive LIFO, with CoDel's test of a
// queue that stands; Nichols and Jacobson, Controlling Queue Delay, 2012). The
// zero value is an empty queue.
type order struct {
	since int64 // since when there has been somebody; times are of socket.Now
	some  bool  // there is somebody
}

// joined notes that somebody waits.
func (o *order) joined(now int64) {
	if !o.some {
		o.since, o.some = now, true
	}
}

// emptied notes that nobody waits any more.
func (o *order) emptied() { o.some = false }

// lastFirst reports whether the last one goes first.
func (o *order) lastFirst(now int64) bool { return o.some && now-o.since > int64(standing) }
