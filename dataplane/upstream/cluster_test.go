package upstream

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headgate/headgate/dataplane/snapshot"
)

func TestPickByWeight(t *testing.T) {
	c := only(t, Options{}, cluster("c", "a:1 3", "b:1"))
	for range 5 {
		if diff := cmp.Diff(map[string]int{"a:1": 9, "b:1": 3}, picks(t, c, 12)); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestPickLeavesDrainedOut(t *testing.T) {
	c := only(t, Options{}, cluster("c", "a:1 0", "b:1"))
	if diff := cmp.Diff(map[string]int{"b:1": 5}, picks(t, c, 5)); diff != "" {
		t.Fatal(diff)
	}
}

func TestPickFromNothing(t *testing.T) {
	for name, config := range map[string]*snapshot.Cluster{
		"no endpoints": cluster("c"),
		"all drained":  cluster("c", "a:1 0", "b:1 0"),
	} {
		e, why := only(t, Options{}, config).Pick(nil)
		if e != nil || why != NoEndpoints {
			t.Errorf("%s: Pick = %v, %v", name, e, why)
		}
	}
}

func TestPickAvoidsTried(t *testing.T) {
	c := only(t, Options{}, cluster("c", "a:1 100", "b:1", "c:1"))
	a, b, d := c.endpoints[0], c.endpoints[1], c.endpoints[2]
	for range 300 {
		if e, _ := c.Pick([]*Endpoint{a}); e == a {
			t.Fatal("picked what was tried")
		}
		if e, _ := c.Pick([]*Endpoint{a, b}); e != d {
			t.Fatalf("picked %s", e.Address())
		}
		if e, _ := c.Pick([]*Endpoint{a, b, d}); e == nil {
			t.Fatal("all were tried, and none was picked again")
		}
	}
}

func TestMaxRequests(t *testing.T) {
	config := cluster("c", "a:1")
	config.MaxRequests = 2
	c := only(t, Options{}, config)
	if !c.Begin() || !c.Begin() {
		t.Fatal("refused below the limit")
	}
	if c.Begin() {
		t.Fatal("allowed over the limit")
	}
	c.End()
	if !c.Begin() {
		t.Fatal("refused after one ended")
	}
	if n := c.Active(); n != 2 {
		t.Fatalf("%d active", n)
	}
}
