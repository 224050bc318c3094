package upstream

import (
	"fmt"
	"math"
	"testing"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// zoned is a cluster of three endpoints in each of the zones a, b and c.
func zoned(b snapshot.Balancing) *snapshot.Cluster {
	config := balanced(cluster("c"), b)
	config.PanicThreshold, config.Outlier.MaxEjectionPercent = 0, 100
	for _, zone := range []string{"a", "b", "c"} {
		for i := range 3 {
			config.Endpoints = append(config.Endpoints, snapshot.Endpoint{Address: fmt.Sprintf("%s%d:1", zone, i), Weight: 1, Zone: zone})
		}
	}
	return config
}

// expectZones compares what each zone got of many requests, in percent.
func expectZones(t *testing.T, what string, counts map[string]int, want map[string]float64) {
	t.Helper()
	all, got := 0, map[string]int{}
	for address, n := range counts {
		all += n
		got[address[:1]] += n
	}
	for _, zone := range []string{"a", "b", "c"} {
		if share := 100 * float64(got[zone]) / float64(all); math.Abs(share-want[zone]) > 1 {
			t.Errorf("%s: zone %s got %.1f%%, want %.1f%%", what, zone, share, want[zone])
		}
	}
}

// The own zone has all requests while it can bear them, and others take over what
// it cannot, little by little, with every policy but the consistent hash.
func TestOwnZoneIsPreferred(t *testing.T) {
	const n = 30_000
	for name, b := range policies {
		c := only(t, Options{Zone: "a"}, zoned(b))
		if b.Policy == snapshot.ConsistentHash {
			if counts := requests(t, c, n); len(counts) != 9 {
				t.Errorf("%s: %v", name, counts)
			}
			continue
		}
		expectZones(t, name, requests(t, c, n), map[string]float64{"a": 100})
		fail(c.endpoints[4], 5, Reset) // of zone b, which is no business of ours
		expectZones(t, name+", b has failures", requests(t, c, n), map[string]float64{"a": 100})
		c.group.comeBack(c.endpoints[4], c.endpoints[4].ejection.Until())
		fail(c.endpoints[0], 5, Reset)
		expectZones(t, name+", one is ejected", requests(t, c, n), map[string]float64{"a": 75, "b": 12.5, "c": 12.5})
		fail(c.endpoints[1], 5, Reset)
		expectZones(t, name+", two are ejected", requests(t, c, n), map[string]float64{"a": 42.9, "b": 28.6, "c": 28.6})
		fail(c.endpoints[2], 5, Reset)
		expectZones(t, name+", all are ejected", requests(t, c, n), map[string]float64{"b": 50, "c": 50})
		c.group.comeBack(c.endpoints[0], c.endpoints[0].ejection.Until())
		expectZones(t, name+", one is back", requests(t, c, n), map[string]float64{"a": 42.9, "b": 28.6, "c": 28.6})
	}
}

// Where zones make no difference, all endpoints have the same share.
func TestZonesThatMakeNoDifference(t *testing.T) {
	even := map[string]float64{"a": 33.3, "b": 33.3, "c": 33.3}
	for zone, what := range map[string]string{"": "the node is nowhere", "d": "no endpoint is where the node is"} {
		c := only(t, Options{Zone: zone}, zoned(policies["random"]))
		expectZones(t, what, requests(t, c, 30_000), even)
	}
	many := cluster("c")
	for i := range 100 {
		many.Endpoints = append(many.Endpoints, snapshot.Endpoint{Address: fmt.Sprintf("a%d:1", i), Weight: 1, Zone: fmt.Sprint(i)})
	}
	if n := len(requests(t, only(t, Options{Zone: "1"}, many), 1000)); n != 100 {
		t.Errorf("%d of 100 zones had requests", n)
	}
}

// Zones count within each priority; one that has none of the own zone is used as
// a whole. Second choices go to other zones when the own one has nobody left, and
// drained endpoints are no capacity.
func TestZonesWithinPriorities(t *testing.T) {
	config := zoned(policies["round robin"])
	for i := range config.Endpoints {
		if config.Endpoints[i].Zone != "a" && i%3 > 0 {
			config.Endpoints[i].Priority = 1
		}
	}
	c := only(t, Options{Zone: "a"}, config)
	expectZones(t, "priority 0 is enough", requests(t, c, 30_000), map[string]float64{"a": 100})
	tried := c.endpoints[:3]
	if e, why := c.Pick(tried); why != 0 || e.Address() != "b0:1" && e.Address() != "c0:1" {
		t.Errorf("after the own zone: %v, %v", e, why)
	}
	for _, i := range []int{0, 1, 2, 3, 6} {
		fail(c.endpoints[i], 5, Reset)
	}
	expectZones(t, "only priority 1 is left", requests(t, c, 30_000), map[string]float64{"b": 50, "c": 50})

	drained := zoned(policies["round robin"])
	drained.Endpoints[0].Weight = 0
	c = only(t, Options{Zone: "a"}, drained)
	expectZones(t, "one of ours is drained", requests(t, c, 30_000), map[string]float64{"a": 75, "b": 12.5, "c": 12.5})
}

// A panic ignores zones, as it ignores health.
func TestZonesInAPanic(t *testing.T) {
	config := zoned(policies["random"])
	config.PanicThreshold = 100
	c := only(t, Options{Zone: "a"}, config)
	fail(c.endpoints[0], 5, Reset)
	expectZones(t, "panic", requests(t, c, 30_000), map[string]float64{"a": 33.3, "b": 33.3, "c": 33.3})
}

// manyInZones are 1,000 endpoints in four zones, of which the own one has some
// ejected, so that zones are chosen among.
func manyInZones(t testing.TB, b snapshot.Balancing) *Cluster {
	config := balanced(cluster("c"), b)
	for i := range 1000 {
		config.Endpoints = append(config.Endpoints, snapshot.Endpoint{Address: fmt.Sprintf("10.0.%d.%d:80", i>>8, i&255), Weight: 1, Zone: fmt.Sprint("z", i%4)})
	}
	c := only(t, Options{Zone: "z0"}, config)
	for i := 0; i < 100; i += 4 {
		fail(c.endpoints[i], 5, Reset)
	}
	if len(c.picker.Load().levels) != 4 {
		t.Fatalf("%d levels", len(c.picker.Load().levels))
	}
	return c
}

func TestPickAmongZonesAllocs(t *testing.T) {
	for name, b := range policies {
		if b.Policy == snapshot.ConsistentHash {
			continue
		}
		c := manyInZones(t, b)
		if n := testing.AllocsPerRun(1000, func() { _, _ = c.Choose(&Pick{}) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// BenchmarkPickAmongZones is a choice among 1,000 endpoints in four zones.
func BenchmarkPickAmongZones(b *testing.B) {
	for name, policy := range policies {
		if policy.Policy == snapshot.ConsistentHash {
			continue
		}
		c := manyInZones(b, policy)
		b.Run(name, func(b *testing.B) {
			p := &Pick{}
			for b.Loop() {
				_, _ = c.Choose(p)
			}
		})
	}
}
