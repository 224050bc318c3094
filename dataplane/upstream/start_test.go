package upstream

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// share is the percentage of requests that an endpoint gets.
func share(t *testing.T, c *Cluster, address string) int {
	t.Helper()
	return (requests(t, c, 10_000)[address] + 50) / 100
}

// near checks a share of two endpoints: part of the weight against the whole.
func near(t *testing.T, what string, got, part int) {
	t.Helper()
	if want := part * 100 / (part + 100); got < want-2 || got > want+2 {
		t.Errorf("%s: %d%% of the requests, want %d%%", what, got, want)
	}
}

// An endpoint that has recovered gets a tenth of its share at first, and the
// whole after the time. So does one that is new, but no endpoint of a cluster
// that is new itself.
func TestSlowStart(t *testing.T) {
	for name, policy := range policies {
		if policy.Policy == snapshot.PeakEWMA || policy.Policy == snapshot.LeastRequest && policy.Choices > 0 {
			continue // by two of two endpoints: the load decides alone
		}
		timed(t, func(t *testing.T, n *network, r *Registry, _ events) {
			config := balanced(checked(cluster("c", "a:1", "b:1")), policy)
			config.SlowStart = 36 * time.Second
			c := apply(t, r, config).Cluster(0)
			near(t, name+", both new", share(t, c, "b:1"), 100)

			n.set("b:1", broken)
			time.Sleep(20 * time.Second)
			n.set("b:1", okay)
			for c.Status().Endpoints[1].State != StateHealthy {
				time.Sleep(100 * time.Millisecond)
			}
			began := c.Status().Endpoints[1].Since
			for _, step := range []struct {
				after time.Duration
				part  int
			}{{500 * time.Millisecond, 10}, {18500 * time.Millisecond, 55}, {34500 * time.Millisecond, 95}, {38 * time.Second, 100}} {
				time.Sleep(time.Until(began.Add(step.after)))
				synctest.Wait()
				near(t, name+", recovered "+step.after.String()+" ago", share(t, c, "b:1"), step.part)
			}
			if s := c.Status().Endpoints[1]; s.Share != 100 {
				t.Errorf("%s: share %d", name, s.Share)
			}
		})
	}
}

func TestSlowStartOfANewEndpoint(t *testing.T) {
	timed(t, func(t *testing.T, _ *network, r *Registry, _ events) {
		first := cluster("c", "a:1")
		first.SlowStart = 18 * time.Second
		apply(t, r, first)
		time.Sleep(time.Minute)
		both := cluster("c", "a:1", "b:1")
		both.SlowStart = 18 * time.Second
		c := apply(t, r, both).Cluster(0)
		near(t, "new", share(t, c, "b:1"), 10)
		if s := c.Status().Endpoints[1]; s.Share != 10 {
			t.Errorf("share %d", s.Share)
		}
		time.Sleep(19 * time.Second)
		synctest.Wait()
		near(t, "after the time", share(t, c, "b:1"), 100)
		c.group.mu.Lock()
		defer c.group.mu.Unlock()
		if c.group.ramping || c.group.ramp.place != 0 {
			t.Error("there is still a step to come")
		}
	})
}
