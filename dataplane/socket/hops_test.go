package socket

import "testing"

// Looks follow each other three times at most, so that the poller is asked; and
// after one in vain there is none for seven waits.
func TestHops(t *testing.T) {
	var h hops
	look := func(want ...bool) {
		t.Helper()
		for i, w := range want {
			if got := h.next(); got != w {
				t.Fatalf("wait %d: a look is %v", i, got)
			}
		}
	}
	look(true, true, true, false, true, true, true, false, true)
	h.vain()
	look(false, false, false, false, false, false, false, true, true, true, false)
}
