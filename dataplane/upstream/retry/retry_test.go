package retry

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBudget(t *testing.T) {
	for _, test := range []struct {
		bounds Bounds
		want   int // retries allowed at one time
		then   Verdict
	}{
		{Bounds{Active: 0, Percent: 20}, 3, OverBudget},
		{Bounds{Active: 10, Percent: 20}, 3, OverBudget},
		{Bounds{Active: 100, Percent: 20}, 20, OverBudget},
		{Bounds{Active: 104, Percent: 20}, 20, OverBudget},
		{Bounds{Active: 1000, Percent: 0}, 3, OverBudget},
		{Bounds{Active: 50, Percent: 100}, 50, OverBudget},
		{Bounds{Active: 50, Percent: 100, Most: 7}, 7, OverLimit},
		{Bounds{Active: 0, Percent: 0, Most: 1}, 1, OverLimit},
		{Bounds{Active: 0, Percent: 0, Most: 5, Free: true}, 5, OverLimit},
	} {
		var b Budget
		var held []*Place
		verdict := Taken
		for len(held) < 1000 {
			p := new(Place)
			if verdict = b.Take(p, test.bounds); verdict != Taken {
				break
			}
			held = append(held, p)
		}
		if len(held) != test.want || verdict != test.then || b.InFlight() != int64(test.want) {
			t.Errorf("%+v: %d retries, then %v, %d in flight", test.bounds, len(held), verdict, b.InFlight())
		}
		b.Release(held[0])
		var p, q Place
		if b.Take(&p, test.bounds) != Taken || b.Take(&q, test.bounds) != test.then {
			t.Errorf("%+v: one came back, not one was allowed", test.bounds)
		}
	}
}

// One request that retries again and again is one retry under way. What was free
// at first may be charged later, and is refused then if the budget is spent.
func TestBudgetCountsRequests(t *testing.T) {
	var b Budget
	var p, other Place
	free, charged := Bounds{Most: 1, Free: true}, Bounds{Most: 1}
	for range 3 {
		if b.Take(&p, free) != Taken || b.Take(&p, charged) != Taken || b.InFlight() != 1 {
			t.Fatalf("%+v", p)
		}
	}
	if b.Take(&other, free) != OverLimit || other.Held() {
		t.Errorf("%+v", other)
	}
	b.Release(&p)
	b.Release(&p)
	if b.InFlight() != 0 || b.charged.Load() != 0 {
		t.Errorf("%+v", &b)
	}
	b.charged.Store(MinRetries)
	if b.Take(&p, free) != Taken || b.Take(&p, charged) != OverBudget || !p.Held() {
		t.Errorf("what was free is lost: %+v", p)
	}
	if b.Take(&other, Bounds{}) != OverBudget || other.Held() || b.InFlight() != 1 {
		t.Errorf("what was refused is counted: %+v", other)
	}
}

func TestBudgetHoldsForAll(t *testing.T) {
	var b Budget
	var workers sync.WaitGroup
	var granted atomic.Int64
	for n := range 8 {
		workers.Go(func() {
			for i := range 1000 {
				var p Place
				if b.Take(&p, Bounds{Active: 20, Percent: 20, Most: 5, Free: (n+i)%2 == 0}) == Taken {
					if now := granted.Add(1); now > 5 {
						t.Errorf("%d retries at one time", now)
					}
					granted.Add(-1)
				}
				b.Release(&p)
			}
		})
	}
	workers.Wait()
	if b.InFlight() != 0 || b.charged.Load() != 0 {
		t.Errorf("%d retries are left, %d charged", b.InFlight(), b.charged.Load())
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

func TestBackoffAsked(t *testing.T) {
	const base = 25 * time.Millisecond
	for _, test := range []struct {
		asked time.Duration
		rnd   float64
		want  time.Duration
	}{
		{0, 0, 0},
		{0, 0.5, 12500 * time.Microsecond},
		{10 * time.Millisecond, 0.5, 12500 * time.Microsecond},
		{100 * time.Millisecond, 0.5, 100 * time.Millisecond},
		{time.Second, 0.5, 250 * time.Millisecond},
		{maxAfter, 0, 250 * time.Millisecond},
	} {
		if got := BackoffAsked(1, base, test.rnd, test.asked); got != test.want {
			t.Errorf("asked for %v: %v, want %v", test.asked, got, test.want)
		}
	}
	if got := BackoffAsked(1, 0, 0.5, time.Second); got != 0 {
		t.Errorf("without a backoff: %v", got)
	}
}

func TestAfter(t *testing.T) {
	now := time.Date(1994, 11, 6, 8, 49, 30, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"0": 0, "120": 2 * time.Minute, " 3 ": 3 * time.Second,
		"Sun, 06 Nov 1994 08:49:37 GMT":  7 * time.Second,
		"Sunday, 06-Nov-94 08:49:37 GMT": 7 * time.Second,
		"Sun Nov  6 08:49:37 1994":       7 * time.Second,
		"Sun, 06 Nov 1994 08:49:29 GMT":  0,
		"Sun, 06 Nov 2094 08:49:29 GMT":  maxAfter,
		"99999999999999999999999999999":  maxAfter,
		"":                               0, "-1": 0, "+1": 0, "1.5": 0, "soon": 0, "1s": 0, "Sun, 06 Nov 1994 08:49:37 CET": 0,
	} {
		if got := After([]byte(value), now); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}
