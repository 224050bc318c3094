package upstream

import (
	"slices"

	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/socket"
	"github.com/headgate/headgate/dataplane/upstream/balance"
	"github.com/headgate/headgate/dataplane/upstream/breaker"
	"github.com/headgate/headgate/dataplane/upstream/health"
)

// picker is the choice among the endpoints of a cluster that are in service. It
// is never changed, only replaced.
type picker struct {
	levels   []level     // by priority and zone, without those that have nobody
	reason   Unavailable // if there are none
	panicked bool        // health is ignored
	size     int         // endpoints, in service or not
	sticky   map[uint64]*Endpoint
}

// level is the choice within one priority, or one zone of it. Places are those of
// Cluster.endpoints. What every choice reads comes first.
type level struct {
	policy    snapshot.Policy
	choices   int               // LeastRequest of some
	below     uint64            // the part of requests for this level and those before, of balance.Whole
	position  *balance.Position // of first choices
	least     *balance.Least    // LeastRequest of all
	endpoints []*Endpoint

	order  []*Endpoint              // RoundRobin: a period
	alias  balance.Alias[candidate] // Random, PeakEWMA, LeastRequest of some
	maglev *balance.Maglev          // ConsistentHash

	again   *balance.Position // of second choices
	weights []int             // 0: not in service here
	members []balance.Member  // of maglev
	served  int               // how many have a weight
}

// candidate is an endpoint that may be drawn.
type candidate struct {
	endpoint *Endpoint
	burden   float64 // what a request in flight counts for; 1 at the mean weight
}

// build replaces the picker. The caller holds group.mu.
func (c *Cluster) build() {
	census := c.census()
	p := &picker{panicked: c.panics(census), size: len(c.endpoints)}
	presence := c.presence(p.panicked)
	switch {
	case p.panicked:
		p.add(c.level(presence, 0, part{-1, -1}), balance.Whole)
	case c.depth == 1:
		c.addRank(p, presence, 0, 0, balance.Whole)
	default:
		shares, taken := balance.Shares(census), 0
		for rank, share := range shares {
			c.addRank(p, presence, rank, taken*balance.Whole/100, (taken+share)*balance.Whole/100)
			taken += share
		}
	}
	if len(p.levels) == 0 {
		p.reason = c.reason()
	}
	p.sticky = c.stickyOf(p.levels)
	c.seat(p.levels)
	c.picker.Store(p)
}

func (k *picker) add(l level, below int) {
	if l.served == 0 {
		return
	}
	l.below = uint64(below)
	k.levels = append(k.levels, l)
}

// census counts, by rank, the endpoints that take part, and those of them
// that are healthy and not ejected. The caller holds group.mu.
func (c *Cluster) census() []balance.Level {
	levels := make([]balance.Level, c.depth)
	for i, e := range c.endpoints {
		if !c.takesPart(i) {
			continue
		}
		l := &levels[c.rank(i)]
		l.Endpoints++
		if e.inService() {
			l.Available++
		}
	}
	return levels
}

func (c *Cluster) rank(i int) int {
	if c.ranks == nil {
		return 0
	}
	return c.ranks[i]
}

// panics reports whether health is to be ignored: too few are healthy, and where
// there are priorities, all of them together cannot bear the load. Circuits do
// not count: they are about requests, and hold in a panic too. The caller holds
// group.mu.
func (c *Cluster) panics(census []balance.Level) bool {
	available, weighted := c.population()
	return health.Panic(available, weighted, c.config.PanicThreshold) &&
		(c.depth == 1 || balance.Capacity(census) < 100)
}

// population counts the endpoints that take part, and those of them that
// are available. The caller holds group.mu.
func (c *Cluster) population() (available, weighted int) {
	for i, e := range c.endpoints {
		if !c.takesPart(i) {
			continue
		}
		weighted++
		if e.available() {
			available++
		}
	}
	return available, weighted
}

// reason is why nobody is in service. The caller holds group.mu.
func (c *Cluster) reason() Unavailable {
	available, weighted := c.population()
	switch {
	case weighted == 0 && c.watch != nil:
		return Unresolved
	case weighted == 0:
		return NoEndpoints
	case available > 0 || c.config.PanicThreshold > 0:
		return CircuitsOpen
	}
	return AllUnhealthy
}

// presence is how much of its weight each endpoint has at the moment, in
// percent; nil if all have the whole. The caller holds group.mu.
func (c *Cluster) presence(panicked bool) []int {
	var list []int
	now := int64(0)
	for i, e := range c.endpoints {
		part := 100
		switch {
		case e.drain != nil || c.isAside(i) || e.circuit.State() == breaker.Open || !panicked && !e.available():
			part = 0
		case e.rampFrom != 0 && c.config.SlowStart > 0:
			if now == 0 {
				now = socket.Now()
			}
			part = balance.Ramp(now, e.rampFrom, c.config.SlowStart)
		}
		if part < 100 && list == nil {
			list = slices.Repeat([]int{100}, len(c.endpoints))
		}
		if list != nil {
			list[i] = part
		}
	}
	return list
}

// level makes the choice among a part of the endpoints.
func (c *Cluster) level(presence []int, place int, of part) level {
	l := level{
		policy: c.config.Balancing.Policy, endpoints: c.endpoints,
		position: &c.group.positions[place%len(c.group.positions)],
		again:    &c.group.again,
	}
	l.weights = c.present(presence, of)
	for _, w := range l.weights {
		if w > 0 {
			l.served++
		}
	}
	if l.served > 0 {
		c.fill(&l, presence, of)
	}
	return l
}

// present is the weights of the endpoints of a part that are there.
func (c *Cluster) present(presence []int, of part) []int {
	if presence == nil && (of.rank < 0 || c.ranks == nil) && of.zone < 0 {
		return c.weights
	}
	partial := slices.ContainsFunc(presence, func(part int) bool { return part != 0 && part != 100 })
	list := make([]int, len(c.weights))
	for i, w := range c.weights {
		switch {
		case !c.holds(of, i):
		case presence == nil:
			list[i] = w
		case partial:
			list[i] = w * presence[i]
		case presence[i] != 0:
			list[i] = w
		}
	}
	return list
}

// fill makes what the policy chooses by.
func (c *Cluster) fill(l *level, presence []int, of part) {
	switch l.policy {
	case snapshot.RoundRobin:
		places := balance.Sequence(l.weights)
		l.order = make([]*Endpoint, len(places))
		for i, place := range places {
			l.order[i] = c.endpoints[place]
		}
	case snapshot.LeastRequest:
		l.choices = c.config.Balancing.Choices
		if c.retired { // whose tree nobody keeps up to date
			l.choices = 2
		} else if l.choices == 0 || l.choices >= len(c.endpoints) {
			l.least = balance.NewLeast(l.weights)
			return
		}
		l.alias = l.draws()
	case snapshot.ConsistentHash:
		l.members = c.hashed(presence, of)
		l.maglev = c.group.table(l.members)
	default:
		l.alias = l.draws()
	}
}

// draws is the table to draw endpoints from.
func (l *level) draws() balance.Alias[candidate] {
	total := 0
	for _, w := range l.weights {
		total += w
	}
	mean := float64(total) / float64(l.served)
	candidates := make([]candidate, len(l.weights))
	for i, w := range l.weights {
		candidates[i] = candidate{l.endpoints[i], mean / float64(max(w, 1))}
	}
	return balance.NewAlias(l.weights, candidates)
}

// hashed are the endpoints of a part for a table of hashes.
func (c *Cluster) hashed(presence []int, of part) []balance.Member {
	list := make([]balance.Member, len(c.endpoints))
	for i, e := range c.endpoints {
		if !c.holds(of, i) {
			continue
		}
		list[i] = balance.Member{ID: balance.Hash(e.address), Weight: c.weights[i], Presence: 100}
		if presence != nil {
			list[i].Presence = presence[i]
		}
	}
	return list
}

// table is that of some members, which another picker may have already: filling
// one takes a millisecond or more, and most changes are not of the members. The
// caller holds mu.
func (g *group) table(members []balance.Member) *balance.Maglev {
	for _, c := range g.views {
		p := c.picker.Load()
		for i := 0; p != nil && i < len(p.levels); i++ {
			if l := &p.levels[i]; slices.Equal(l.members, members) {
				return l.maglev
			}
		}
	}
	return balance.NewMaglev(members)
}

// seat is a place of an endpoint in a tree of loads, which has to know how many
// attempts are in flight.
type seat struct {
	owner *Cluster
	tree  *balance.Least
	place int
}

// seat has the endpoints keep the trees of the levels up to date, instead of
// those that c had before. The caller holds group.mu.
func (c *Cluster) seat(levels []level) {
	if c.config.Balancing.Policy != snapshot.LeastRequest {
		return
	}
	for i, e := range c.endpoints {
		var seats []seat
		if old := e.seats.Load(); old != nil {
			seats = slices.DeleteFunc(slices.Clone(*old), func(s seat) bool { return s.owner == c })
		}
		for j := range levels {
			if l := &levels[j]; l.least != nil && l.weights[i] > 0 {
				seats = append(seats, seat{owner: c, tree: l.least, place: i})
			}
		}
		if len(seats) == 0 {
			e.seats.Store(nil)
			continue
		}
		e.seats.Store(&seats)
		e.moved()
	}
}

// ranksOf numbers the priorities that occur, from the lowest; nil if there is
// one only.
func ranksOf(endpoints []snapshot.Endpoint) (ranks []int, depth int) {
	var priorities []int
	for i := range endpoints {
		priorities = append(priorities, endpoints[i].Priority)
	}
	slices.Sort(priorities)
	priorities = slices.Compact(priorities)
	if len(priorities) < 2 {
		return nil, 1
	}
	ranks = make([]int, len(endpoints))
	for i := range endpoints {
		ranks[i], _ = slices.BinarySearch(priorities, endpoints[i].Priority)
	}
	return ranks, len(priorities)
}
