package retry

import (
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBudget(t *testing.T) {
	for _, test := range []struct {
		active  int64
		percent int
		want    int // retries allowed at one time
	}{
		{0, 20, 3},
		{10, 20, 3},
		{100, 20, 20},
		{104, 20, 20},
		{1000, 0, 3},
		{50, 100, 50},
	} {
		var b Budget
		n := 0
		for b.Allow(test.active, test.percent) {
			n++
		}
		if n != test.want {
			t.Errorf("%d%% of %d: %d retries", test.percent, test.active, n)
		}
		b.Release()
		if !b.Allow(test.active, test.percent) || b.Allow(test.active, test.percent) {
			t.Errorf("%d%% of %d: one came back, not one was allowed", test.percent, test.active)
		}
	}
}

func TestBudgetHoldsForAll(t *testing.T) {
	var b Budget
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for range 1000 {
				if b.Allow(20, 20) {
					if n := b.InFlight(); n > 4 {
						t.Errorf("%d retries at one time", n)
					}
					b.Release()
				}
			}
		})
	}
	workers.Wait()
	if n := b.InFlight(); n != 0 {
		t.Errorf("%d retries are left", n)
	}
}

func TestBackoff(t *testing.T) {
	const base, almost = 25 * time.Millisecond, 0.9999999999
	for attempt, want := range []int{1, 1, 2, 4, 8, 10, 10, 10} {
		got := Backoff(attempt, base, almost)
		if bound := base * time.Duration(want); got >= bound || got < bound-time.Microsecond {
			t.Errorf("attempt %d: up to %v, want %v", attempt, got, bound)
		}
		if got := Backoff(attempt, base, 0); got != 0 {
			t.Errorf("attempt %d: at least %v", attempt, got)
		}
	}
}

func TestBackoffIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := time.Duration(rapid.Int64Range(-5, int64(time.Hour)).Draw(t, "base"))
		wait := Backoff(rapid.Int().Draw(t, "attempt"), base, rapid.Float64Range(0, 1).Draw(t, "rnd"))
		if wait < 0 || wait > max(0, MaxBackoff*base) {
			t.Fatalf("%v of %v", wait, base)
		}
	})
}
