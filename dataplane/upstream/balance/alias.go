package balance

import "math/bits"

// Alias draws at random by weight in constant time, by Walker's alias method as
// Vose builds it (IEEE Trans. Software Eng. 17(9), 1991): a column for each
// element, which is shared by at most one other.
type Alias struct{ columns []column }

// column belongs to its own index below the threshold, and to other above.
type column struct {
	threshold uint32
	other     int32
}

// NewAlias makes the table for weights. Those of 0 or less are never drawn. It
// is nil if there are no others. A share is off by less than one in 2^32.
func NewAlias(weights []int) *Alias {
	total := 0
	for _, w := range weights {
		total += max(w, 0)
	}
	if total == 0 {
		return nil
	}
	a := &Alias{columns: make([]column, len(weights))}
	share := make([]float64, len(weights)) // in columns
	var small, large []int32
	for i, w := range weights {
		share[i] = float64(max(w, 0)) / float64(total) * float64(len(weights))
		if share[i] < 1 {
			small = append(small, int32(i))
		} else {
			large = append(large, int32(i))
		}
	}
	a.pair(share, small, large)
	return a
}

// pair fills the column of each small one with a part of a large one.
func (a *Alias) pair(share []float64, small, large []int32) {
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		a.columns[s] = column{threshold: uint32(share[s] * (1 << 32)), other: l}
		share[l] -= 1 - share[s]
		if share[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	// What is left is 1 but for rounding.
	for _, rest := range [][]int32{small, large} {
		for _, i := range rest {
			a.columns[i] = column{threshold: 1<<32 - 1, other: i}
		}
	}
}

// Draw turns 64 random bits into an index.
func (a *Alias) Draw(random uint64) int {
	i, rest := bits.Mul64(random, uint64(len(a.columns)))
	c := &a.columns[i]
	if uint32(rest>>32) < c.threshold {
		return int(i)
	}
	return int(c.other)
}
