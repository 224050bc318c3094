//go:build !race

package socket

import "testing"

// TestAwaitAllocs: a wait costs none but the first on a connection.
func TestAwaitAllocs(t *testing.T) {
	c, far := awaited(t, newLoop(t))
	a, x := newTold(), []byte("x")
	wait := func() {
		a.awaits(t, c, minute())
		send(t, far, x)
		a.arrives(t)
		c.FillOnce()
		c.Consume(1)
		c.Release()
	}
	wait()
	if n := testing.AllocsPerRun(100, wait); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
