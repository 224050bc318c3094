package upstream

import (
	"slices"
	"sync/atomic"

	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/upstream/balance"
	"github.com/headgate/headgate/dataplane/upstream/health"
	"github.com/headgate/headgate/dataplane/upstream/retry"
)

// Unavailable says why there is no endpoint; 0 means that there is one.
type Unavailable uint8

const (
	// NoEndpoints: the cluster has none that has a weight.
	NoEndpoints Unavailable = iota + 1
	// AllUnhealthy: none of them is healthy and in service.
	AllUnhealthy
)

func (u Unavailable) String() string {
	switch u {
	case 0:
		return "available"
	case NoEndpoints:
		return "no endpoints"
	case AllUnhealthy:
		return "all endpoints unhealthy"
	}
	return "invalid"
}

// Cluster is a cluster as one snapshot sees it.
type Cluster struct {
	config    *snapshot.Cluster
	group     *group
	endpoints []*Endpoint // in the order of config.Endpoints
	weights   []int
	picker    atomic.Pointer[picker]
}

// picker is the choice among the endpoints that are available. It is never
// changed, only replaced.
type picker struct {
	order    []*Endpoint // a period of smooth weighted round robin
	reason   Unavailable // if order is empty
	panicked bool        // health is ignored
}

// Config is the compiled cluster.
func (c *Cluster) Config() *snapshot.Cluster { return c.config }

// Pick chooses an endpoint for a request. Those in tried are avoided if there
// is another. It takes no lock and does not allocate.
func (c *Cluster) Pick(tried []*Endpoint) (*Endpoint, Unavailable) {
	p := c.picker.Load()
	if len(p.order) == 0 {
		return nil, p.reason
	}
	at := c.group.position.Next(len(p.order))
	e := p.order[at]
	if len(tried) == 0 || !slices.Contains(tried, e) {
		return e, 0
	}
	return p.other(at, tried), 0
}

// other is the next endpoint after a place that is not in tried, or the one at
// that place if there is none.
func (p *picker) other(at int, tried []*Endpoint) *Endpoint {
	for i := 1; i < len(p.order); i++ {
		if e := p.order[(at+i)%len(p.order)]; !slices.Contains(tried, e) {
			return e
		}
	}
	return p.order[at]
}

// Begin counts a request in. It is false, and End must not follow, if there are
// MaxRequests in flight already.
func (c *Cluster) Begin() bool {
	n := c.group.requests.Add(1)
	if limit := c.group.maxRequests.Load(); limit > 0 && n > limit {
		c.group.requests.Add(-1)
		return false
	}
	return true
}

// End counts a request out that Begin counted in.
func (c *Cluster) End() { c.group.requests.Add(-1) }

// Active is how many requests are in flight.
func (c *Cluster) Active() int64 { return c.group.requests.Load() }

// Retries is the budget that all retries on this cluster share.
func (c *Cluster) Retries() *retry.Budget { return &c.group.retries }

// build replaces the picker. The caller holds group.mu.
func (c *Cluster) build() {
	available, weighted := c.population()
	p := &picker{panicked: health.Panic(available, weighted, c.config.PanicThreshold)}
	weights := c.weights
	if !p.panicked && available < weighted {
		weights = slices.Clone(weights)
		for i, e := range c.endpoints {
			if !e.available() {
				weights[i] = 0
			}
		}
	}
	order := balance.Sequence(weights)
	p.order = make([]*Endpoint, len(order))
	for place, i := range order {
		p.order[place] = c.endpoints[i]
	}
	p.reason = AllUnhealthy
	if weighted == 0 {
		p.reason = NoEndpoints
	}
	c.picker.Store(p)
}

// population counts the endpoints that have a weight, and those of them that
// are available. The caller holds group.mu.
func (c *Cluster) population() (available, weighted int) {
	for i, e := range c.endpoints {
		if c.weights[i] == 0 {
			continue
		}
		weighted++
		if e.available() {
			available++
		}
	}
	return available, weighted
}
