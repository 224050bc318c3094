package snapshot

import (
	"slices"
	"sync/atomic"
	"testing"
)

func TestParallel(t *testing.T) {
	for _, n := range []int{0, 1, 2, 1000} {
		calls := make([]atomic.Int64, n)
		parallel(n, func(i int) { calls[i].Add(1) })
		for i := range calls {
			if got := calls[i].Load(); got != 1 {
				t.Errorf("%d of %d was called %d times", i, n, got)
			}
		}
	}
}

// Whoever recovers what Compile may do recovers it wherever it was done.
func TestParallelPanics(t *testing.T) {
	defer func() {
		if v := recover(); v != "seven" {
			t.Errorf("%v", v)
		}
	}()
	parallel(20, func(i int) {
		if i == 7 {
			panic("seven")
		}
	})
	t.Error("it went on")
}

// Faults are in the order of the file, whoever found them first.
func TestFaultsAreInOrder(t *testing.T) {
	in := large(300)
	for i, r := range in.Routes {
		r.Hosts[0] = "in valid"
		in.Clusters[i].Endpoints[0].Address = "nowhere"
	}
	_, violations := Compile(in)
	if len(violations) < 600 {
		t.Fatal(len(violations), "violations")
	}
	if !slices.IsSortedFunc(violations, inOrder) {
		t.Error("not in order")
	}
	if first, last := violations[0].Path, violations[len(violations)-1].Path; first != "clusters[0].endpoints[0].address" || last != "routes[299].hosts[0]" {
		t.Error(first, last)
	}
}
