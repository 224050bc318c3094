package health

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestMayEject(t *testing.T) {
	for _, test := range []struct {
		name    string
		p       Population
		percent int
		want    bool
	}{
		{"one of two", Population{Endpoints: 2, Others: 1}, 50, true},
		{"the only one", Population{Endpoints: 1}, 100, false},
		{"the last one left", Population{Endpoints: 3, Ejected: 2}, 100, false},
		{"the other one is unhealthy", Population{Endpoints: 2}, 50, false},
		{"half is gone", Population{Endpoints: 4, Ejected: 2, Others: 1}, 50, false},
		{"up to half", Population{Endpoints: 4, Ejected: 1, Others: 2}, 50, true},
		{"a small percentage is one at least", Population{Endpoints: 5, Others: 4}, 10, true},
		{"but one only", Population{Endpoints: 5, Ejected: 1, Others: 3}, 10, false},
		{"never", Population{Endpoints: 5, Others: 4}, 0, false},
	} {
		if got := MayEject(test.p, test.percent); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

func TestPanic(t *testing.T) {
	for _, test := range []struct {
		available, endpoints, threshold int
		want                            bool
	}{
		{2, 2, 50, false},
		{1, 2, 50, false},
		{0, 2, 50, true},
		{1, 3, 50, true},
		{0, 3, 0, false},
		{0, 0, 50, false},
		{9, 10, 100, true},
	} {
		if got := Panic(test.available, test.endpoints, test.threshold); got != test.want {
			t.Errorf("%d of %d available, threshold %d: %v", test.available, test.endpoints, test.threshold, got)
		}
	}
}

// Probes of one interval share the ticks, and a tick is small beside the interval.
func TestProbesShareTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		interval := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "interval"))
		start := rapid.Int64Range(1, int64(time.Hour)).Draw(t, "start")
		rnd := rapid.Float64Range(0, 0.999999).Draw(t, "rnd")
		tick := max(1, min(Tick, interval/100))
		for _, at := range []int64{Next(start, interval, rnd), Second(start, interval, rnd)} {
			if at%int64(tick) != 0 || interval >= 10*time.Second && tick != Tick {
				t.Fatalf("at %d, with ticks of %v", at, tick)
			}
		}
	})
}

func TestNextIsWithinATenth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		interval := time.Duration(rapid.Int64Range(1000, int64(time.Hour)).Draw(t, "interval"))
		rnd := rapid.Float64Range(0, 0.999999).Draw(t, "rnd")
		wait := time.Duration(Next(5, interval, rnd) - 5)
		if wait < interval*9/10-interval/100-1 || wait > interval*11/10+1 {
			t.Fatalf("%v for an interval of %v", wait, interval)
		}
	})
}

// A state only changes after as many equal results as its threshold says, and
// follows the results in the end.
func TestCheckFollowsResults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := Thresholds{
			Healthy:   rapid.IntRange(1, 5).Draw(t, "healthy"),
			Unhealthy: rapid.IntRange(1, 5).Draw(t, "unhealthy"),
		}
		var c Check
		run, last := 0, false
		for i, ok := range rapid.SliceOfN(rapid.Bool(), 1, 60).Draw(t, "results") {
			if i == 0 || ok != last {
				run = 0
			}
			run, last = run+1, ok
			needed, state := limits.Unhealthy, Unhealthy
			if ok {
				needed, state = limits.Healthy, Healthy
			}
			before := c.State()
			changed := c.Observe(ok, limits)
			if changed != (c.State() != before) {
				t.Fatalf("changed %v: %v to %v", changed, before, c.State())
			}
			if (run >= needed || i == 0) != (c.State() == state) && c.State() != before {
				t.Fatalf("after %d like the last: %v", run, c.State())
			}
			if run >= needed && c.State() != state {
				t.Fatalf("%d in a row, still %v", run, c.State())
			}
		}
	})
}

func TestStateNames(t *testing.T) {
	for s, want := range map[State]string{Unknown: "unknown", Ejected: "ejected", 200: "invalid"} {
		if s.String() != want {
			t.Errorf("%d is %q", s, s)
		}
	}
}
