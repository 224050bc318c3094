package upstream

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fail ends n attempts with o.
func fail(e *Endpoint, n int, o Outcome) {
	for range n {
		e.Begin()
		e.Done(o, 1e6)
	}
}

func TestEjectionAndReturn(t *testing.T) {
	timed(t, func(t *testing.T, _ *network, r *Registry, seen events) {
		c := apply(t, r, cluster("c", "a:1", "b:1")).Cluster(0)
		a := c.endpoints[0]
		fail(a, 4, Timeout)
		fail(a, 1, Success)
		fail(a, 4, Reset)
		fail(a, 3, Ignored)
		if n := picks(t, c, 10); n["a:1"] != 5 {
			t.Fatalf("ejected too early: %v", n)
		}
		for _, length := range []time.Duration{30 * time.Second, 60 * time.Second} {
			fail(a, 5, ServerError)
			want := []string{"a:1 ejected unknown->ejected: 5 requests failed in a row, the last: server error"}
			if diff := cmp.Diff(want, seen.told()); diff != "" {
				t.Fatal(diff)
			}
			time.Sleep(length - time.Nanosecond)
			synctest.Wait()
			if n := picks(t, c, 10); n["b:1"] != 10 {
				t.Fatalf("not ejected: %v", n)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if n := picks(t, c, 10); n["a:1"] != 5 {
				t.Fatalf("not back after %v: %v", length, n)
			}
			want = []string{"a:1 returned ejected->unknown: the ejection is over"}
			if diff := cmp.Diff(want, seen.told()); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// Case 21: one server is dead, the other gives some errors. The next request
// still has somewhere to go.
func TestLastOneIsNotEjected(t *testing.T) {
	timed(t, func(t *testing.T, n *network, r *Registry, seen events) {
		n.set("b:1", "")
		c := apply(t, r, checked(cluster("c", "a:1", "b:1"))).Cluster(0)
		seen.all()
		fail(c.endpoints[0], 50, ServerError)
		if n := picks(t, c, 10); n["a:1"] != 10 {
			t.Fatalf("picks: %v", n)
		}
		if list := seen.told(); list != nil {
			t.Fatalf("events: %v", list)
		}
		// When the dead one is back, the failing one goes at its next failures.
		n.set("b:1", okay)
		time.Sleep(6 * time.Second)
		fail(c.endpoints[0], 5, ServerError)
		if n := picks(t, c, 10); n["b:1"] != 10 {
			t.Fatalf("picks: %v", n)
		}
	})
}

func TestProbeSuccessEndsNoEjection(t *testing.T) {
	timed(t, func(t *testing.T, _ *network, r *Registry, seen events) {
		c := apply(t, r, checked(cluster("c", "a:1", "b:1"))).Cluster(0)
		fail(c.endpoints[0], 5, ConnectFailure)
		time.Sleep(20 * time.Second) // of which several probes are
		if n := picks(t, c, 10); n["b:1"] != 10 {
			t.Fatalf("picks: %v", n)
		}
		if s := c.Status().Endpoints[0]; s.State != StateEjected || s.Health != StateHealthy || s.EjectedUntil.IsZero() {
			t.Fatalf("status %+v", s)
		}
	})
}

func TestEjectionsAreBoundedByPercent(t *testing.T) {
	c := only(t, Options{}, cluster("c", "a:1", "b:1", "c:1", "d:1", "e:1"))
	for _, e := range c.endpoints {
		fail(e, 5, ServerError)
	}
	ejected := 0
	for _, s := range c.Status().Endpoints {
		if s.State == StateEjected {
			ejected++
		}
	}
	if ejected != 2 {
		t.Fatalf("%d of 5 were ejected, with 50 percent", ejected)
	}
}

func TestPanicIgnoresHealth(t *testing.T) {
	timed(t, func(t *testing.T, n *network, r *Registry, _ events) {
		n.set("a:1", "")
		n.set("b:1", "")
		config := checked(cluster("c", "a:1", "b:1"))
		c := apply(t, r, config).Cluster(0)
		if n := picks(t, c, 10); n["a:1"] != 5 || !c.Status().Panicked {
			t.Fatalf("picks: %v", n)
		}
		never := *config
		never.PanicThreshold, never.Identity = 0, "never"
		if e, why := apply(t, r, &never).Cluster(0).Pick(nil); e != nil || why != AllUnhealthy {
			t.Fatalf("Pick = %v, %v", e, why)
		}
	})
}

func TestOutlierDetectionTurnedOff(t *testing.T) {
	timed(t, func(t *testing.T, _ *network, r *Registry, seen events) {
		config := cluster("c", "a:1", "b:1")
		fail(apply(t, r, config).Cluster(0).endpoints[0], 5, Reset)
		seen.all()
		off := *config
		off.Outlier, off.Identity = nil, "off"
		c := apply(t, r, &off).Cluster(0)
		want := []string{"a:1 returned ejected->unknown: outlier detection was turned off"}
		if diff := cmp.Diff(want, seen.told()); diff != "" {
			t.Fatal(diff)
		}
		fail(c.endpoints[0], 100, Reset)
		if n := picks(t, c, 10); n["a:1"] != 5 {
			t.Fatalf("picks: %v", n)
		}
		time.Sleep(time.Minute)
		if list := seen.told(); list != nil {
			t.Fatalf("events: %v", list)
		}
	})
}

func TestEjectionEventSaysHowLong(t *testing.T) {
	timed(t, func(t *testing.T, _ *network, r *Registry, seen events) {
		a := apply(t, r, cluster("c", "a:1", "b:1")).Cluster(0).endpoints[0]
		for times := 1; times <= 2; times++ {
			fail(a, 5, Timeout)
			e := seen.next(t, Ejected)
			if e.Ejections != times || e.Until.Sub(e.At) != time.Duration(times)*30*time.Second {
				t.Errorf("event %+v", e)
			}
			if e.Evidence != "timeout after 1ms" || !e.NextProbe.IsZero() {
				t.Errorf("event %+v", e)
			}
			time.Sleep(time.Minute)
			seen.next(t, Returned)
		}
	})
}

// Who reads of an ejection is told what to do about it, as far as it is known.
func TestEjectionSaysWhatWentWrong(t *testing.T) {
	timed(t, func(t *testing.T, _ *network, r *Registry, seen events) {
		config := guarded(cluster("c", "a:1", "b:1"), 1)
		a := apply(t, r, config).Cluster(0).endpoints[0]
		for range config.CircuitBreaker.ConsecutiveFailures {
			a.EndWith(a.Begin(), Result{Outcome: ConnectFailure, Latency: 1e6, Detail: "connection refused"})
		}
		e := seen.next(t, CircuitChanged)
		if !strings.HasSuffix(e.Cause, " requests failed in a row, the last: connection refused") || e.Evidence != "connect failure: connection refused after 1ms" {
			t.Errorf("%+v", e)
		}
	})
	timed(t, func(t *testing.T, _ *network, r *Registry, seen events) {
		a := apply(t, r, cluster("c", "a:1", "b:1")).Cluster(0).endpoints[0]
		for range 5 {
			a.EndWith(a.Begin(), Result{Outcome: ServerError, Latency: 1e6, Detail: "status 503"})
		}
		e := seen.next(t, Ejected)
		if e.Cause != "5 requests failed in a row, the last: status 503" || e.Evidence != "server error: status 503 after 1ms" {
			t.Errorf("%+v", e)
		}
	})
}
