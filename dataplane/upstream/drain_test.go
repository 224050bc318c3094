package upstream

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// drainOne drains an endpoint as the control API does.
func drainOne(t *testing.T, r *Registry, cluster, endpoint string) {
	t.Helper()
	if err := r.MayDrain(cluster, endpoint); err != nil {
		t.Fatal(err)
	}
	if !r.Drain(Drain{Cluster: cluster, Endpoint: endpoint, Writer: "mia", Reason: "new disk", Since: time.Now()}) {
		t.Fatal("it was drained already")
	}
}

func TestDrain(t *testing.T) {
	for _, policy := range []snapshot.Balancing{
		{Policy: snapshot.RoundRobin},
		{Policy: snapshot.Random},
		{Policy: snapshot.PeakEWMA},
		{Policy: snapshot.LeastRequest},
		{Policy: snapshot.LeastRequest, Choices: 2},
		{Policy: snapshot.ConsistentHash},
	} {
		t.Run(fmt.Sprint(policy.Policy, policy.Choices), func(t *testing.T) {
			seen := make(events, 10)
			r := start(t, Options{Events: seen.add})
			config := cluster("c", "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3")
			config.Balancing = policy
			c := apply(t, r, config).Cluster(0)
			busy := c.endpoints[1]
			ticket := busy.Begin()

			drainOne(t, r, "c", "127.0.0.1:2")
			if n := picks(t, c, 300)["127.0.0.1:2"]; n != 0 {
				t.Errorf("it was chosen %d times while it was drained", n)
			}
			if v := seen.next(t, EndpointDrained); v.From != StateUnknown || v.To != StateDrained || v.Cause != "new disk" || v.Writer != "mia" {
				t.Errorf("event %+v", v)
			}
			if s := c.Status().Endpoints[1]; s.Drain == nil || s.Drain.Writer != "mia" || s.InFlight != 1 {
				t.Errorf("status %+v", s)
			}
			busy.End(ticket, Ignored, 1) // what was in flight ends as ever
			if n := busy.InFlight(); n != 0 {
				t.Errorf("%d in flight", n)
			}
			if !r.Undrain("c", "127.0.0.1:2", "mia", "done") {
				t.Fatal("it was not drained")
			}
			if v := seen.next(t, EndpointUndrained); v.From != StateDrained || v.To != StateUnknown || v.Cause != "done" {
				t.Errorf("event %+v", v)
			}
			if n := picks(t, c, 300)["127.0.0.1:2"]; n == 0 {
				t.Error("it is not chosen after it was put back")
			}
		})
	}
}

// A drain belongs to names: it outlives applies, and the endpoint itself.
func TestDrainOutlivesApplies(t *testing.T) {
	r := start(t, Options{})
	c := apply(t, r, cluster("c", "127.0.0.1:1", "127.0.0.1:2")).Cluster(0)
	drainOne(t, r, "c", "127.0.0.1:2")
	more := apply(t, r, cluster("c", "127.0.0.1:1", "127.0.0.1:2 100", "127.0.0.1:3")).Cluster(0)
	for name, view := range map[string]*Cluster{"the old view": c, "the new view": more} {
		if n := picks(t, view, 100)["127.0.0.1:2"]; n != 0 {
			t.Errorf("%s chose it %d times", name, n)
		}
	}
	apply(t, r, cluster("c", "127.0.0.1:1"))
	back := apply(t, r, cluster("c", "127.0.0.1:1", "127.0.0.1:2")).Cluster(0)
	if n := picks(t, back, 100)["127.0.0.1:2"]; n != 0 {
		t.Errorf("chosen %d times after it had left and come back", n)
	}
	apply(t, r)
	again := apply(t, r, cluster("c", "127.0.0.1:1", "127.0.0.1:2")).Cluster(0)
	if n := picks(t, again, 100)["127.0.0.1:2"]; n != 0 {
		t.Errorf("chosen %d times after the cluster had left and come back", n)
	}
	if list := r.Drained(); len(list) != 1 || list[0].Endpoint != "127.0.0.1:2" {
		t.Errorf("drained: %+v", list)
	}
}

// What is put back between the preparation of a snapshot and its commit is back.
func TestUndrainDuringApply(t *testing.T) {
	seen := make(events, 10)
	r := start(t, Options{Events: seen.add})
	r.RestoreDrained([]Drain{{Cluster: "c", Endpoint: "127.0.0.1:1"}})
	g := r.Prepare([]*snapshot.Cluster{cluster("c", "127.0.0.1:1", "127.0.0.1:2")})
	if !r.Undrain("c", "127.0.0.1:1", "mia", "") {
		t.Fatal("what was restored is not drained")
	}
	seen.next(t, EndpointUndrained)
	r.Commit(g)
	if n := picks(t, g.Cluster(0), 100)["127.0.0.1:1"]; n != 50 {
		t.Errorf("chosen %d times of 100", n)
	}
}

func TestMayDrain(t *testing.T) {
	r := start(t, Options{})
	apply(t, r, cluster("c", "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3 0"))
	check := func(cluster, endpoint string, want error) {
		t.Helper()
		if err := r.MayDrain(cluster, endpoint); err != want {
			t.Errorf("%s/%s: %v, want %v", cluster, endpoint, err, want)
		}
	}
	check("d", "127.0.0.1:1", ErrNoEndpoint)
	check("c", "127.0.0.1:9", ErrNoEndpoint)
	drainOne(t, r, "c", "127.0.0.1:1")
	check("c", "127.0.0.1:1", nil)             // again
	check("c", "127.0.0.1:2", ErrLastEndpoint) // the third has no weight
	for i := range MaxDrained - 1 {
		r.Drain(Drain{Cluster: "gone", Endpoint: fmt.Sprint(i)})
	}
	r.Undrain("c", "127.0.0.1:1", "", "")
	r.Drain(Drain{Cluster: "gone", Endpoint: "one more"})
	check("c", "127.0.0.1:1", ErrManyDrained)
}

// Drained endpoints are no reason to panic, and are not chosen in a panic.
func TestDrainAndPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		for _, a := range []string{"a", "b"} {
			n.set(a, okay)
		}
		r := NewRegistry(Options{Dial: n.dial})
		defer r.Close()
		c := apply(t, r, checked(cluster("c", "a", "b", "dead", "drained"))).Cluster(0)
		drainOne(t, r, "c", "drained")
		if c.Status().Panicked || picks(t, c, 90)["dead"] != 0 {
			t.Error("two of three that take part are well, yet health is ignored")
		}
		n.set("a", "")
		n.set("b", "")
		time.Sleep(time.Minute)
		synctest.Wait()
		if p := picks(t, c, 90); !c.Status().Panicked || p["dead"] == 0 || p["drained"] != 0 {
			t.Errorf("in a panic: %v", p)
		}
	})
}

// Draining one of a hundred moves its own hashes and no others.
func TestDrainMovesOwnHashesOnly(t *testing.T) {
	var addresses []string
	for i := range 100 {
		addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", i+1))
	}
	config := cluster("c", addresses...)
	config.Balancing.Policy = snapshot.ConsistentHash
	r := start(t, Options{})
	c := apply(t, r, config).Cluster(0)
	choose := func(key int) string {
		e, _ := c.Choose(&Pick{HasHash: true, Hash: Hash(fmt.Sprint("key ", key))})
		return e.Address()
	}
	before := make([]string, 10_000)
	for i := range before {
		before[i] = choose(i)
	}
	drainOne(t, r, "c", "127.0.0.1:7")
	for i, was := range before {
		switch is := choose(i); {
		case is == "127.0.0.1:7":
			t.Fatal("the drained one was chosen")
		case was != "127.0.0.1:7" && is != was:
			t.Fatalf("key %d moved from %s to %s", i, was, is)
		}
	}
}
