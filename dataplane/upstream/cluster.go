package upstream

import (
	"sync/atomic"

	"github.com/headgate/headgate/dataplane/certificate"
	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/upstream/resolve"
	"github.com/headgate/headgate/dataplane/upstream/retry"
)

// Unavailable says why there is no endpoint; 0 means that there is one.
type Unavailable uint8

const (
	// NoEndpoints: the cluster has none that has a weight.
	NoEndpoints Unavailable = iota + 1
	// AllUnhealthy: none of them is healthy and in service.
	AllUnhealthy
	// Unresolved: DNS has not found an address of the cluster's name yet.
	Unresolved
	// CircuitsOpen: those that are healthy have open circuits, or half-open ones
	// with as many trials as may be.
	CircuitsOpen
)

func (u Unavailable) String() string {
	switch u {
	case 0:
		return "available"
	case NoEndpoints:
		return "no endpoints"
	case Unresolved:
		return "no address is known"
	case AllUnhealthy:
		return "all endpoints unhealthy"
	case CircuitsOpen:
		return "all circuits open"
	}
	return "invalid"
}

// Cluster is a cluster as one snapshot sees it.
type Cluster struct {
	config *snapshot.Cluster
	group  *group
	secure *certificate.Client // TLS; nil: clear text
	watch  *resolve.Watch      // of the name whose addresses are the endpoints; nil: they are listed
	picker atomic.Pointer[picker]

	// guarded by group.mu; the lists are replaced when DNS finds others, and never
	// written
	listed    []snapshot.Endpoint // those of the configuration, or what DNS has found
	endpoints []*Endpoint         // in the order of listed
	weights   []int               // likewise
	ranks     []int               // of the priorities, the first is 0; nil: all have the same
	depth     int                 // how many ranks there are
	zones     []int               // of endpoints, that of the node is 0; nil: they make no difference
	aside     [2]bool             // families of addresses that are not reached, of what DNS has found
	trying    bool                // whether they are is being found out
	warmth    *latch              // waits until the name has been looked up; nil: nobody does
	retired   bool                // no snapshot has it any more
}

// Config is the compiled cluster.
func (c *Cluster) Config() *snapshot.Cluster { return c.config }

// Size is how many endpoints there are, whatever state they are in.
func (c *Cluster) Size() int { return c.picker.Load().size }

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

// MaxMirrors is how many copies of requests a cluster is sent at one time. A
// mirror that answers in 100 ms takes some thousand requests a second with it;
// one that does not answer holds so many goroutines and no more.
const MaxMirrors = 256

// BeginMirror is Begin for the copy of a request. It is false if there are
// MaxMirrors of them already. EndMirror must follow.
func (c *Cluster) BeginMirror() bool {
	if c.group.mirrors.Add(1) > MaxMirrors || !c.Begin() {
		c.group.mirrors.Add(-1)
		return false
	}
	return true
}

// EndMirror counts out what BeginMirror counted in.
func (c *Cluster) EndMirror() {
	c.End()
	c.group.mirrors.Add(-1)
}

// Active is how many requests are in flight.
func (c *Cluster) Active() int64 { return c.group.requests.Load() }

// Retry counts a retry in, if the cluster can bear it: of its active requests
// percent may be retries, unless this one is free, as it makes no work, and
// MaxRetries bounds them all. p is the place that the request holds already.
// EndRetry must follow.
func (c *Cluster) Retry(p *retry.Place, percent int, free bool) retry.Verdict {
	return c.group.retries.Take(p, retry.Bounds{
		Active: c.Active(), Percent: percent, Most: int(c.group.maxRetries.Load()), Free: free,
	})
}

// EndRetry counts a retry out, if there is one.
func (c *Cluster) EndRetry(p *retry.Place) { c.group.retries.Release(p) }
