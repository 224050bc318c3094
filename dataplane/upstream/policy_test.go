package upstream

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/socket"
)

// policies are all ways to balance.
var policies = map[string]snapshot.Balancing{
	"round robin":     {Policy: snapshot.RoundRobin},
	"random":          {Policy: snapshot.Random},
	"peak EWMA":       {Policy: snapshot.PeakEWMA},
	"least request":   {Policy: snapshot.LeastRequest},
	"least of two":    {Policy: snapshot.LeastRequest, Choices: 2},
	"consistent hash": {Policy: snapshot.ConsistentHash, Key: snapshot.HashKey{Source: snapshot.HashPath}},
}

func balanced(c *snapshot.Cluster, b snapshot.Balancing) *snapshot.Cluster {
	c.Balancing = b
	c.Identity += fmt.Sprint(b)
	return c
}

// requests starts n attempts and ends each at once, and counts by address.
func requests(t testing.TB, c *Cluster, n int) map[string]int {
	t.Helper()
	counts := make(map[string]int)
	for i := range n {
		p := Pick{Hash: Hash(fmt.Sprint("key ", i)), HasHash: true}
		e, ticket, why := c.Start(&p)
		if why != 0 {
			t.Fatalf("no endpoint: %v", why)
		}
		e.End(ticket, Success, int64(time.Millisecond))
		counts[e.Address()]++
	}
	return counts
}

// Each policy gives each endpoint its share, within one percent of all picks.
func TestEachPolicyKeepsToWeights(t *testing.T) {
	const n = 100_000
	for name, b := range policies {
		c := only(t, Options{}, balanced(cluster("c", "a:1 1", "b:1 2", "c:1 3", "d:1 4", "e:1 0"), b))
		counts := requests(t, c, n)
		for i, address := range []string{"a:1", "b:1", "c:1", "d:1"} {
			if share := float64(counts[address]) / n; math.Abs(share-float64(i+1)/10) > 0.01 {
				t.Errorf("%s: %s got %v", name, address, share)
			}
		}
		if counts["e:1"] != 0 {
			t.Errorf("%s: a drained endpoint got %d", name, counts["e:1"])
		}
	}
}

// Whatever the policy, what was tried is avoided while there is another, and
// taken again if there is none.
func TestEachPolicyAvoidsTried(t *testing.T) {
	for name, b := range policies {
		c := only(t, Options{}, balanced(cluster("c", "a:1 100", "b:1", "c:1"), b))
		x, y, z := c.endpoints[0], c.endpoints[1], c.endpoints[2]
		for range 300 {
			if e, _ := c.Pick([]*Endpoint{x}); e == x {
				t.Fatalf("%s: picked what was tried", name)
			}
			if e, _ := c.Pick([]*Endpoint{x, y}); e != z {
				t.Fatalf("%s: picked what was tried", name)
			}
			if e, _ := c.Pick([]*Endpoint{x, y, z}); e == nil {
				t.Fatalf("%s: all were tried, and none was picked again", name)
			}
		}
	}
}

// A dead endpoint that is not ejected yet has its own turns and no others, and
// those who take its place are the others alike, by weight.
func TestRoundRobinSharesWhatTheDeadLeave(t *testing.T) {
	const n = 1000
	config := cluster("c", "dead:1 1", "b:1 1", "c:1 2", "d:1 1")
	config.Outlier = nil
	c := only(t, Options{}, config)
	first, served := map[string]int{}, map[string]int{}
	for range n {
		p := Pick{}
		e, ticket, _ := c.Start(&p)
		first[e.Address()]++
		if e.Address() == "dead:1" {
			e.End(ticket, ConnectFailure, 1)
			p.Tried = []*Endpoint{e}
			e, ticket, _ = c.Start(&p)
		}
		e.End(ticket, Success, 1)
		served[e.Address()]++
	}
	if want := map[string]int{"dead:1": n / 5, "b:1": n / 5, "c:1": 2 * n / 5, "d:1": n / 5}; !maps.Equal(first, want) {
		t.Errorf("first choices %v, want %v", first, want)
	}
	if want := map[string]int{"b:1": n / 4, "c:1": n / 2, "d:1": n / 4}; !maps.Equal(served, want) {
		t.Errorf("served by %v, want %v", served, want)
	}
}

// Of those that were not tried, one that has just failed is the last choice.
func TestEachPolicyPrefersTheSound(t *testing.T) {
	for name, b := range policies {
		c := only(t, Options{}, balanced(cluster("c", "a:1", "b:1 100", "c:1"), b))
		x, failing, sound := c.endpoints[0], c.endpoints[1], c.endpoints[2]
		failing.Begin()
		failing.Done(ConnectFailure, 1)
		second := map[*Endpoint]int{}
		for range 100 {
			p := Pick{Tried: []*Endpoint{x}}
			k := c.picker.Load()
			e, _ := k.another(&k.levels[0], &p)
			second[e]++
		}
		if second[sound] != 100 {
			t.Errorf("%s: second choices %v", name, second)
		}
		if e, _ := c.Pick([]*Endpoint{x, sound}); e != failing {
			t.Errorf("%s: what was not tried is not tried", name)
		}
	}
}

// Least request over all is exact: the endpoints fill up evenly, by weight.
func TestLeastRequestFillsUpEvenly(t *testing.T) {
	config := balanced(cluster("c", "a:1 1", "b:1 2", "c:1 3"), policies["least request"])
	c := only(t, Options{}, config)
	var begun []*Endpoint
	for round := 1; round <= 20; round++ {
		for range 6 {
			e, _, _ := c.Start(&Pick{})
			begun = append(begun, e)
		}
		for i, e := range c.endpoints {
			if n := e.InFlight(); n != int64(round*(i+1)) {
				t.Fatalf("round %d: %s has %d in flight", round, e.Address(), n)
			}
		}
	}
	for _, e := range begun {
		e.Done(Success, 1)
	}
}

// State survives an apply: the new view's tree knows what is in flight, and the
// old view's users do not disturb it.
func TestLeastRequestSurvivesAnApply(t *testing.T) {
	r := start(t, Options{})
	config := balanced(cluster("c", "a:1", "b:1"), policies["least request"])
	old := apply(t, r, config).Cluster(0)
	busy := old.endpoints[0]
	for range 10 {
		busy.Begin()
	}
	next := *config
	next.Identity, next.MaxRequests = "next", 100
	c := apply(t, r, &next).Cluster(0)
	for range 10 {
		if e, _, _ := c.Start(&Pick{}); e == busy {
			t.Fatal("the busy one was chosen")
		}
	}
	if e, _ := old.Pick(nil); e == nil {
		t.Error("the old view has nobody")
	}
	if seats := *busy.seats.Load(); len(seats) != 1 || seats[0].owner != c {
		t.Errorf("seats %v", seats)
	}
}

func TestHashLeadsToTheSameEndpoint(t *testing.T) {
	r := start(t, Options{})
	config := balanced(cluster("c", "a:1", "b:1", "c:1", "d:1"), policies["consistent hash"])
	c := apply(t, r, config).Cluster(0)
	first := map[int]string{}
	for i := range 1000 {
		e, _ := c.Choose(&Pick{Hash: Hash(fmt.Sprint(i)), HasHash: true})
		first[i] = e.Address()
	}
	// An apply that lists them in another order moves nothing, and one that
	// drains an endpoint moves what was its own.
	drained := balanced(cluster("c", "d:1", "c:1 0", "b:1", "a:1"), policies["consistent hash"])
	for _, next := range []*snapshot.Cluster{balanced(cluster("c", "d:1", "c:1", "b:1", "a:1"), policies["consistent hash"]), drained} {
		c = apply(t, r, next).Cluster(0)
		moved := 0
		for i, address := range first {
			e, _ := c.Choose(&Pick{Hash: Hash(fmt.Sprint(i)), HasHash: true})
			if e.Address() != address {
				moved++
				if next != drained {
					t.Fatalf("key %d moved from %s to %s", i, address, e.Address())
				}
			}
		}
		if next == drained && moved > 300 {
			t.Errorf("%d of 1000 moved", moved)
		}
	}
	if c.Key().Source != snapshot.HashPath {
		t.Errorf("key %v", c.Key())
	}
}

// The second choice for a key is the same for each retry of it.
func TestHashHasASecondChoice(t *testing.T) {
	c := only(t, Options{}, balanced(cluster("c", "a:1", "b:1", "c:1", "d:1"), policies["consistent hash"]))
	for i := range 100 {
		p := Pick{Hash: Hash(fmt.Sprint(i)), HasHash: true}
		e, _ := c.Choose(&p)
		p.Tried = []*Endpoint{e}
		second, _ := c.Choose(&p)
		if again, _ := c.Choose(&p); again != second || second == e {
			t.Fatalf("key %d: %v, then %v", i, second, again)
		}
	}
}

// prioritized is a cluster of endpoints of which the last are of priority 1.
func prioritized(later int, endpoints ...string) *snapshot.Cluster {
	c := cluster("c", endpoints...)
	for i := len(endpoints) - later; i < len(endpoints); i++ {
		c.Endpoints[i].Priority = 1
	}
	return c
}

func TestPriorities(t *testing.T) {
	for _, test := range []struct {
		name  string
		dead  []string
		first float64 // share of priority 0, of which there are four
		panic bool
	}{
		{"all are there", nil, 1, false},
		{"one of four is gone", []string{"a:1"}, 1, false},
		{"two are gone", []string{"a:1", "b:1"}, 0.7, false},
		{"three are gone", []string{"a:1", "b:1", "c:1"}, 0.35, false},
		{"priority 0 is gone, and most of all", []string{"a:1", "b:1", "c:1", "d:1"}, 0, false},
		{"nearly nothing is left", []string{"a:1", "b:1", "c:1", "d:1", "x:1"}, 4. / 6, true},
	} {
		for _, policy := range []string{"round robin", "least request", "consistent hash"} {
			timed(t, func(t *testing.T, n *network, r *Registry, _ events) {
				for _, address := range []string{"a:1", "b:1", "c:1", "d:1", "x:1", "y:1"} {
					n.set(address, okay)
				}
				for _, address := range test.dead {
					n.set(address, "")
				}
				c := apply(t, r, balanced(checked(prioritized(2, "a:1", "b:1", "c:1", "d:1", "x:1", "y:1")), policies[policy])).Cluster(0)
				counts := requests(t, c, 20_000)
				share := 1 - float64(counts["x:1"]+counts["y:1"])/20_000
				if math.Abs(share-test.first) > 0.015 || c.Status().Panicked != test.panic {
					t.Errorf("%s, %s: priority 0 got %v, want %v (%v)", test.name, policy, share, test.first, counts)
				}
				for _, address := range test.dead {
					if counts[address] != 0 && !test.panic {
						t.Errorf("%s, %s: %s is dead and got %d", test.name, policy, address, counts[address])
					}
				}
			})
		}
	}
}

// A retry goes to the next priority when all of the first were tried.
func TestRetryGoesToTheNextPriority(t *testing.T) {
	c := only(t, Options{}, prioritized(1, "a:1", "b:1", "c:1"))
	if e, _ := c.Pick([]*Endpoint{c.endpoints[0]}); e != c.endpoints[1] {
		t.Errorf("picked %v", e.Address())
	}
	if e, _ := c.Pick(c.endpoints[:2]); e != c.endpoints[2] {
		t.Errorf("picked %v", e.Address())
	}
}

// sized is a cluster of n endpoints of weights 1 to 3, some of them in a second
// priority if there is one.
func sized(n, later int, b snapshot.Balancing) *snapshot.Cluster {
	config := balanced(cluster("c"), b)
	for i := range n {
		e := snapshot.Endpoint{Address: fmt.Sprintf("s%d:1", i), Weight: 1 + i%3}
		if i >= n-later {
			e.Priority = 1
		}
		config.Endpoints = append(config.Endpoints, e)
	}
	return config
}

func TestPoliciesDoNotAllocate(t *testing.T) {
	left := map[snapshot.Policy]bool{
		snapshot.RoundRobin: true, snapshot.Random: true, snapshot.PeakEWMA: true,
		snapshot.LeastRequest: true, snapshot.ConsistentHash: true,
	}
	for name, b := range policies {
		delete(left, b.Policy)
		for _, n := range []int{3, 1000} {
			config := sized(n, 1, b)
			config.Affinity = &snapshot.Affinity{Cookie: "hg"}
			config.CircuitBreaker = &snapshot.CircuitBreaker{ConsecutiveFailures: 5, OpenFor: time.Second, HalfOpenRequests: 1}
			c := only(t, Options{}, config)
			tried := []*Endpoint{c.endpoints[0]}
			allocs := testing.AllocsPerRun(100, func() {
				for _, p := range []Pick{{}, {Hash: 77, HasHash: true}, {Tried: tried}, {Sticky: 5, HasSticky: true}} {
					e, ticket, _ := c.Start(&p)
					e.End(ticket, Success, 1)
				}
			})
			if allocs != 0 {
				t.Errorf("%s of %d: %v allocations", name, n, allocs)
			}
		}
	}
	if len(left) > 0 {
		t.Errorf("policies that were not tried: %v", left)
	}
}

// What a choice reads of an endpoint, and what an attempt writes, is in one cache
// line, in which no other endpoint is.
func TestEndpointIsACacheLine(t *testing.T) {
	const line = 64
	if size := reflect.TypeFor[Endpoint]().Size(); size != line {
		t.Errorf("an endpoint has %d bytes", size)
	}
	for _, e := range only(t, Options{}, sized(300, 0, snapshot.Balancing{})).endpoints {
		if at := reflect.ValueOf(e).Pointer(); at%line != 0 {
			t.Fatalf("an endpoint is at %x", at)
		}
	}
}

// A choice is made as a request makes it: hash and time are known already. Every
// endpoint has two requests in flight at most, and latencies differ.
func BenchmarkChoose(b *testing.B) {
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		for _, n := range []int{3, 1000} {
			c := only(b, Options{}, sized(n, 0, policies[name]))
			for i, e := range c.endpoints {
				for range i % 3 {
					e.End(e.Begin(), Success, int64(i)*1000)
					e.Begin()
				}
			}
			now := socket.Now() + int64(time.Second)
			b.Run(fmt.Sprintf("%s of %d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for i := uint64(1); b.Loop(); i++ {
					c.Choose(&Pick{Hash: i * 0x9e3779b97f4a7c15, HasHash: true, Now: now})
				}
			})
			b.Run(fmt.Sprintf("%s of %d, whole attempt", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for i := uint64(1); b.Loop(); i++ {
					e, t, _ := c.Start(&Pick{Hash: i * 0x9e3779b97f4a7c15, HasHash: true, Now: now})
					e.End(t, Success, 1000)
				}
			})
		}
	}
}

// What runs on an endpoint goes on when it is drained: it is the same object,
// its connections are kept for what uses them, and nothing new comes.
func TestDrainedEndpointFinishes(t *testing.T) {
	for name, policy := range policies {
		r, address := start(t, Options{}), accepting(t)
		c := apply(t, r, balanced(cluster("c", address, "b:1"), policy)).Cluster(0)
		e := c.endpoints[0]
		ticket := e.Begin()
		conn, err := e.Dial(0)
		must(t, err)
		c = apply(t, r, balanced(cluster("c", address+" 0", "b:1"), policy)).Cluster(0)
		if n := requests(t, c, 100); n["b:1"] != 100 {
			t.Errorf("%s: %v", name, n)
		}
		if s := c.Status().Endpoints[0]; c.endpoints[0] != e || s.InFlight != 1 || s.ConnectionsActive != 1 {
			t.Errorf("%s: %+v", name, s)
		}
		conn.Release(0)
		e.End(ticket, Success, 1)
		if s := c.Status().Endpoints[0]; s.InFlight != 0 || s.Requests != 1 || s.ConnectionsActive != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
