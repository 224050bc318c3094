package retry

import "time"

// Hedge says when a further attempt begins beside those that have not answered:
// so long after the one before, up to a number. The zero value never says so.
type Hedge struct {
	After time.Duration
	Max   int // further attempts

	last int64 // when the last attempt began
}

// Began notes that an attempt began, whatever for.
func (h *Hedge) Began(now int64) { h.last = now }

// Due is when a further attempt begins, on the clock of Began; 0: none does.
func (h *Hedge) Due() int64 {
	if h.Max <= 0 || h.last == 0 {
		return 0
	}
	return h.last + int64(h.After)
}

// Take uses up one of the further attempts. It is false if it is not time yet,
// or there is none left.
func (h *Hedge) Take(now int64) bool {
	if due := h.Due(); due == 0 || now < due {
		return false
	}
	h.Max--
	return true
}

// Stop says that no more begin.
func (h *Hedge) Stop() { h.Max = 0 }
