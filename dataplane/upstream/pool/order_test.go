package pool

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dataplane/socket"
)

func TestOrder(t *testing.T) {
	var o order
	at := func(d time.Duration) int64 { return int64(d) }
	check := func(now time.Duration, want bool) {
		t.Helper()
		if got := o.lastFirst(at(now)); got != want {
			t.Errorf("at %v: last first %v", now, got)
		}
	}
	check(time.Hour, false) // nobody waits
	o.joined(at(time.Second))
	o.joined(at(time.Second + 90*time.Millisecond)) // another one changes nothing
	check(time.Second+standing, false)
	check(time.Second+standing+1, true)
	o.emptied()
	check(2*time.Second, false)
	o.joined(at(3 * time.Second))
	check(3*time.Second+standing, false)
	check(4*time.Second, true)
}

// A queue that stands serves who has come last, and gives up who has waited
// longest when it is full. Once it was empty, it is first come first served again.
func TestStandingQueueServesTheLastFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewGroup(limits(1, 0, 3)).NewPool(2)
		c := open(t, p)
		results := make(chan result, 1)
		expect := func(name string, conn *Conn, err error) {
			t.Helper()
			if r := <-results; r.name != name || r.conn != conn || r.err != err {
				t.Fatalf("%+v, want %s", r, name)
			}
		}
		for _, name := range []string{"one", "two", "three"} {
			wait(p, name, time.Hour, results)
		}
		time.Sleep(standing + 1)
		wait(p, "four", time.Hour, results)
		expect("one", nil, ErrShed)
		c.Release(0)
		expect("four", c, nil)
		c.Release(0)
		expect("three", c, nil)
		c.Discard() // leaves a place
		expect("two", nil, nil)
		p.Cancel()
		c = open(t, p)
		wait(p, "five", time.Hour, results)
		wait(p, "six", time.Hour, results)
		c.Release(0)
		expect("five", c, nil)
		c.Release(0)
		expect("six", c, nil)
	})
}

// client is one that can leave.
type client struct{ left atomic.Bool }

func (c *client) Left() bool { return c.left.Load() }

// Who has left waits no more, and a connection goes to somebody else.
func TestClientLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup(limits(1, 0, 3))
		p := g.NewPool(2)
		c := open(t, p)
		results := make(chan result, 2)
		gone := new(client)
		go func() {
			conn, err := p.Acquire(socket.Now()+int64(time.Hour), gone)
			results <- result{"gone", conn, err}
		}()
		synctest.Wait()
		wait(p, "here", time.Hour, results)
		time.Sleep(time.Minute) // it is looked at, and still there
		gone.left.Store(true)
		began := time.Now()
		if r := <-results; r.name != "gone" || r.err != ErrLeft {
			t.Fatalf("%+v", r)
		}
		if took := time.Since(began); took > lookEvery {
			t.Errorf("noticed after %v", took)
		}
		if _, waiting := g.Counts(); waiting != 1 || p.Waiting() != 1 {
			t.Errorf("%d wait", waiting)
		}
		c.Release(0)
		if r := <-results; r.name != "here" || r.conn != c {
			t.Fatalf("%+v", r)
		}
		if p.Waiting() != 0 {
			t.Errorf("%d wait", p.Waiting())
		}
	})
}

// Twice as many come as can be served, each with a second of patience. First come
// first served, all would be served just before they give up; so most are served
// at once, and the others give up.
func TestOverloadedQueueDoesNotServeTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewGroup(limits(1, 0, 1000)).NewPool(1)
		var mu sync.Mutex
		var waits []time.Duration
		gaveUp := 0
		var all sync.WaitGroup
		for range 2000 { // for ten seconds
			all.Go(func() {
				began := time.Now()
				c, err := p.Acquire(socket.Now()+int64(time.Second), nil)
				mu.Lock()
				if err != nil {
					gaveUp++
				} else {
					waits = append(waits, time.Since(began))
				}
				mu.Unlock()
				if err != nil {
					return
				}
				time.Sleep(10 * time.Millisecond) // of work
				if c != nil {
					c.Discard()
				} else {
					p.Cancel()
				}
			})
			time.Sleep(5 * time.Millisecond)
		}
		all.Wait()
		quick := 0
		for _, w := range waits {
			if w < 2*standing {
				quick++
			}
		}
		t.Logf("%d served, %d of them within %v; %d gave up", len(waits), quick, 2*standing, gaveUp)
		if len(waits) < 1000 || quick < len(waits)*85/100 {
			t.Errorf("%d served, %d of them within %v", len(waits), quick, 2*standing)
		}
	})
}
