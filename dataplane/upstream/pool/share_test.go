package pool

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dataplane/socket"
)

// waitShared is wait for who can do with room on a connection.
func waitShared(p *Pool, name string, look func() bool, results chan<- result) {
	go func() {
		c, err := p.AcquireShared(socket.Now()+int64(time.Hour), nil, look)
		results <- result{name, c, err}
	}()
	synctest.Wait()
}

func none() bool { return false }

// Room is for those of the pool who can do with it, one at a time.
func TestRoomIsForWhoShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup(limits(2, 0, 5))
		p, other := g.NewPool(1), g.NewPool(1)
		c, d := open(t, p), open(t, other)
		results := make(chan result, 5)
		wait(p, "alone", time.Hour, results)
		waitShared(other, "elsewhere", none, results)
		waitShared(p, "first", none, results)
		waitShared(p, "second", none, results)
		for _, name := range []string{"first", "second"} {
			p.Room()
			if r := <-results; r.name != name || r.conn != nil || r.err != ErrRoom {
				t.Fatalf("%+v", r)
			}
		}
		p.Room()
		synctest.Wait()
		if _, waiting := g.Counts(); waiting != 2 || len(results) > 0 {
			t.Fatalf("%d wait", waiting)
		}
		c.Discard() // a place is for whoever came first
		if r := <-results; r.name != "alone" || r.err != nil {
			t.Fatalf("%+v", r)
		}
		d.Discard()
		if r := <-results; r.name != "elsewhere" || r.conn != nil || r.err != nil {
			t.Fatalf("%+v", r)
		}
	})
}

// Who finds room as the wait begins keeps no place, and takes nobody's room.
func TestRoomFoundLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup(limits(1, 0, 5))
		p := g.NewPool(1)
		c := open(t, p)
		results := make(chan result, 2)
		waitShared(p, "patient", none, results)
		waitShared(p, "lucky", func() bool { p.Room(); return true }, results)
		// The one that waited before was told of the room, and then there was more.
		for range 2 {
			if r := <-results; r.err != ErrRoom {
				t.Fatalf("%+v", r)
			}
		}
		waitShared(p, "lucky again", func() bool { c.Discard(); return true }, results)
		if r := <-results; r.err != ErrRoom {
			t.Fatalf("%+v", r)
		}
		counts(t, p, 0, 0)
		if _, waiting := g.Counts(); waiting != 0 {
			t.Fatalf("%d wait", waiting)
		}
	})
}

// As many may wait for room as for a connection.
func TestRoomIsWaitedForByFew(t *testing.T) {
	p := NewGroup(limits(1, 0, 0)).NewPool(1)
	c := open(t, p)
	defer c.Discard()
	if _, err := p.AcquireShared(socket.Now(), nil, none); err != ErrFull {
		t.Fatalf("error %v", err)
	}
}

// Who waits for a place has that of a connection which many share and nobody uses,
// at once or when the last has left it.
func TestSharedGivesWay(t *testing.T) {
	for _, when := range []string{"at once", "later"} {
		synctest.Test(t, func(t *testing.T) {
			g := NewGroup(limits(1, 0, 5))
			p, other := g.NewPool(1), g.NewPool(1)
			c, used := open(t, p), when == "later"
			p.Share(func() bool {
				if used {
					return false
				}
				p.Unshare()
				c.Discard()
				return true
			})
			results := make(chan result, 2)
			wait(other, "alone", time.Hour, results)
			waitShared(other, "sharing", none, results)
			if used {
				if len(results) > 0 {
					t.Fatalf("%+v", <-results)
				}
				used = false
				p.Room()
			}
			if r := <-results; r.name != "alone" || r.conn != nil || r.err != nil {
				t.Fatalf("%s: %+v", when, r)
			}
			other.Cancel()
			if r := <-results; r.name != "sharing" || r.conn != nil || r.err != nil {
				t.Fatalf("%s: %+v", when, r)
			}
		})
	}
}
