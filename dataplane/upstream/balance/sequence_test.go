package balance

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSequence(t *testing.T) {
	for _, test := range []struct {
		name    string
		weights []int
		want    string
	}{
		{"none", nil, ""},
		{"one", []int{7}, "a"},
		{"equal", []int{2, 2, 2}, "a b c"},
		{"three to one", []int{3, 1}, "a a b a"},
		{"spread out", []int{5, 1, 1}, "a a b a c a a"},
		{"two classes of two", []int{2, 1, 2, 1}, "a c b d a c"},
		{"drained", []int{1, 0, 1}, "a c"},
		{"negative is drained", []int{1, -3, 1}, "a c"},
		{"all drained", []int{0, 0}, ""},
		{"shortest period", []int{300, 100}, "a a b a"},
	} {
		if got := letters(Sequence(test.weights)); got != test.want {
			t.Errorf("%s: %v: %q, want %q", test.name, test.weights, got, test.want)
		}
	}
}

func letters(order []int32) string {
	words := make([]string, len(order))
	for i, o := range order {
		words[i] = string('a' + o)
	}
	return strings.Join(words, " ")
}

// smooth is smooth weighted round robin as it is defined: every endpoint gains
// its weight, the first of the richest goes and pays the total.
func smooth(weights []int, steps int) []int32 {
	credit := make([]int, len(weights))
	total := 0
	for _, w := range weights {
		total += w
	}
	order := make([]int32, 0, steps)
	for range steps {
		best := -1
		for i, w := range weights {
			credit[i] += w
			if w > 0 && (best < 0 || credit[i] > credit[best]) {
				best = i
			}
		}
		credit[best] -= total
		order = append(order, int32(best))
	}
	return order
}

func TestSequenceIsSmoothRoundRobin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(0, 12), 1, 12).Draw(t, "weights")
		got := Sequence(weights)
		if len(got) == 0 {
			return
		}
		if diff := cmp.Diff(smooth(weights, len(got)), got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Whatever the place one starts from, a period gives each endpoint its weight.
func TestShareIsExactOverAPeriod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(0, 50), 1, 20).Draw(t, "weights")
		order := Sequence(weights)
		if len(order) == 0 {
			return
		}
		var p Position
		for range rapid.IntRange(0, 1000).Draw(t, "start") {
			p.Next(len(order))
		}
		counts := make([]int, len(weights))
		for range order {
			counts[order[p.Next(len(order))]]++
		}
		for i, n := range counts {
			if n*sum(weights) != weights[i]*len(order) {
				t.Fatalf("endpoint %d of weight %d: %d of %d", i, weights[i], n, len(order))
			}
		}
	})
}

func sum(weights []int) (total int) {
	for _, w := range weights {
		total += w
	}
	return total
}

// Weights that need too long a period lose less than one position each.
func TestScaledShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 1_000_000), 2, 50).Draw(t, "weights")
		order := Sequence(weights)
		if len(order) > MaxSequence+len(weights) {
			t.Fatalf("%d positions", len(order))
		}
		counts := make([]int, len(weights))
		for _, i := range order {
			counts[i]++
		}
		for i, n := range counts {
			share := float64(weights[i]) / float64(sum(weights))
			off := float64(n) - share*float64(len(order))
			// The raised ones, at most one position each, come out of all.
			if n < 1 || off > 1 || off < -1-share*float64(len(weights)) {
				t.Fatalf("endpoint %d: %d of %d positions, share %f", i, n, len(order), share)
			}
		}
	})
}

func TestPositionCountsEveryRequestOnce(t *testing.T) {
	var p Position
	const workers, each, length = 4, 1000, 8
	results := make(chan [length]int)
	for range workers {
		go func() {
			var counts [length]int
			for range each {
				counts[p.Next(length)]++
			}
			results <- counts
		}()
	}
	var total [length]int
	for range workers {
		for i, n := range <-results {
			total[i] += n
		}
	}
	for i, n := range total {
		if n != workers*each/length {
			t.Errorf("place %d: %d", i, n)
		}
	}
}

func BenchmarkSequence(b *testing.B) {
	equal, distinct := make([]int, 1000), make([]int, 1000)
	for i := range equal {
		equal[i], distinct[i] = 1, i+1
	}
	for name, weights := range map[string][]int{"equal": equal, "distinct": distinct} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Sequence(weights)
			}
		})
	}
}
