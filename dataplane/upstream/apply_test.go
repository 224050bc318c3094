package upstream

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headgate/headgate/dataplane/snapshot"
)

func TestUnchangedIsTheSame(t *testing.T) {
	r := start(t, Options{})
	first := apply(t, r, cluster("a", "a:1"), cluster("b", "b:1"))
	// Another object of equal content, at another place.
	second := apply(t, r, cluster("new", "n:1"), cluster("b", "b:1"), cluster("a", "a:1"))
	if second.Cluster(1) != first.Cluster(1) || second.Cluster(2) != first.Cluster(0) {
		t.Error("an unchanged cluster was made anew")
	}
	if second.Cluster(0).Config().Name != "new" {
		t.Error("indices are not those of Prepare")
	}
}

// Limits are not in the identity, but a change of them must take effect.
func TestChangedLimitIsAChange(t *testing.T) {
	r := start(t, Options{})
	config := cluster("c", "a:1")
	first := apply(t, r, config).Cluster(0)
	first.Begin()
	limited := *config
	limited.MaxRequests = 2
	second := apply(t, r, &limited).Cluster(0)
	if second.Config() != &limited || second.endpoints[0] != first.endpoints[0] {
		t.Fatal("not a new view of the same endpoints")
	}
	if !second.Begin() || second.Begin() {
		t.Fatal("a request of the old view does not count")
	}
	first.End()
	if !second.Begin() {
		t.Fatal("a request of the old view was not counted out")
	}
}

// Case 4: a server is known to be down, its interval is long, and an unrelated
// change of its cluster is applied: no request goes there.
func TestKnownToBeDownSurvivesAnApply(t *testing.T) {
	timed(t, func(t *testing.T, n *network, r *Registry, seen events) {
		n.set("b:1", "")
		n.set("c:1", okay)
		config := checked(cluster("c", "a:1", "b:1"))
		config.HealthCheck.Interval = 30 * time.Second
		apply(t, r, config)
		seen.all()
		for i, change := range []func(*snapshot.Cluster){
			func(c *snapshot.Cluster) { c.MaxRequests = 100 },
			func(c *snapshot.Cluster) { c.Endpoints = cluster("", "b:1 5", "a:1").Endpoints },
			func(c *snapshot.Cluster) { c.Endpoints = cluster("", "b:1", "a:1", "c:1").Endpoints },
		} {
			changed := *config
			check := *config.HealthCheck
			changed.HealthCheck = &check
			changed.Identity = string(rune('0' + i))
			change(&changed)
			g := r.Prepare([]*snapshot.Cluster{&changed})
			if n := picks(t, g.Cluster(0), 12); n["b:1"] != 0 {
				t.Fatalf("change %d, prepared: %v", i, n)
			}
			must(t, g.Warm(context.Background()))
			r.Commit(g)
			if n := picks(t, g.Cluster(0), 12); n["b:1"] != 0 {
				t.Fatalf("change %d, committed: %v", i, n)
			}
		}
		if asked := n.count("b:1"); asked != 1 {
			t.Errorf("the dead one was probed %d times", asked)
		}
		for _, line := range seen.told() {
			if line[0] != 'c' {
				t.Errorf("event: %s", line)
			}
		}
	})
}

func TestCountersAndConnectionsSurviveAnApply(t *testing.T) {
	r := start(t, Options{})
	address := accepting(t)
	config := cluster("c", address, "b:1")
	e := apply(t, r, config).Cluster(0).endpoints[0]
	conn, err := e.Dial(0)
	must(t, err)
	conn.Release(0)
	e.Begin()
	fail(e, 3, Reset)
	c := apply(t, r, cluster("c", address, "d:1")).Cluster(0)
	s := c.Status().Endpoints[0]
	if s.InFlight != 1 || s.Requests != 4 || s.Failures != 3 || s.ConnectionsIdle != 1 {
		t.Fatalf("status %+v", s)
	}
	// The failures before count: two more make five.
	fail(c.endpoints[0], 2, Reset)
	if c.Status().Endpoints[0].State != StateEjected {
		t.Error("the failures were forgotten")
	}
	if again := c.endpoints[0].Idle(0); again != conn {
		t.Error("the connection was not kept")
	}
	conn.Discard()
}

func TestEjectionSurvivesAnApply(t *testing.T) {
	timed(t, func(t *testing.T, _ *network, r *Registry, seen events) {
		fail(apply(t, r, cluster("c", "a:1", "b:1")).Cluster(0).endpoints[0], 5, Timeout)
		time.Sleep(10 * time.Second)
		c := apply(t, r, cluster("c", "a:1", "b:1", "c:1")).Cluster(0)
		if n := picks(t, c, 10); n["a:1"] != 0 {
			t.Fatalf("picks: %v", n)
		}
		seen.all()
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if n := picks(t, c, 12); n["a:1"] != 4 {
			t.Fatalf("picks: %v", n)
		}
		if list := seen.told(); len(list) != 1 {
			t.Fatalf("events: %v", list)
		}
	})
}

func TestRetiredEndpoint(t *testing.T) {
	timed(t, func(t *testing.T, n *network, r *Registry, seen events) {
		config := checked(cluster("c", "a:1", "b:1"))
		e := apply(t, r, config).Cluster(0).endpoints[1]
		resting, err := e.Dial(0)
		must(t, err)
		busy, err := e.Dial(0)
		must(t, err)
		resting.Release(0)

		apply(t, r, checked(cluster("c", "a:1")))
		if idle, open := e.pool.Counts(); idle != 0 || open != 1 {
			t.Fatalf("%d idle of %d connections", idle, open)
		}
		busy.Release(0)
		if _, open := e.pool.Counts(); open != 0 {
			t.Fatal("a connection was kept that nobody will use")
		}
		asked := n.count("b:1")
		seen.all()
		n.set("b:1", "")
		fail(e, 100, Reset)
		time.Sleep(time.Minute)
		if n.count("b:1") != asked || seen.told() != nil {
			t.Fatal("it was probed, or heard of, after it was retired")
		}

		// It comes back as one that is not known.
		again := apply(t, r, config).Cluster(0).endpoints[1]
		if again == e || again.failures.Load() != 0 {
			t.Fatal("it came back with its past")
		}
	})
}

func TestClusterThatIsGone(t *testing.T) {
	timed(t, func(t *testing.T, n *network, r *Registry, _ events) {
		apply(t, r, checked(cluster("c", "a:1")), cluster("other", "b:1"))
		apply(t, r, cluster("other", "b:1"))
		asked := n.count("a:1")
		time.Sleep(time.Minute)
		if n.count("a:1") != asked {
			t.Fatal("it is still probed")
		}
		if list := r.Status(); len(list) != 1 || list[0].Name != "other" {
			t.Fatalf("status %+v", list)
		}
	})
}

// What is aborted leaves nothing behind and has disturbed nothing.
func TestAbort(t *testing.T) {
	timed(t, func(t *testing.T, n *network, r *Registry, seen events) {
		config := cluster("c", "a:1", "b:1")
		c := apply(t, r, config).Cluster(0)
		before := r.Status()
		var prepared []*Generation
		for range 3 {
			changed := checked(cluster("c", "a:1", "c:1"))
			changed.MaxRequests, changed.Outlier = 1, nil
			prepared = append(prepared, r.Prepare([]*snapshot.Cluster{changed, checked(cluster("new", "d:1"))}))
		}
		synctest.Wait()
		if n.count("a:1") != 0 || n.count("c:1") == 0 || n.count("d:1") == 0 {
			t.Fatalf("probed: %v", n.asked)
		}
		if diff := cmp.Diff(before, r.Status()); diff != "" {
			t.Fatal(diff)
		}
		if !c.Begin() || !c.Begin() {
			t.Fatal("a limit holds that was not committed")
		}
		for _, g := range prepared {
			r.Abort(g)
			r.Abort(g)
		}
		asked, new := n.count("c:1"), n.count("d:1")
		time.Sleep(time.Minute)
		if n.count("c:1") != asked || n.count("d:1") != new {
			t.Fatal("what was aborted is still probed")
		}
		if len(c.group.views) != 1 || len(c.group.endpoints) != 2 {
			t.Fatalf("left behind: %d views, %d endpoints", len(c.group.views), len(c.group.endpoints))
		}
		if r.Prepare([]*snapshot.Cluster{config}).Cluster(0) != c {
			t.Fatal("the committed one is another")
		}
	})
}

func TestCommitOfOneAndAbortOfTheOther(t *testing.T) {
	timed(t, func(t *testing.T, _ *network, r *Registry, _ events) {
		apply(t, r, cluster("c", "a:1"))
		first := r.Prepare([]*snapshot.Cluster{cluster("c", "a:1", "b:1")})
		second := r.Prepare([]*snapshot.Cluster{cluster("c", "b:1")})
		if first.Cluster(0).endpoints[1] != second.Cluster(0).endpoints[0] {
			t.Fatal("the same address is two endpoints")
		}
		r.Commit(second)
		r.Abort(first)
		c := second.Cluster(0)
		if n := picks(t, c, 3); n["b:1"] != 3 {
			t.Fatalf("picks: %v", n)
		}
		if len(c.group.views) != 1 || len(c.group.endpoints) != 1 {
			t.Fatalf("left behind: %d views, %d endpoints", len(c.group.views), len(c.group.endpoints))
		}
	})
}

func TestStaleCommitPanics(t *testing.T) {
	r := start(t, Options{})
	stale := r.Prepare(nil)
	apply(t, r, cluster("c", "a:1"))
	defer func() {
		if recover() == nil {
			t.Error("a generation was committed over one that it does not know")
		}
	}()
	r.Commit(stale)
}

func TestHealthCheckComesAndGoes(t *testing.T) {
	timed(t, func(t *testing.T, n *network, r *Registry, seen events) {
		n.set("b:1", "")
		plain := cluster("c", "a:1", "b:1")
		apply(t, r, plain)
		apply(t, r, checked(cluster("c", "a:1", "b:1")))
		synctest.Wait() // known endpoints are not waited for, but probed at once
		if list := seen.told(); len(list) != 2 {
			t.Fatalf("events: %v", list)
		}
		c := apply(t, r, plain).Cluster(0)
		if n := picks(t, c, 10); n["b:1"] != 5 {
			t.Fatalf("picks: %v", n)
		}
		if list := seen.told(); len(list) != 2 || list[1] != "b:1 health changed unhealthy->unknown: the health check was removed" {
			t.Fatalf("events: %v", list)
		}
		asked := n.count("b:1")
		time.Sleep(time.Minute)
		if n.count("b:1") != asked {
			t.Fatal("it is still probed")
		}
	})
}

// A probe that began under another configuration decides nothing.
func TestChangedCheckWhileProbing(t *testing.T) {
	timed(t, func(t *testing.T, n *network, r *Registry, seen events) {
		n.set("a:1", "hang")
		config := checked(cluster("c", "a:1"))
		r.Commit(r.Prepare([]*snapshot.Cluster{config}))
		synctest.Wait()
		changed := *config
		check := *config.HealthCheck
		check.Path, changed.HealthCheck, changed.Identity = "/other", &check, "other"
		n.set("a:1", okay)
		r.Commit(r.Prepare([]*snapshot.Cluster{&changed}))
		time.Sleep(3 * time.Second) // the first one has timed out by now
		synctest.Wait()
		want := []string{"a:1 health changed unknown->healthy: 1 active probe passed: status 200"}
		if diff := cmp.Diff(want, seen.told()); diff != "" {
			t.Fatal(diff)
		}
		asked := n.count("a:1")
		time.Sleep(10 * time.Second)
		if more := n.count("a:1") - asked; more < 1 || more > 3 {
			t.Fatalf("%d probes in two intervals", more)
		}
	})
}

func TestCloseEndsProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, seen := newNetwork(), make(events, 10)
		n.set("a:1", "hang")
		r := NewRegistry(Options{Dial: n.dial, Events: seen.add})
		g := r.Prepare([]*snapshot.Cluster{checked(cluster("c", "a:1"))})
		r.Commit(g)
		synctest.Wait()
		began := time.Now()
		r.Close()
		if time.Since(began) != 0 || n.active != 0 || seen.told() != nil {
			t.Fatal("a probe went on")
		}
		must(t, g.Warm(context.Background()))
	})
}

// A snapshot that supersedes another one waits for the probes that the other
// one began.
func TestWarmWaitsForWhatAnotherBegan(t *testing.T) {
	timed(t, func(t *testing.T, n *network, r *Registry, _ events) {
		apply(t, r, cluster("c", "a:1"))
		n.set("b:1", "hang")
		changed := func() []*snapshot.Cluster {
			return []*snapshot.Cluster{checked(cluster("c", "a:1", "b:1"))}
		}
		first := r.Prepare(changed())
		time.Sleep(time.Second)
		second := r.Prepare(changed())
		r.Abort(first)
		began := time.Now()
		must(t, second.Warm(context.Background()))
		if waited := time.Since(began); waited != time.Second {
			t.Fatalf("waited %v", waited)
		}
		r.Commit(second)
		if n := picks(t, second.Cluster(0), 10); n["a:1"] != 10 {
			t.Fatalf("picks: %v", n)
		}
	})
}
