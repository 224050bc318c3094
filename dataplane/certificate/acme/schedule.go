package acme

import "time"

const (
	// firstPause is how long is waited after a first failure, and maxPause the
	// longest. Authorities count failures: Let's Encrypt takes five for a name
	// in an hour.
	firstPause = time.Minute
	maxPause   = 6 * time.Hour
)

// Schedule says when a certificate is to be asked for. The zero value says at
// once.
type Schedule struct {
	next     time.Time
	failures int // in a row
}

// Due reports whether it is time.
func (s *Schedule) Due(now time.Time) bool { return !now.Before(s.next) }

// Failing reports whether the last attempt failed.
func (s *Schedule) Failing() bool { return s.failures > 0 }

// Next is when it will be time.
func (s *Schedule) Next() time.Time { return s.next }

// Holds says that there is a certificate which is good from one time until
// another. It is renewed when a third of that is left, or a little earlier:
// jitter, from 0 to 1, spreads those that were obtained at once over a twentieth
// of their life.
func (s *Schedule) Holds(from, until time.Time, jitter float64) {
	life := until.Sub(from)
	s.failures = 0
	s.next = until.Add(-life/3 - time.Duration(jitter*float64(life)/20))
}

// Obtained is Holds for a certificate that has just come. Where the clock is so
// far off that its time is over already, another is not asked for at once.
func (s *Schedule) Obtained(now, from, until time.Time, jitter float64) {
	s.Holds(from, until, jitter)
	if first := now.Add(firstPause); s.next.Before(first) {
		s.next = first
	}
}

// Failed says that an attempt failed. The pause doubles each time; jitter, from
// 0 to 1, takes away up to half of it.
func (s *Schedule) Failed(now time.Time, jitter float64) {
	pause := maxPause
	if s.failures < 9 { // 2^9 minutes are over six hours
		pause = firstPause << s.failures
	}
	s.failures++
	s.next = now.Add(pause - time.Duration(jitter*float64(pause)/2))
}
