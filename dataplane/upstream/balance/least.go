package balance

import (
	"math"
	"math/bits"
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
//
// The lines lie level by level, as in a heap: the children of child c of line i
// are line fanOut*i+1+c. So the way down needs nothing but the lines on it.
type Least struct {
	root    node
	leaf    int        // the number of the first leaf, if each child of each line has one
	lines   []nodeLine // the root's children first
	weights []uint32   // of the leaves; 0: never chosen
}

// node is a word.
type node struct{ atomic.Uint64 }

// nodeLine is the words of siblings, which are in one cache line.
type nodeLine [fanOut]node

// A word is a key above the weight of those that have it. Keys are float32,
// whose bits order like the numbers as none is negative.
const (
	keyBits = 32
	nobody  = uint64(math.MaxUint32) << keyBits // a key above all others
)

func word(load int64, weight uint32) uint64 {
	key := math.Float32bits(float32(max(load, 0)) / float32(weight))
	return uint64(key)<<keyBits | uint64(weight)
}

// NewLeast makes the tree for weights, all without load. Weights of 0 or less
// are never chosen.
func NewLeast(weights []int) *Least {
	t := &Least{weights: scaleDown(weights)}
	above, width := 0, 1 // lines
	for width*fanOut < len(weights) {
		above, width = above+width, width*fanOut
	}
	t.leaf = above*fanOut + 1
	t.lines = make([]nodeLine, above+(len(weights)+fanOut-1)/fanOut)
	for i := range t.lines {
		for j := range t.lines[i] {
			t.lines[i][j].Store(nobody)
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

// at is the node of a number: 0 is the root, the others are children of lines.
func (t *Least) at(number int) *node {
	if number == 0 {
		return &t.root
	}
	number--
	return &t.lines[number/fanOut][number%fanOut]
}

// Set says what the load of element i is. The caller must see to it that the
// last word on an element is the right one: whoever changes a load reads it
// again after Set, and calls Set again if it has changed.
func (t *Least) Set(i int, load int64) {
	if t.weights[i] == 0 {
		return
	}
	now, number := word(load, t.weights[i]), t.leaf+i
	if leaf := t.at(number); leaf.Load() != now {
		leaf.Store(now)
	}
	for number > 0 {
		number = (number - 1) / fanOut
		if !t.lines[number].repair(t.at(number)) {
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

// least is the word of a line's parent. It has no branch: which child has less
// is nothing that the processor could guess.
func (l *nodeLine) least() uint64 {
	a, b, c, d := l[0].Load(), l[1].Load(), l[2].Load(), l[3].Load()
	key := min(min(a>>keyBits, b>>keyBits), min(c>>keyBits, d>>keyBits))
	return key<<keyBits + (tied(a, key) + tied(b, key)) + (tied(c, key) + tied(d, key))
}

// tied is the weight in a word if it has the key, and else 0.
func tied(word, key uint64) uint64 {
	weight := word - key<<keyBits
	if weight > math.MaxUint32 {
		weight = 0
	}
	return weight
}

// Choose returns the index of the element with the least load for its weight,
// or -1 if none has a weight. share, any 64 bits, breaks ties: evenly spread
// shares give each of equals its part.
func (t *Least) Choose(share uint64) int {
	root := t.root.Load()
	if root == nobody {
		return -1
	}
	// The place among the weights of all that have the least key.
	key := root >> keyBits
	place, _ := bits.Mul64(share, root&math.MaxUint32)
	number := 0
	for number < t.leaf {
		line := &t.lines[number]
		child, before := line.pick(key, place)
		if child == fanOut {
			child, before = line.any(), place
			key = line[child].Load() >> keyBits
		}
		number, place = number*fanOut+1+child, place-before
	}
	return number - t.leaf
}

// pick is the child with the key that a place among their weights falls to, and
// the weights before it; fanOut if there is none, as may be while loads change.
// It is written out and has no branch, as the processor would guess wrong at
// every level.
func (l *nodeLine) pick(key, place uint64) (child int, before uint64) {
	first := tied(l[0].Load(), key)
	second := first + tied(l[1].Load(), key)
	third := second + tied(l[2].Load(), key)
	fourth := third + tied(l[3].Load(), key)
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

// any is a child with the least key.
func (l *nodeLine) any() (child int) {
	best := l[0].Load()
	for i := range l {
		if w := l[i].Load(); w>>keyBits < best>>keyBits {
			child, best = i, w
		}
	}
	return child
}
