package balance

// Overprovisioning is how much more than its part a priority is taken to bear,
// in percent: with 140, a priority still takes everything while 72% of it are
// available (100/140), and less beyond that. It is Envoy's default.
const Overprovisioning = 140

// Level is the endpoints of one priority.
type Level struct {
	Available int
	Endpoints int // with a weight
}

// capacity is what a level can bear, in percent of all requests.
func (l Level) capacity() int {
	if l.Endpoints == 0 {
		return 0
	}
	return min(100, l.Available*Overprovisioning/l.Endpoints)
}

// Shares is what part of the requests each level takes, in percent. The first
// takes what it can bear, the next one what is left, and so on. If all together
// cannot bear 100 percent, each takes a part in proportion, and the first that
// takes something what is lost by rounding. The sum is 100, or 0 if nothing is
// available.
func Shares(levels []Level) []int {
	shares := make([]int, len(levels))
	total := Capacity(levels)
	if total == 0 {
		return shares
	}
	left, first := 100, -1
	for i, l := range levels {
		shares[i] = min(left, l.capacity()*100/total)
		left -= shares[i]
		if first < 0 && shares[i] > 0 {
			first = i
		}
	}
	shares[max(first, 0)] += left
	return shares
}

// Capacity is what all levels can bear together, in percent; 100 is enough.
func Capacity(levels []Level) int {
	total := 0
	for _, l := range levels {
		total += l.capacity()
	}
	return min(100, total)
}
