package balance

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestZones(t *testing.T) {
	for _, tt := range []struct {
		why        string
		capacities []int // own first
		percent    []int
	}{
		{"alone", []int{3}, []int{100}},
		{"as much as others", []int{3, 3, 3}, []int{100, 0, 0}},
		{"more than others", []int{5, 3}, []int{100, 0}},
		{"one of three failed", []int{2, 3, 3}, []int{75, 12, 12}},
		{"two of three failed", []int{1, 3, 3}, []int{42, 28, 28}},
		{"all failed", []int{0, 3, 3}, []int{0, 50, 50}},
		{"another one failed", []int{3, 0, 3}, []int{100, 0, 0}},
		{"small, beside one that is large and one that is small too", []int{1, 1, 4}, []int{50, 0, 50}},
		{"nothing anywhere", []int{0, 0}, []int{0, 0}},
	} {
		for i, share := range Zones(0, scaled(tt.capacities, 1000)) {
			if got := 100 * float64(share) / Whole; math.Abs(got-float64(tt.percent[i])) > 1 {
				t.Errorf("%s: zone %d has %.1f%%, want %d%%", tt.why, i, got, tt.percent[i])
			}
		}
	}
}

func scaled(list []int, by int) []int {
	out := make([]int, len(list))
	for i, n := range list {
		out[i] = n * by
	}
	return out
}

// If each zone has as many requests arriving, all endpoints have the same load,
// whatever is available where; and no zone sends away what it could do itself.
func TestZonesProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacities := scaled(rapid.SliceOfN(rapid.IntRange(0, 50), 1, MaxZones).Draw(t, "capacities"), 10_000)
		load, total := make([]float64, len(capacities)), 0
		for _, c := range capacities {
			total += c
		}
		for own := range capacities {
			shares, sum := Zones(own, capacities), 0
			for i, s := range shares {
				if s < 0 || s > 0 && capacities[i] == 0 {
					t.Fatalf("from zone %d of %v: %v", own, capacities, shares)
				}
				sum += s
				load[i] += float64(s) / Whole / float64(len(capacities))
			}
			if want := Whole; sum != want && total > 0 || total == 0 && sum != 0 {
				t.Fatalf("from zone %d of %v: %v, which is %d of %d", own, capacities, shares, sum, want)
			}
			if all := Whole * capacities[own] * len(capacities) / max(total, 1); shares[own] < min(Whole, all)-1 {
				t.Fatalf("zone %d of %v keeps %d of %d", own, capacities, shares[own], Whole)
			}
		}
		for i, c := range capacities {
			if want := float64(c) / float64(max(total, 1)); math.Abs(load[i]-want) > 0.001 {
				t.Fatalf("zone %d of %v has %.4f of the load, want %.4f", i, capacities, load[i], want)
			}
		}
	})
}

func ExampleZones() {
	// Zone 0 has lost one of its three endpoints.
	fmt.Println(Zones(0, []int{200, 300, 300}), Whole)
	// Output: [49152 8192 8192] 65536
}
