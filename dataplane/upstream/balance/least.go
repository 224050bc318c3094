package balance

import (
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
)

// fanOut is how many children a node has. Two would double the levels; with
// eight, looking at all of them costs more than the levels that it saves.
const fanOut = 4

// Least finds the element with the least load for its weight. It is a tree of
// minima over words that are read and written without a lock: to choose walks
// from the root down, to change a load walks from its leaf up. 1,000
// elements are five levels.
//
// A node holds the least key below it, and the weight of all that have that key.
// Ties are thereby broken in proportion to weight, so that an idle cluster is
// used as its weights say, and not by its first element alone.
//
// While loads change, a choice may go by a minimum that is a moment old. When
// nothing changes any more, every node is exact.
type Least struct {
	weights []uint32     // of the leaves; 0: never chosen
	levels  [][]nodeLine // leaves first, the root's children last
	root    node
}

// node is a word.
type node struct{ atomic.Uint64 }

// nodeLine is the words of siblings.
type nodeLine [fanOut]node

// A word is a key above the weight of those that have it. Keys are float32,
// whose bits order like the numbers as none is negative.
const nobody = uint64(math.MaxUint32) << 32 // a key above all others

func word(load int64, weight uint32) uint64 {
	key := math.Float32bits(float32(max(load, 0)) / float32(weight))
	return uint64(key)<<32 | uint64(weight)
}

// NewLeast makes the tree for weights, all without load. Weights of 0 or less
// are never chosen.
func NewLeast(weights []int) *Least {
	t := &Least{weights: scaleDown(weights)}
	for n := len(weights); ; n = len(t.levels[len(t.levels)-1]) {
		t.levels = append(t.levels, make([]nodeLine, (n+fanOut-1)/fanOut))
		if n <= fanOut {
			break
		}
	}
	for _, level := range t.levels {
		for i := range level {
			for j := range level[i] {
				level[i][j].Store(nobody)
			}
		}
	}
	t.root.Store(nobody)
	for i := range weights {
		t.Set(i, 0)
	}
	return t
}

// scaleDown makes the sum of weights fit in 32 bits.
func scaleDown(weights []int) []uint32 {
	total := 0
	for _, w := range weights {
		total += max(w, 0)
	}
	scaled := make([]uint32, len(weights))
	divisor := total>>31 + 1
	for i, w := range weights {
		if w > 0 {
			scaled[i] = uint32(max(1, w/divisor))
		}
	}
	return scaled
}

// Set says what the load of element i is. The caller must see to it that the
// last word on an element is the right one: whoever changes a load reads it
// again after Set, and calls Set again if it has changed.
func (t *Least) Set(i int, load int64) {
	if t.weights[i] == 0 {
		return
	}
	now := word(load, t.weights[i])
	if leaf := &t.levels[0][i/fanOut][i%fanOut]; leaf.Load() != now {
		leaf.Store(now)
	}
	for level := range t.levels {
		i /= fanOut
		parent := &t.root
		if above := level + 1; above < len(t.levels) {
			parent = &t.levels[above][i/fanOut][i%fanOut]
		}
		if !t.levels[level][i].repair(parent) {
			return
		}
	}
}

// repair brings a node up to date with its children, and reports whether its
// parent may have to follow. It looks again after it has written: another may
// have changed a child before, and have found the node right.
func (l *nodeLine) repair(parent *node) (changed bool) {
	for {
		now := l.least()
		if parent.Load() == now {
			return changed
		}
		parent.Store(now)
		changed = true
	}
}

// least is the word of a line's parent.
func (l *nodeLine) least() uint64 {
	best := nobody
	for i := range l {
		w := l[i].Load()
		tied := best + w&math.MaxUint32
		if w>>32 == best>>32 {
			best = tied
		}
		if w>>32 < best>>32 {
			best = w
		}
	}
	return best
}

// Choose returns the index of the element with the least load for its weight,
// or -1 if none has a weight. share, any 64 bits, breaks ties: evenly spread
// shares give each of equals its part.
func (t *Least) Choose(share uint64) int {
	best := t.root.Load()
	if best == nobody {
		return -1
	}
	// The place among the weights of all that have the least key.
	place, _ := bits.Mul64(share, best&math.MaxUint32)
	at := 0
	for _, lines := range slices.Backward(t.levels) {
		line := &lines[at]
		child, before := line.pick(best>>32, place)
		if child == fanOut {
			child, before = line.any(), place
		}
		best = line[child].Load()
		at, place = at*fanOut+child, place-before
	}
	return at
}

// pick is the child with the key that a place among their weights falls to, and
// the weights before it; fanOut if there is none, as may be while loads change.
// It is written out and has no branch, as the processor would guess wrong at
// every level.
func (l *nodeLine) pick(key, place uint64) (child int, before uint64) {
	first := l[0].tied(key)
	second := first + l[1].tied(key)
	third := second + l[2].tied(key)
	fourth := third + l[3].tied(key)
	// A difference of numbers below 2^63 has the top bit if it is negative.
	below := (place-first)>>63 + (place-second)>>63 + (place-third)>>63 + (place-fourth)>>63
	if place >= first {
		before = first
	}
	if place >= second {
		before = second
	}
	if place >= third {
		before = third
	}
	return fanOut - int(below), before
}

// tied is the weight of a node if it has the key, and else 0.
func (n *node) tied(key uint64) uint64 {
	weight := n.Load() - key<<32
	if weight > math.MaxUint32 {
		weight = 0
	}
	return weight
}

// any is a child with the least key.
func (l *nodeLine) any() (child int) {
	best := l[0].Load()
	for i := range l {
		if w := l[i].Load(); w>>32 < best>>32 {
			child, best = i, w
		}
	}
	return child
}
