package balance

// Whole is all requests: shares of zones are parts of it.
const Whole = 1 << 16

// MaxZones bounds the zones of a cluster that are told apart. With more, they
// make no difference.
const MaxZones = 16

// Zones is what part of the requests each zone takes that arrive in zone own, out
// of Whole. Capacities are the weights of what is available in each zone; of a
// zone that has nothing available it is 0.
//
// The own zone takes all that it can without its endpoints having more to do than
// those elsewhere, if each zone has as many requests arriving: what it has beyond
// that goes to zones that have room, in proportion. So as endpoints of a zone
// fail, the others take over little by little, and all that are left have the
// same load. Envoy's zone aware routing does the same with the requests that
// really arrive, which a node by itself cannot know.
//
// The sum is Whole, or 0 if nothing is available.
func Zones(own int, capacities []int) []int {
	shares := make([]int, len(capacities))
	total := 0
	for _, c := range capacities {
		total += c
	}
	if total == 0 {
		return shares
	}
	fair := float64(total) / float64(len(capacities)) // what arrives in each zone, in units of capacity
	if float64(capacities[own]) >= fair {
		shares[own] = Whole
		return shares
	}
	shares[own] = int(Whole * float64(capacities[own]) / fair)
	spill(shares, Whole-shares[own], fair, capacities)
	return shares
}

// spill shares an overflow out to the zones that have more than is fair. The one
// with the most gets what is lost by rounding.
func spill(shares []int, overflow int, fair float64, capacities []int) {
	room, roomiest := 0.0, 0
	for i, c := range capacities {
		room += max(0, float64(c)-fair)
		if c > capacities[roomiest] {
			roomiest = i
		}
	}
	left := overflow
	for i, c := range capacities {
		if spare := float64(c) - fair; spare > 0 {
			part := int(float64(overflow) * spare / room)
			shares[i] += part
			left -= part
		}
	}
	shares[roomiest] += left
}
