package balance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// heap eights are checked against a look at all elements.
func TestLeastAgainstAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(0, 5), 1, 600).Draw(t, "weights")
		tree, loads := NewLeast(weights), make([]int64, len(weights))
		for range rapid.IntRange(1, 50).Draw(t, "changes") {
			i := rapid.IntRange(0, len(weights)-1).Draw(t, "element")
			loads[i] = rapid.Int64Range(0, 3).Draw(t, "load")
			tree.Set(i, loads[i])
		}
		got := tree.Choose(rapid.Uint64().Draw(t, "share"))
		want := leastOf(weights, loads)
		if len(want) == 0 && got != -1 || len(want) > 0 && !slices.Contains(want, got) {
			t.Fatalf("chose %d, want one of %v", got, want)
		}
	})
}

// leastOf is the elements with the least load for their weight.
func leastOf(weights []int, loads []int64) (list []int) {
	least := math.Inf(1)
	for i, w := range weights {
		switch load := float64(float32(loads[i]) / float32(w)); {
		case w == 0 || load > least:
		case load == least:
			list = append(list, i)
		default:
			list, least = []int{i}, load
		}
	}
	return list
}

// Among equals the share decides in proportion to weight, without gaps.
func TestLeastBreaksTiesByWeight(t *testing.T) {
	for _, n := range []int{1, 7, 8, 9, 64, 65, 1000} {
		weights := make([]int, n)
		for i := range weights {
			weights[i] = i % 4
		}
		weights[0] = 3
		tree := NewLeast(weights)
		tree.Set(n/2, 1)
		total := 0
		for i, w := range weights {
			if i != n/2 || n == 1 {
				total += w
			}
		}
		counts := make([]int, n)
		for place := range total {
			counts[tree.Choose(uint64((float64(place)+0.5)/float64(total)*math.MaxUint64))]++
		}
		for i, w := range weights {
			if i == n/2 && n > 1 {
				w = 0
			}
			if counts[i] != w {
				t.Fatalf("of %d: element %d has %d of %d shares, want %d", n, i, counts[i], total, w)
			}
		}
	}
}

func TestLeastOfNobody(t *testing.T) {
	if i := NewLeast([]int{0, 0, -1}).Choose(7); i != -1 {
		t.Errorf("chose %d", i)
	}
}

func TestLeastScalesHugeWeights(t *testing.T) {
	weights := slices.Repeat([]int{100_000_000}, 3000)
	weights[0] = 1
	tree := NewLeast(weights)
	sum := uint64(0)
	for _, w := range tree.weights {
		sum += uint64(w)
	}
	if sum > math.MaxUint32 || tree.weights[0] != 1 {
		t.Errorf("sum %d, the first %d", sum, tree.weights[0])
	}
	if i := tree.Choose(math.MaxUint64); i != len(weights)-1 {
		t.Errorf("the last share is %d's", i)
	}
}

// Many change loads at one time. Afterwards every node is exact.
func TestLeastAfterContention(t *testing.T) {
	const n, workers, each = 100, 8, 3000
	weights := make([]int, n)
	for i := range weights {
		weights[i] = 1 + i%3
	}
	tree := NewLeast(weights)
	loads := make([]atomic.Int64, n)
	change := func(i int, by int64) {
		loads[i].Add(by)
		for now := loads[i].Load(); ; {
			tree.Set(i, now)
			again := loads[i].Load()
			if again == now {
				return
			}
			now = again
		}
	}
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(worker), 1))
			var mine []int
			for range each {
				if len(mine) > 0 && rnd.IntN(2) == 0 {
					change(mine[0], -1)
					mine = mine[1:]
					continue
				}
				i := tree.Choose(rnd.Uint64())
				if i < 0 || i >= n {
					t.Errorf("chose %d", i)
					return
				}
				change(i, 1)
				mine = append(mine, i)
			}
		})
	}
	all.Wait()
	for i := range loads {
		if leaf := tree.at(tree.leaf + i).Load(); leaf != word(loads[i].Load(), tree.weights[i]) {
			t.Errorf("leaf %d is %x with %d in flight", i, leaf, loads[i].Load())
		}
	}
	for i := range tree.lines {
		if got, want := tree.at(i).Load(), tree.lines[i].least(); got != want {
			t.Errorf("node %d is %x, want %x", i, got, want)
		}
	}
}

func BenchmarkLeast(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		weights := make([]int, n)
		for i := range weights {
			weights[i] = 1 + i%3
		}
		tree := NewLeast(weights)
		var p Position
		for i := range weights {
			tree.Set(i, int64(i%5))
		}
		b.Run(fmt.Sprintf("choose of %d", n), func(b *testing.B) {
			for b.Loop() {
				tree.Choose(p.Share())
			}
		})
		b.Run(fmt.Sprintf("set one of %d", n), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				tree.Set(i%n, int64(i%7))
			}
		})
	}
}
