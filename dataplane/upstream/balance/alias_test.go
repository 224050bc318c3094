package balance

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// indices are those of weights, to draw.
func indices(weights []int) []int {
	list := make([]int, len(weights))
	for i := range list {
		list[i] = i
	}
	return list
}

// The parts of the columns that belong to an element add up to its share.
func TestAliasIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(-1, 1_000_000), 1, 200).Draw(t, "weights")
		total := 0
		for _, w := range weights {
			total += max(w, 0)
		}
		a := NewAlias(weights, indices(weights))
		if total == 0 {
			if !a.Empty() {
				t.Fatal("a table of nobody")
			}
			return
		}
		part := make([]float64, len(weights))
		for i, c := range a.columns {
			own := float64(c.threshold) / (1 << 32)
			part[i] += own
			part[c.other] += 1 - own
		}
		for i, w := range weights {
			want := float64(max(w, 0)) / float64(total)
			if got := part[i] / float64(len(weights)); math.Abs(got-want) > 1e-8 || w <= 0 && got > 0 {
				t.Fatalf("element %d of weight %d: %v of the draws, want %v", i, w, got, want)
			}
		}
	})
}

func TestAliasDraws(t *testing.T) {
	weights := []int{1, 0, 3, 6}
	a := NewAlias(weights, indices(weights))
	rnd := rand.New(rand.NewPCG(1, 2))
	const n = 100_000
	counts := make([]int, len(weights))
	for range n {
		counts[*a.Draw(rnd.Uint64())]++
	}
	for i, w := range weights {
		if share := float64(counts[i]) / n; math.Abs(share-float64(w)/10) > 0.005 {
			t.Errorf("element %d of weight %d: %v of the draws", i, w, share)
		}
	}
}

func TestAliasTakesAnyBits(t *testing.T) {
	a := NewAlias([]int{0, 5, 0}, []int{0, 1, 2})
	for _, random := range []uint64{0, 1, math.MaxUint32, 1 << 32, math.MaxUint64 - 1, math.MaxUint64} {
		if i := *a.Draw(random); i != 1 {
			t.Errorf("%x draws %d", random, i)
		}
	}
}
