package acme

import (
	"testing"
	"time"
)

// A certificate of ninety days is asked for, refused four times, given, and
// renewed in its last third.
func TestSchedule(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var s Schedule
	if !s.Due(start) {
		t.Error("what is not there is not asked for")
	}
	now := start
	for _, pause := range []time.Duration{1, 2, 4, 8} {
		s.Failed(now, 0)
		next := now.Add(pause * time.Minute)
		if s.Due(next.Add(-1)) || !s.Due(next) || !s.Failing() {
			t.Errorf("after a failure at %v the next attempt is at %v, not %v", now, s.Next(), next)
		}
		now = next
	}
	from, until := now, now.Add(90*24*time.Hour)
	s.Obtained(now, from, until, 0)
	if want := from.Add(60 * 24 * time.Hour); !s.Next().Equal(want) || s.Failing() {
		t.Errorf("renewed at %v, not %v", s.Next(), want)
	}
	s.Holds(from, until, 1)
	if want := from.Add(60*24*time.Hour - 108*time.Hour); !s.Next().Equal(want) {
		t.Errorf("renewed at %v at the earliest, not %v", s.Next(), want)
	}
	s.Failed(now, 1)
	if want := now.Add(30 * time.Second); !s.Next().Equal(want) {
		t.Errorf("the pause is over at %v at the earliest, not %v", s.Next(), want)
	}
}

// The pauses have an end, whatever comes.
func TestScheduleBounds(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var s Schedule
	for range 1000 {
		s.Failed(now, 0)
		if pause := s.Next().Sub(now); pause < time.Minute || pause > maxPause {
			t.Fatalf("a pause of %v", pause)
		}
	}
	s.Obtained(now, now.Add(-90*24*time.Hour), now.Add(-time.Hour), 0)
	if want := now.Add(time.Minute); !s.Next().Equal(want) {
		t.Errorf("one that has expired when it comes is asked for again at %v, not %v", s.Next(), want)
	}
}
