package retry

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestHedge(t *testing.T) {
	h := Hedge{After: 200, Max: 2}
	if h.Due() != 0 || h.Take(1000) {
		t.Error("due before anything began")
	}
	h.Began(1000)
	if h.Due() != 1200 || h.Take(1199) || !h.Take(1200) {
		t.Error("the first is not due after 200")
	}
	h.Began(1201)
	if h.Due() != 1401 || h.Take(1400) {
		t.Error("the second is not due 200 after the first")
	}
	h.Began(1390) // a retry
	if h.Take(1401) || !h.Take(1590) || h.Due() != 0 || h.Take(1e9) {
		t.Error("there are more than two, or a retry is no attempt")
	}
	h = Hedge{After: 1, Max: 10}
	h.Began(1)
	h.Stop()
	if h.Due() != 0 || h.Take(5) {
		t.Error("due after a stop")
	}
}

// However the clock goes on, there are never more than Max, and never two within
// After.
func TestHedgeIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := Hedge{After: time.Duration(rapid.Int64Range(1, 1000).Draw(t, "after")), Max: rapid.IntRange(0, 10).Draw(t, "max")}
		after, most := int64(h.After), h.Max
		now, last, taken := int64(1), int64(1), 0
		h.Began(now)
		for range 100 {
			now += rapid.Int64Range(0, 500).Draw(t, "step")
			if !h.Take(now) {
				continue
			}
			if taken++; taken > most || now-last < after {
				t.Fatalf("number %d of %d, %d after the last", taken, most, now-last)
			}
			last = now
			h.Began(now)
		}
	})
}
