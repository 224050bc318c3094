package upstream

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// Requests run while snapshots are applied one after the other. None is without
// an endpoint, none stays counted, and no connection is left.
func TestAppliesUnderTraffic(t *testing.T) {
	first, second, third := serve(t), serve(t), serve(t)
	r := start(t, Options{})
	variants := [][]string{
		{first.address(), second.address()},
		{first.address(), second.address() + " 3", third.address()},
		{third.address(), first.address()},
	}
	names := slices.Sorted(maps.Keys(policies))
	var live atomic.Pointer[Cluster]
	swap := func(i int) {
		config := checked(cluster("c", variants[i%len(variants)]...))
		config.Balancing = policies[names[i%len(names)]]
		config.SlowStart = time.Duration(i%2) * time.Second
		if i%3 == 0 {
			config = guarded(config, 1)
		}
		config.MaxConnections = 4
		g := r.Prepare([]*snapshot.Cluster{config})
		if i%5 == 4 {
			r.Abort(g)
			return
		}
		r.Commit(g)
		live.Store(g.Cluster(0))
	}
	swap(0)
	done := make(chan struct{})
	var traffic sync.WaitGroup
	for n := range 8 {
		traffic.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					exchange(t, live.Load(), n)
				}
			}
		})
	}
	for i := range 100 {
		swap(i)
	}
	close(done)
	traffic.Wait()

	c := live.Load()
	for _, s := range c.Status().Endpoints {
		if s.InFlight != 0 || s.ConnectionsActive != 0 {
			t.Errorf("%s: %d in flight, %d connections in use", s.Address, s.InFlight, s.ConnectionsActive)
		}
	}
	if s := c.Status(); s.InFlight != 0 || s.Waiting != 0 || s.Connections > 4 {
		t.Errorf("%d in flight, %d wait, %d connections", s.InFlight, s.Waiting, s.Connections)
	}
	if n := len(c.group.views); n != 1 {
		t.Errorf("%d views", n)
	}
}

// exchange is a request without its bytes.
func exchange(t *testing.T, c *Cluster, shard int) {
	c.Begin()
	defer c.End()
	e, ticket, why := c.Start(&Pick{})
	if why != 0 {
		if why != CircuitsOpen {
			t.Errorf("no endpoint: %v", why)
		}
		return
	}
	conn := e.Idle(shard)
	if conn == nil {
		var err error
		if conn, err = e.Dial(0); err != nil {
			t.Error(err)
			e.End(ticket, ConnectFailure, 0)
			return
		}
	}
	outcome := Success
	if rand.IntN(10) == 0 {
		conn.Discard()
		outcome = Outcome(rand.IntN(int(Ignored) + 1))
	} else {
		conn.Release(shard)
	}
	e.End(ticket, outcome, int64(time.Millisecond))
}

// The same endpoints are reported to be up, down and ejected by many at once;
// the picker agrees with the state in the end.
func TestStateUnderContention(t *testing.T) {
	c := only(t, Options{}, cluster("c", "a:1", "b:1", "c:1", "d:1"))
	var workers sync.WaitGroup
	for n := range 8 {
		workers.Go(func() {
			for i := range 500 {
				e := c.endpoints[(n+i)%4]
				e.Begin()
				e.Done(Reset, 1)
			}
		})
	}
	workers.Wait()
	ejected := map[string]bool{}
	for _, s := range c.Status().Endpoints {
		ejected[s.Address] = s.State == StateEjected
		if s.InFlight != 0 || s.Requests != 1000 || s.Failures != 1000 {
			t.Errorf("%+v", s)
		}
	}
	n := picks(t, c, 100)
	if len(n) != 2 {
		t.Errorf("picks: %v", n)
	}
	for address := range n {
		if ejected[address] {
			t.Errorf("%s is ejected and picked", address)
		}
	}
}
