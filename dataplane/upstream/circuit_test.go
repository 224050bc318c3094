package upstream

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// guarded adds circuit breakers that open after three failures for 10 s.
func guarded(c *snapshot.Cluster, trials int) *snapshot.Cluster {
	c.Identity += " guarded"
	c.CircuitBreaker = &snapshot.CircuitBreaker{ConsecutiveFailures: 3, OpenFor: 10 * time.Second, HalfOpenRequests: trials}
	return c
}

// circuits is the changes of circuits as lines.
func (v events) circuits() (lines []string) {
	for _, e := range v.all() {
		if e.Kind == CircuitChanged {
			lines = append(lines, e.Endpoint+" "+e.CircuitFrom.String()+"->"+e.CircuitTo.String()+": "+e.Cause)
		}
	}
	return lines
}

// An upstream that accepts and never answers costs some timeouts, and then
// nothing: not even a panic lets requests through to it.
func TestOpenCircuitCostsNothing(t *testing.T) {
	timed(t, func(t *testing.T, _ *network, r *Registry, seen events) {
		c := apply(t, r, guarded(cluster("c", "a:1"), 1)).Cluster(0)
		fail(c.endpoints[0], 3, Timeout)
		for range 100 {
			if e, _, why := c.Start(&Pick{}); e != nil || why != CircuitsOpen {
				t.Fatalf("Start = %v, %v", e, why)
			}
		}
		s := c.Status().Endpoints[0]
		if s.Circuit != CircuitOpen || s.NextTry.Sub(s.Since) != 10*time.Second || s.State != StateUnknown {
			t.Errorf("status %+v", s)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		e, ticket, why := c.Start(&Pick{})
		if why != 0 {
			t.Fatalf("half-open, and no trial: %v", why)
		}
		if again, _, why := c.Start(&Pick{}); again != nil || why != CircuitsOpen {
			t.Fatalf("a second trial: %v", again)
		}
		e.End(ticket, Success, 1)
		want := []string{
			"a:1 closed->open: 3 requests failed in a row, the last: timeout",
			"a:1 open->half-open: it was open for 10s",
			"a:1 half-open->closed: all trials succeeded (1)",
		}
		if diff := cmp.Diff(want, seen.circuits()); diff != "" {
			t.Error(diff)
		}
		if e, _ := c.Pick(nil); e == nil {
			t.Error("closed, and nobody is picked")
		}
	})
}

// Many ask at one moment whether they may try a half-open endpoint. As many may
// as are to be, and the others go elsewhere.
func TestTrialsAreCounted(t *testing.T) {
	timed(t, func(t *testing.T, _ *network, r *Registry, _ events) {
		for name, policy := range policies {
			c := apply(t, r, balanced(guarded(cluster(name, "a:1", "b:1"), 3), policy)).Cluster(0)
			a := c.endpoints[0]
			fail(a, 3, Reset)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			var all sync.WaitGroup
			var trials atomic.Int64
			for range 8 {
				all.Go(func() {
					for range 50 {
						e, ticket, why := c.Start(&Pick{})
						if why != 0 {
							t.Errorf("%s: no endpoint: %v", name, why)
						}
						if e == a && !ticket.Trial() {
							t.Errorf("%s: a half-open endpoint got more than trials", name)
						}
						if e == a {
							trials.Add(1)
						}
					}
				})
			}
			all.Wait()
			if n := trials.Load(); n > 3 || n == 0 && name != "peak EWMA" {
				t.Errorf("%s: %d trials", name, n)
			}
		}
	})
}

// What began before the circuit opened says nothing of the time after.
func TestOldAttemptsDoNotCount(t *testing.T) {
	timed(t, func(t *testing.T, _ *network, r *Registry, _ events) {
		c := apply(t, r, guarded(cluster("c", "a:1", "b:1"), 1)).Cluster(0)
		a := c.endpoints[0]
		var old []Ticket
		for range 20 {
			old = append(old, a.Begin())
		}
		fail(a, 3, Reset)
		for _, ticket := range old[:5] {
			a.End(ticket, Success, 1)
		}
		if s := c.Status().Endpoints[0]; s.Circuit != CircuitOpen {
			t.Fatalf("circuit %v", s.Circuit)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for _, ticket := range old[5:] {
			a.End(ticket, Timeout, 1)
		}
		if s := c.Status().Endpoints[0]; s.Circuit != CircuitHalfOpen || s.InFlight != 0 || s.Requests != 23 {
			t.Fatalf("status %+v", s)
		}
	})
}

// A circuit outlives applies, and ends with the breaker.
func TestCircuitAndApplies(t *testing.T) {
	timed(t, func(t *testing.T, _ *network, r *Registry, seen events) {
		config := guarded(cluster("c", "a:1", "b:1"), 1)
		fail(apply(t, r, config).Cluster(0).endpoints[0], 3, Reset)
		next := *config
		next.Identity, next.MaxRequests = "next", 7
		c := apply(t, r, &next).Cluster(0)
		if n := picks(t, c, 10); n["b:1"] != 10 {
			t.Fatalf("picks %v", n)
		}
		seen.all()
		without := next
		without.Identity, without.CircuitBreaker = "without", nil
		c = apply(t, r, &without).Cluster(0)
		if diff := cmp.Diff([]string{"a:1 open->closed: the circuit breaker was removed"}, seen.circuits()); diff != "" {
			t.Error(diff)
		}
		if n := picks(t, c, 10); n["a:1"] != 5 {
			t.Fatalf("picks %v", n)
		}
		time.Sleep(time.Minute)
		if list := seen.told(); list != nil {
			t.Errorf("events %v", list)
		}
	})
}

// A failed probe opens the circuit of an endpoint whose requests have begun to
// fail. It does not of one whose requests are well: then the check is wrong, not
// the endpoint, and in a panic it still gets requests.
func TestProbesAndCircuits(t *testing.T) {
	timed(t, func(t *testing.T, n *network, r *Registry, seen events) {
		c := apply(t, r, checked(guarded(cluster("c", "a:1", "b:1"), 1))).Cluster(0)
		fail(c.endpoints[0], 1, Timeout)
		n.set("a:1", broken)
		n.set("b:1", broken)
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]string{"a:1 closed->open: 1 active probe failed: status 500"}, seen.circuits()); diff != "" {
			t.Fatal(diff)
		}
		time.Sleep(time.Minute)
		if e, _ := c.Pick(nil); e == nil {
			t.Fatal("nobody is picked in a panic")
		}
		n.set("a:1", okay)
		time.Sleep(6 * time.Second)
		synctest.Wait()
		want := []string{
			"a:1 open->half-open: it was open for 10s",
			"a:1 half-open->closed: 1 active probe passed: status 200",
		}
		if diff := cmp.Diff(want, seen.circuits()); diff != "" {
			t.Fatal(diff)
		}
	})
}
