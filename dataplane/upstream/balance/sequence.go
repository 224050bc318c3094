// Package balance decides which endpoint of a cluster takes the next request: by
// turns (Sequence), at random (Alias), by load (Least), by latency (Latency), by
// a property of the request (Maglev); and how large the part of a priority or of
// a starting endpoint is (Shares, Ramp).
// It knows weights and positions, and nothing of connections, health or
// configuration: whoever uses it leaves out what is not available and builds
// anew when that changes.
package balance

import (
	"cmp"
	"slices"
)

// MaxSequence bounds the length of a Sequence of up to MaxSequence/16
// endpoints; with more there are at most 17 positions for each.
const MaxSequence = 8192

// Sequence is the order in which smooth weighted round robin visits endpoints,
// written out for one period. Its elements are indices into weights. Endpoint i
// is there weights[i]/gcd(weights) times, spread out as evenly as it goes:
// 5:1:1 is a a b a c a a. A weight of 0 or less is never there.
//
// Weights whose period is longer than the bound are scaled down. Each share is
// then off by less than one position, so by one request in MaxSequence;
// weights too small for that are raised to one position, which takes at most
// one sixteenth away from the others.
func Sequence(weights []int) []int32 {
	classes, total := classify(scale(weights))
	if len(classes) == 1 {
		return classes[0].members // of weight 1 after scaling
	}
	order := make([]int32, 0, total)
	for step := 1; step <= total; step++ {
		best := &classes[0]
		for i := 1; i < len(classes); i++ {
			if classes[i].before(best, step, total) {
				best = &classes[i]
			}
		}
		order = append(order, best.candidate())
		best.taken++
	}
	return order
}

// A class holds the endpoints of one weight. They have their turns in order,
// so only one of a class is ever a candidate. Distinct weights within a bounded
// sum are few, which keeps building cheap whatever the number of endpoints.
type class struct {
	weight  int
	members []int32
	taken   int // turns that members had
}

func (c *class) candidate() int32 { return c.members[c.taken%len(c.members)] }

// credit is the candidate's current weight of smooth weighted round robin:
// its weight for each step, less the total for each turn it had.
func (c *class) credit(step, total int) int {
	return step*c.weight - total*(c.taken/len(c.members))
}

// before reports whether the candidate of c goes before that of d: the larger
// credit first, then the lower index.
func (c *class) before(d *class, step, total int) bool {
	a, b := c.credit(step, total), d.credit(step, total)
	return a > b || a == b && c.candidate() < d.candidate()
}

// classify groups the indices of equal weights.
func classify(weights []int) (classes []class, total int) {
	position := make(map[int]int)
	for i, w := range weights {
		if w <= 0 {
			continue
		}
		total += w
		p, ok := position[w]
		if !ok {
			p = len(classes)
			position[w] = p
			classes = append(classes, class{weight: w})
		}
		classes[p].members = append(classes[p].members, int32(i))
	}
	return classes, total
}

// scale divides by the greatest common divisor, and makes weights whose sum is
// still too large fit by largest remainders.
func scale(weights []int) []int {
	divisor, sum, n := 0, 0, 0
	for _, w := range weights {
		if w > 0 {
			divisor, sum, n = gcd(w, divisor), sum+w, n+1
		}
	}
	bound := max(MaxSequence, 16*n)
	if n == 0 {
		return nil
	}
	if sum/divisor <= bound {
		return divide(weights, divisor)
	}
	return apportion(weights, sum, bound)
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func divide(weights []int, divisor int) []int {
	scaled := make([]int, len(weights))
	for i, w := range weights {
		scaled[i] = max(w, 0) / divisor
	}
	return scaled
}

// apportion hands bound positions out in proportion to weights, at least one
// to each that has a weight.
func apportion(weights []int, sum, bound int) []int {
	scaled := make([]int, len(weights))
	rest := make([]float64, len(weights))
	left := bound
	byRest := make([]int, 0, len(weights))
	for i, w := range weights {
		if w <= 0 {
			continue
		}
		exact := float64(w) * float64(bound) / float64(sum)
		scaled[i] = max(1, int(exact))
		rest[i] = exact - float64(scaled[i])
		left -= scaled[i]
		byRest = append(byRest, i)
	}
	slices.SortStableFunc(byRest, func(i, j int) int { return cmp.Compare(rest[j], rest[i]) })
	for _, i := range byRest[:max(0, min(left, len(byRest)))] {
		scaled[i]++
	}
	return scaled
}
