package socket

// hops counts the reads of a connection in a row that found what they wanted
// without the poller. While goroutines let each other run instead of waiting, the
// runtime does not ask the poller who else could; so after a few each has to wait
// there like everybody.
type hops uint8

const maxHops = 3

// next reports whether there may be another one.
func (h *hops) next() bool {
	*h++
	if *h <= maxHops {
		return true
	}
	*h = 0
	return false
}
