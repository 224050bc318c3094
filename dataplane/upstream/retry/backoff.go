package retry

import "time"

// MaxBackoff bounds a wait, as a multiple of its base.
const MaxBackoff = 10

// Backoff is how long to wait before a retry. attempt is 1 for the first retry;
// the bound doubles with each, up to MaxBackoff times base. rnd is in [0,1) and
// spreads the wait over all of it (full jitter), so that what failed together
// does not come back together.
func Backoff(attempt int, base time.Duration, rnd float64) time.Duration {
	if base <= 0 {
		return 0
	}
	factor := float64(MaxBackoff)
	if attempt <= 4 {
		factor = float64(int(1) << max(0, attempt-1))
	}
	return time.Duration(float64(base) * factor * rnd)
}

// BackoffAsked is Backoff where the answer has a Retry-After: the wait is not
// shorter than asked, and not longer than a wait can be.
func BackoffAsked(attempt int, base time.Duration, rnd float64, asked time.Duration) time.Duration {
	return max(Backoff(attempt, base, rnd), min(asked, MaxBackoff*max(base, 0)))
}
