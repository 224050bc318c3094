package pool

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dataplane/socket"
)

// result is what Acquire returned, and when.
type result struct {
	name string
	conn *Conn
	err  error
}

// wait lets name wait for p and reports to results.
func wait(p *Pool, name string, patience time.Duration, results chan<- result) {
	go func() {
		c, err := p.Acquire(socket.Now()+int64(patience), nil)
		results <- result{name, c, err}
	}()
	synctest.Wait()
}

func TestFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewGroup(limits(1, 0, 3)).NewPool(2)
		c := open(t, p)
		results := make(chan result, 4)
		for _, name := range []string{"first", "second", "third"} {
			wait(p, name, time.Hour, results)
		}
		wait(p, "one too many", time.Hour, results)
		if r := <-results; r.name != "one too many" || r.err != ErrFull {
			t.Fatalf("%+v", r)
		}
		// A connection that is released goes to the first, as it is.
		c.Release(1)
		if r := <-results; r.name != "first" || r.conn != c || !c.Reused {
			t.Fatalf("%+v", r)
		}
		// One that is closed leaves a place to open another.
		c.Discard()
		if r := <-results; r.name != "second" || r.conn != nil || r.err != nil {
			t.Fatalf("%+v", r)
		}
		// A failed attempt to open one leaves it too.
		p.Cancel()
		if r := <-results; r.name != "third" || r.conn != nil || r.err != nil {
			t.Fatalf("%+v", r)
		}
		counts(t, p, 0, 1)
		p.Cancel()
		counts(t, p, 0, 0)
	})
}

func TestPatienceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup(limits(1, 0, 3))
		p := g.NewPool(2)
		c := open(t, p)
		results := make(chan result, 2)
		began := time.Now()
		wait(p, "patient", time.Hour, results)
		wait(p, "impatient", time.Second, results)
		if r := <-results; r.name != "impatient" || r.err != ErrWaited {
			t.Fatalf("%+v", r)
		}
		if waited := time.Since(began); waited != time.Second {
			t.Fatalf("waited %v", waited)
		}
		if _, waiting := g.Counts(); waiting != 1 {
			t.Fatalf("%d wait", waiting)
		}
		c.Release(0)
		if r := <-results; r.conn != c {
			t.Fatalf("%+v", r)
		}
	})
}

// Who waits for a full endpoint does not hold up those behind.
func TestFullPoolHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup(limits(3, 1, 5))
		a, b := g.NewPool(1), g.NewPool(1)
		c := open(t, a)
		results := make(chan result, 2)
		wait(a, "a", time.Hour, results)
		wait(b, "b", time.Hour, results)
		if r := <-results; r.name != "b" || r.conn != nil || r.err != nil {
			t.Fatalf("%+v", r)
		}
		c.Discard()
		if r := <-results; r.name != "a" {
			t.Fatalf("%+v", r)
		}
	})
}

// Idle connections to one endpoint must not lock the others out of the
// cluster's limit: one of them makes place.
func TestIdleElsewhereMakesPlace(t *testing.T) {
	g := NewGroup(limits(2, 0, 0))
	a, b := g.NewPool(1), g.NewPool(1)
	old, young := open(t, a), open(t, a)
	old.Release(0)
	young.Release(0)
	open(t, b)
	counts(t, a, 1, 1)
	counts(t, b, 0, 1)
	if idle(a, 0) != young {
		t.Fatal("the younger one was closed")
	}
	if _, err := b.Acquire(socket.Now(), nil); err != ErrFull {
		t.Fatalf("error %v", err)
	}
}

func TestReleaseElsewhereMakesPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup(limits(1, 0, 1))
		a, b := g.NewPool(1), g.NewPool(1)
		c := open(t, a)
		results := make(chan result, 1)
		wait(b, "b", time.Hour, results)
		c.Release(0)
		if r := <-results; r.conn != nil || r.err != nil {
			t.Fatalf("%+v", r)
		}
		counts(t, a, 0, 0)
		counts(t, b, 0, 1)
	})
}

func TestHigherLimitLetsWaitersIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup(limits(1, 0, 1))
		p := g.NewPool(1)
		open(t, p)
		results := make(chan result, 1)
		wait(p, "waiter", time.Hour, results)
		g.SetLimits(limits(2, 0, 1))
		if r := <-results; r.conn != nil || r.err != nil {
			t.Fatalf("%+v", r)
		}
	})
}
