package http3

import "time"

// resets bounds how many requests in a row a peer may give up before they were
// answered: making us start work for nothing is cheap (CVE-2023-44487). Some are
// forgiven each second, and one for each request that ends well.
type resets struct {
	left, full int
	at         int64 // of the last second that was forgiven
}

const forgivenPerSecond = 32

func newResets(full int, now int64) resets { return resets{left: full, full: full, at: now} }

// ended notes how a request ended, and reports whether the peer is still within its
// bound.
func (r *resets) ended(abandoned bool, now int64) bool {
	if !abandoned {
		r.left = min(r.full, r.left+1)
		return true
	}
	if seconds := (now - r.at) / int64(time.Second); seconds > 0 {
		r.at += seconds * int64(time.Second)
		r.left = min(r.full, r.left+int(min(seconds, 1<<20))*forgivenPerSecond)
	}
	r.left--
	return r.left >= 0
}
