package sample

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// Wherever it begins and whatever the percentage, a Portion is off by a few
// requests at most, at every point of the way.
func TestPortionIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		percent := rapid.Float64Range(0, 100).Draw(t, "percent")
		step := rapid.SampledFrom([]Step{Golden, RootTwo, RootThree}).Draw(t, "step")
		p := New(percent, step, rapid.Uint64().Draw(t, "seed"))
		taken := 0
		for n := 1; n <= 10_000; n++ {
			if p.Takes() {
				taken++
			}
			if off := math.Abs(float64(taken) - float64(n)*percent/100); off > 4 {
				t.Fatalf("%v%% of %d: %d, off by %v", percent, n, taken, off)
			}
		}
	})
}

func TestPortionOfNoneAndAll(t *testing.T) {
	for percent, want := range map[float64]bool{0: false, 1e-300: false, 100: true, 101: true, -1: false} {
		p := New(percent, Golden, 7)
		for range 1000 {
			if p.Takes() != want {
				t.Fatalf("%v%%: %v", percent, !want)
			}
		}
	}
}

// Two Portions are independent: of the requests that one picks the other picks
// its percentage.
func TestPortionsAreIndependent(t *testing.T) {
	const n = 100_000
	a, b := New(30, Golden, 1), New(20, RootTwo, 1)
	both := 0
	for range n {
		if x, y := a.Takes(), b.Takes(); x && y {
			both++
		}
	}
	if share := float64(both) / n; math.Abs(share-0.06) > 0.001 {
		t.Errorf("both: %v, want 0.06", share)
	}
}

// All cores together get the percentage.
func TestPortionIsShared(t *testing.T) {
	p := New(25, RootThree, 99)
	var taken atomic.Int64
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for range 10_000 {
				if p.Takes() {
					taken.Add(1)
				}
			}
		})
	}
	workers.Wait()
	if n := taken.Load(); math.Abs(float64(n)-20_000) > 4 {
		t.Errorf("%d of 80000", n)
	}
}
