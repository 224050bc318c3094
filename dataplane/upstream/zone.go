package upstream

import (
	"slices"

	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/upstream/balance"
)

// part is some of a cluster's endpoints.
type part struct {
	rank int // of their priority; -1: any
	zone int // as in Cluster.zones; -1: any
}

// holds reports whether the endpoint at a place is one of them.
func (c *Cluster) holds(p part, i int) bool {
	return (p.rank < 0 || c.rank(i) == p.rank) && (p.zone < 0 || c.zones[i] == p.zone)
}

// zonesOf numbers the zones of endpoints; that of the node, own, is 0. They are
// nil if zones make no difference: the node has none or no endpoint is in it, all
// are, or there are very many zones. A consistent hash is to lead to the same
// endpoint from everywhere.
func zonesOf(list []snapshot.Endpoint, own string, policy snapshot.Policy) []int {
	if own == "" || policy == snapshot.ConsistentHash {
		return nil
	}
	names, zones := []string{own}, make([]int, len(list))
	atHome := false
	for i := range list {
		zones[i] = slices.Index(names, list[i].Zone)
		if zones[i] < 0 {
			zones[i] = len(names)
			names = append(names, list[i].Zone)
		}
		if len(names) > balance.MaxZones {
			return nil
		}
		atHome = atHome || zones[i] == 0
	}
	if !atHome || len(names) == 1 {
		return nil
	}
	return zones
}

// addRank adds the levels of a priority, which takes what is between two parts of
// balance.Whole: one for each zone, the node's own first, if they make a
// difference there. A zone that has nothing to take is there for second choices.
func (c *Cluster) addRank(k *picker, presence []int, rank, from, to int) {
	zones, capacities := c.capacities(presence, rank)
	if len(zones) < 2 || zones[0] != 0 {
		k.add(c.level(presence, len(k.levels), part{rank, -1}), to)
		return
	}
	taken := 0
	for i, share := range balance.Zones(0, capacities) {
		taken += share
		k.add(c.level(presence, len(k.levels), part{rank, zones[i]}), from+(to-from)*taken/balance.Whole)
	}
}

// capacities are the zones that have endpoints in a priority, in order, and what
// is there of their weights; nil if zones make no difference. The caller holds
// group.mu.
func (c *Cluster) capacities(presence []int, rank int) (zones, capacities []int) {
	if c.zones == nil {
		return nil, nil
	}
	var member [balance.MaxZones]bool
	var capacity [balance.MaxZones]int
	weights := c.present(presence, part{rank, -1})
	for i, zone := range c.zones {
		if c.takesPart(i) && c.rank(i) == rank {
			member[zone] = true
			capacity[zone] += weights[i]
		}
	}
	for zone := range member {
		if member[zone] {
			zones, capacities = append(zones, zone), append(capacities, capacity[zone])
		}
	}
	return zones, capacities
}
