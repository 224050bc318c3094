package balance

import "math/bits"

// Alias draws values at random by weight in constant time, by Walker's alias
// method as Vose builds it (IEEE Trans. Software Eng. 17(9), 1991): a column for
// each value, which is shared by at most one other. The value stands in its
// column, so that most draws read one place of memory. The zero value has
// nothing to draw.
type Alias[T any] struct{ columns []column[T] }

// column belongs to its own index below the threshold, and to other above.
type column[T any] struct {
	threshold uint32
	other     int32
	value     T
}

// NewAlias makes the table of values by their weights, of which there are as many.
// Values of weight 0 or less are never drawn. It is empty if there are no others.
// A share is off by less than one in 2^32.
func NewAlias[T any](weights []int, values []T) (a Alias[T]) {
	total := 0
	for _, w := range weights {
		total += max(w, 0)
	}
	if total == 0 {
		return a
	}
	a.columns = make([]column[T], len(weights))
	share := make([]float64, len(weights)) // in columns
	var small, large []int32
	for i, w := range weights {
		a.columns[i].value = values[i]
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
func (a *Alias[T]) pair(share []float64, small, large []int32) {
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		a.columns[s].share(uint32(share[s]*(1<<32)), l)
		share[l] -= 1 - share[s]
		if share[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	// What is left is 1 but for rounding.
	for _, rest := range [][]int32{small, large} {
		for _, i := range rest {
			a.columns[i].share(1<<32-1, i)
		}
	}
}

func (c *column[T]) share(threshold uint32, other int32) { c.threshold, c.other = threshold, other }

// Empty reports whether there is nothing to draw.
func (a *Alias[T]) Empty() bool { return len(a.columns) == 0 }

// Draw turns 64 random bits into a value, which must not be changed. Equal values
// are at equal addresses. It panics if the table is empty.
func (a *Alias[T]) Draw(random uint64) *T {
	i, rest := bits.Mul64(random, uint64(len(a.columns)))
	c := &a.columns[i]
	// 1 if it is the other's. A jump would be guessed wrong often.
	beyond := (uint64(c.threshold) - rest>>32 - 1) >> 63
	return &a.columns[i^(i^uint64(c.other))&-beyond].value
}
