package socket

// hops decides whether a connection looks for what it waits for before it asks the
// poller. A look that finds something saves the wait; one in vain costs a system
// call. And while goroutines look instead of waiting, the runtime does not ask the
// poller who else could go on: so after a few each has to wait there like everybody.
type hops struct {
	found uint8 // looks in a row that found something
	pause uint8 // waits without a look that are still to come
}

const (
	maxHops  = 3 // looks in a row
	hopPause = 7 // waits without a look after one in vain
)

// next reports whether there may be a look.
func (h *hops) next() bool {
	switch {
	case h.pause > 0:
		h.pause--
		return false
	case h.found == maxHops:
		h.found = 0
		return false
	}
	h.found++
	return true
}

// vain says that a look has found nothing.
func (h *hops) vain() { h.found, h.pause = 0, hopPause }
