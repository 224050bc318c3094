package upstream

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/socket"
	"github.com/headgate/headgate/dataplane/upstream/balance"
)

// Pick is what is known of a request that needs an endpoint. The zero value
// knows nothing and is ready to use.
type Pick struct {
	Tried     []*Endpoint // avoided if there is another
	Hash      uint64      // of what Cluster.Key names, by Hash; counts if HasHash
	HasHash   bool
	Sticky    uint64 // of the affinity cookie, by ParseToken; counts if HasSticky
	HasSticky bool
	Now       int64 // of socket.Now; 0: the clock is read if the policy needs it
}

// maxStarts bounds how often Start chooses again because others were faster.
const maxStarts = 8

// Pick chooses an endpoint for a request that Cluster.Key and affinity do not
// matter to. See Choose.
func (c *Cluster) Pick(tried []*Endpoint) (*Endpoint, Unavailable) {
	return c.Choose(&Pick{Tried: tried})
}

// Start chooses an endpoint and counts an attempt in; Endpoint.End must follow
// with the ticket. A half-open circuit gets no more attempts by it than it may.
func (c *Cluster) Start(p *Pick) (*Endpoint, Ticket, Unavailable) {
	for range maxStarts {
		e, why := c.Choose(p)
		if e == nil {
			return nil, Ticket{}, why
		}
		if t, ok := e.admit(); ok {
			e.enter()
			return e, t, 0
		}
	}
	return nil, Ticket{}, CircuitsOpen
}

// Choose chooses an endpoint for a request: the one that the client is bound to,
// or else by the policy, in the priority whose turn it is. Those in Tried are
// avoided if there is another, open circuits always. It takes no lock and does
// not allocate.
func (c *Cluster) Choose(p *Pick) (*Endpoint, Unavailable) {
	k := c.picker.Load()
	if p.HasSticky {
		if e := k.sticky[p.Sticky]; e != nil && p.takes(e) {
			return e, 0
		}
	}
	if len(k.levels) == 0 {
		return nil, k.reason
	}
	l := &k.levels[0]
	if l.below < balance.Whole {
		l = k.turn(p)
	}
	if len(p.Tried) > 0 && l.policy == snapshot.RoundRobin {
		return k.another(l, p) // without taking another request's turn
	}
	if e := l.choose(p); p.takes(e) {
		return e, 0
	}
	return k.another(l, p)
}

// takes reports whether an endpoint will do.
func (p *Pick) takes(e *Endpoint) bool {
	return e.admits() && (len(p.Tried) == 0 || !slices.Contains(p.Tried, e))
}

// turn is the level that takes a request. Equal hashes go to the same level.
func (k *picker) turn(p *Pick) *level {
	at, _ := bits.Mul64(p.roll()*0x9e3779b97f4a7c15, balance.Whole)
	for i := range k.levels {
		if at < k.levels[i].below {
			return &k.levels[i]
		}
	}
	return &k.levels[0]
}

// roll is 64 bits that are the same for equal hashes, and random without one.
func (p *Pick) roll() uint64 {
	if p.HasHash {
		return p.Hash
	}
	return rand.Uint64()
}

// choose goes by the policy alone.
func (l *level) choose(p *Pick) *Endpoint {
	switch l.policy {
	case snapshot.Random:
		return l.draw()
	case snapshot.PeakEWMA:
		return l.cheaper(p)
	case snapshot.LeastRequest:
		if l.least == nil {
			return l.leastOf(l.choices)
		}
		return l.endpoints[max(0, l.least.Choose(l.position.Share()))]
	case snapshot.ConsistentHash:
		return l.endpoints[l.maglev.Choose(p.roll())]
	default:
		return l.order[l.position.Next(len(l.order))]
	}
}

func (l *level) draw() *Endpoint { return l.alias.Draw(rand.Uint64()).endpoint }

// drawOther draws one that is not the given one, if luck is not against it.
// The product of random bits with a large odd number has upper bits of its own,
// and costs less than asking for others.
func (l *level) drawOther(than *candidate, random *uint64) *candidate {
	for range 4 {
		*random *= 0x9e3779b97f4a7c15
		if other := l.alias.Draw(*random); other != than {
			return other
		}
	}
	return than
}

// load is the attempts in flight, for the weight.
func (c *candidate) load() float64 { return float64(c.endpoint.InFlight()) * c.burden }

// lesser is 1 if b is less than a, or else 0. None is negative, so that their bits
// order like them: it takes no jump, which would be guessed wrong every other time.
func lesser(a, b float64) uint64 { return (math.Float64bits(b) - math.Float64bits(a)) >> 63 }

// leastOf is the endpoint with the least load of some that are drawn.
func (l *level) leastOf(choices int) *Endpoint {
	random := rand.Uint64()
	best := l.alias.Draw(random)
	load := best.load()
	for range choices - 1 {
		other := l.drawOther(best, &random)
		n := other.load()
		which := lesser(load, n)
		best, load = [...]*candidate{best, other}[which], [...]float64{load, n}[which]
	}
	return best.endpoint
}

// cheaper is the endpoint with the lower expected latency of two that are drawn.
func (l *level) cheaper(p *Pick) *Endpoint {
	now := p.Now
	if now == 0 {
		now = socket.Now()
	}
	random := rand.Uint64()
	one := l.alias.Draw(random)
	other := l.drawOther(one, &random)
	a, b := one.endpoint, other.endpoint
	return [...]*Endpoint{a, b}[lesser(
		a.averageLatency().Cost(now, a.InFlight(), one.burden),
		b.averageLatency().Cost(now, b.InFlight(), other.burden),
	)]
}

// demand is what a second choice must be.
type demand uint8

// The demands, the first that can be met counts.
const (
	sound   demand = iota // not tried, and its last request did not fail
	untried               // not tried
	anyone                // whatever its circuit lets through
)

func (p *Pick) meets(d demand, e *Endpoint) bool {
	switch d {
	case sound:
		return p.takes(e) && e.streak.Load() == 0
	case untried:
		return p.takes(e)
	}
	return e.admits()
}

// another is for a request whose first choice will not do: one that was not
// tried, in any priority, and rather one that has not just failed; or else one
// that was tried.
func (k *picker) another(first *level, p *Pick) (*Endpoint, Unavailable) {
	for d := sound; d <= anyone; d++ {
		if e := first.second(p, d); e != nil {
			return e, 0
		}
		for i := range k.levels {
			if e := k.levels[i].second(p, d); e != nil {
				return e, 0
			}
		}
	}
	return nil, CircuitsOpen
}

// second looks through the level for an endpoint that meets a demand. It is nil
// if there is none. This takes time in proportion to the number of endpoints, and
// is for retries and half-open circuits.
func (l *level) second(p *Pick, d demand) *Endpoint {
	switch l.policy {
	case snapshot.RoundRobin:
		return l.following(p, d)
	case snapshot.ConsistentHash:
		return l.successor(p, d)
	default:
		return l.leastOfAll(p, d)
	}
}

// following goes round by turns of its own. If second choices took turns of the
// first ones, a dead endpoint could be met first again and again; if they went to
// whoever comes next, that one would bear all that the dead one should. Turns
// that are skipped are spent, so that what is left is shared as the weights say.
func (l *level) following(p *Pick, d demand) *Endpoint {
	if !slices.ContainsFunc(l.order, func(e *Endpoint) bool { return p.meets(d, e) }) {
		return nil
	}
	for range 2 * len(l.order) { // others may take the turns between
		if e := l.order[l.again.Next(len(l.order))]; p.meets(d, e) {
			return e
		}
	}
	return l.leastOfAll(p, d)
}

// successor follows the table, so that equal hashes have the same second choice
// too. What is not met in 1,024 slots is looked for in the order of endpoints.
func (l *level) successor(p *Pick, d demand) *Endpoint {
	hash := p.roll()
	for skip := 1; skip <= 1024; skip++ {
		if e := l.endpoints[l.maglev.After(hash, skip)]; p.meets(d, e) {
			return e
		}
	}
	return l.leastOfAll(p, d)
}

// leastOfAll is the endpoint with the least load that meets a demand. Of equals
// it is the first after a random place.
func (l *level) leastOfAll(p *Pick, d demand) *Endpoint {
	var best *Endpoint
	least := 0.0
	from := rand.IntN(len(l.endpoints))
	for i := range l.endpoints {
		place := (from + i) % len(l.endpoints)
		e := l.endpoints[place]
		if l.weights[place] == 0 || !p.meets(d, e) {
			continue
		}
		if load := float64(e.InFlight()) / float64(l.weights[place]); best == nil || load < least {
			best, least = e, load
		}
	}
	return best
}
