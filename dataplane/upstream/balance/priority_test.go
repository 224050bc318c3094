package balance

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestShares(t *testing.T) {
	for _, test := range []struct {
		name   string
		levels []Level
		want   []int
	}{
		{"all is well", []Level{{10, 10}, {10, 10}}, []int{100, 0}},
		{"enough is left", []Level{{8, 10}, {10, 10}}, []int{100, 0}},
		{"half is gone", []Level{{5, 10}, {10, 10}}, []int{70, 30}},
		{"a quarter is left", []Level{{1, 4}, {4, 4}}, []int{35, 65}},
		{"none is left", []Level{{0, 10}, {10, 10}}, []int{0, 100}},
		{"the third is needed", []Level{{0, 3}, {1, 4}, {2, 2}}, []int{0, 35, 65}},
		{"not enough at all", []Level{{1, 4}, {1, 4}}, []int{50, 50}},
		{"far from enough, in proportion", []Level{{1, 10}, {3, 10}}, []int{25, 75}},
		{"lost by rounding", []Level{{1, 7}, {1, 7}, {1, 7}}, []int{34, 33, 33}},
		{"nothing", []Level{{0, 10}, {0, 0}}, []int{0, 0}},
		{"one only", []Level{{1, 10}}, []int{100}},
	} {
		if got := Shares(test.levels); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// All shares are 100 together, nobody takes something who has nobody, and a
// later level takes something only if the earlier ones are not whole.
func TestSharesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		levels := make([]Level, rapid.IntRange(1, 6).Draw(t, "levels"))
		for i := range levels {
			levels[i].Endpoints = rapid.IntRange(0, 300).Draw(t, "endpoints")
			levels[i].Available = rapid.IntRange(0, levels[i].Endpoints).Draw(t, "available")
		}
		shares := Shares(levels)
		sum, whole := 0, false
		for i, share := range shares {
			sum += share
			if share < 0 || share > 0 && (levels[i].Available == 0 || whole) {
				t.Fatalf("%v: shares %v", levels, shares)
			}
			whole = whole || levels[i].capacity() == 100
		}
		want := 0
		if Capacity(levels) > 0 {
			want = 100
		}
		if sum != want {
			t.Fatalf("%v: shares %v", levels, shares)
		}
	})
}

func TestRamp(t *testing.T) {
	const window = 30 * time.Second
	for after, want := range map[time.Duration]int{
		-time.Second: 10, 0: 10, time.Second: 10, 2 * time.Second: 15, 15 * time.Second: 55,
		29 * time.Second: 95, 30 * time.Second: 100, time.Hour: 100,
	} {
		if got := Ramp(int64(time.Hour+after), int64(time.Hour), window); got != want {
			t.Errorf("after %v: %d%%, want %d%%", after, got, want)
		}
	}
	if got := Ramp(5, 5, 0); got != 100 {
		t.Errorf("without slow start: %d%%", got)
	}
	if got := RampStep(window); got != window/18 {
		t.Errorf("step %v", got)
	}
}
