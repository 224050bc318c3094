package ctl

import (
	"math/rand/v2"
	"time"
)

// The waits between attempts to reconnect.
const (
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 10 * time.Second
)

// backoff says how long to wait before the next attempt: a random time below a
// bound that doubles, so that many clients cut off at once do not return at
// once ("full jitter"). The zero value is ready.
type backoff struct {
	failures int
}

// next is the wait after one more failure.
func (b *backoff) next() time.Duration {
	bound := b.bound()
	b.failures++
	return rand.N(bound) + 1
}

// bound is the longest wait that next may give.
func (b *backoff) bound() time.Duration {
	bound := firstBackoff
	for range b.failures {
		if bound *= 2; bound >= maxBackoff {
			return maxBackoff
		}
	}
	return bound
}

// reset is called when an attempt succeeded.
func (b *backoff) reset() { b.failures = 0 }
