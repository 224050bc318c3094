package upstream

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// early is a cluster that wants idle connections ahead.
func early(n int, endpoints ...string) *snapshot.Cluster {
	config := cluster("c", endpoints...)
	config.EarlyConnections = n
	return config
}

// idleOf is how many connections each endpoint has idle, and open.
func idleOf(c *Cluster) (idle, open []int) {
	for _, e := range c.endpoints {
		i, o := e.pool.Counts()
		idle, open = append(idle, i), append(open, o)
	}
	return idle, open
}

func expectIdle(t *testing.T, c *Cluster, want ...int) {
	t.Helper()
	idle, open := idleOf(c)
	for i := range want {
		if idle[i] != want[i] || open[i] < idle[i] {
			t.Fatalf("idle %v of %v, want %v", idle, open, want)
		}
	}
}

// Connections are there before the snapshot is active, and are replaced when
// requests have taken them.
func TestEarlyConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.set("a:1", okay)
		n.set("b:1", okay)
		r := NewRegistry(Options{Dial: n.dial, Shards: 2})
		defer r.Close()
		c := apply(t, r, early(2, "a:1", "b:1")).Cluster(0)
		expectIdle(t, c, 2, 2)
		a := c.endpoints[0]
		taken := a.Idle(1)
		if taken == nil || taken.Reused {
			t.Fatalf("%+v is no new connection", taken)
		}
		time.Sleep(sweepEvery + time.Millisecond)
		synctest.Wait()
		expectIdle(t, c, 2, 2)
		taken.Discard()
		asked := n.count("a:1")
		time.Sleep(30 * time.Second)
		if n.count("a:1") != asked {
			t.Errorf("%d more were opened, and none was lacking", n.count("a:1")-asked)
		}
		// Those of an endpoint that goes are closed.
		apply(t, r, early(2, "b:1"))
		synctest.Wait()
		if n.active != 2 {
			t.Errorf("%d connections are open", n.active)
		}
	})
}

// They keep to the limits, take no place that a request wants, and stay away from
// endpoints that are out of service or do not answer.
func TestEarlyConnectionsKnowTheirPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.set("a:1", okay)
		n.set("c:1", okay)
		config := early(4, "a:1", "b:1", "c:1 0")
		config.MaxConnections, config.PanicThreshold = 3, 0
		r := NewRegistry(Options{Dial: n.dial})
		defer r.Close()
		c := apply(t, r, config).Cluster(0)
		// While b is tried it may have the third place, which the next sweep gives to a.
		time.Sleep(sweepEvery + time.Millisecond)
		synctest.Wait()
		expectIdle(t, c, 3, 0, 0)
		if n.count("c:1") != 0 {
			t.Error("a drained endpoint was connected to")
		}
		// b does not answer, and is not asked with each sweep once there is room.
		a := c.endpoints[0]
		a.Idle(0).Discard()
		fail(a, 5, Reset)
		time.Sleep(21 * time.Second)
		if got := n.count("b:1"); got < 1 || got > 4 {
			t.Errorf("asked %d times", got)
		}
		if asked := n.count("a:1"); asked != 3 {
			t.Errorf("an ejected endpoint was connected to %d times", asked)
		}
	})
}

// Without the wish for them there are none, nor where connections are not kept.
func TestNoEarlyConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.set("a:1", okay)
		r := NewRegistry(Options{Dial: n.dial})
		defer r.Close()
		unkept := early(2, "a:1")
		unkept.KeepAliveTimeout = 0
		for _, config := range []*snapshot.Cluster{early(0, "a:1"), unkept} {
			apply(t, r, config)
			time.Sleep(time.Minute)
		}
		if n.count("a:1") != 0 {
			t.Errorf("%d connections", n.count("a:1"))
		}
	})
}

// Very many endpoints are connected to a few at a time.
func TestEarlyConnectionsAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &roads{closed: map[string]string{"4": "hole"}}
		var list []string
		for i := range 300 {
			list = append(list, string(rune('a'+i/100))+string(rune('0'+i/10%10))+string(rune('0'+i%10))+":1")
		}
		config := early(1, list...)
		config.ConnectTimeout = time.Minute
		r := NewRegistry(Options{Dial: n.dial})
		defer r.Close()
		r.Prepare([]*snapshot.Cluster{config})
		synctest.Wait()
		if n.trials != maxEarly {
			t.Errorf("%d at one time", n.trials)
		}
	})
}
