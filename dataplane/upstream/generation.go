package upstream

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dataplane/certificate"
	"github.com/headgate/headgate/dataplane/snapshot"
)

// Generation is the clusters of one snapshot.
type Generation struct {
	registry *Registry
	clusters []*Cluster
	byName   map[string]*Cluster
	fresh    []*Cluster    // those that Prepare made
	warmth   *latch        // opens after the first probes of new endpoints
	longest  time.Duration // of the timeouts of probes
	lookup   time.Duration // how long names are waited for
	early    time.Duration // how long connections are waited for that are opened ahead

	probes []*Endpoint // to be probed for the first time; used by Prepare
	base   *Generation // what was committed then; guarded by Registry.mu
	open   bool        // prepared, and neither committed nor aborted; guarded by Registry.mu
}

func newGeneration(r *Registry, size int) *Generation {
	return &Generation{
		registry: r,
		base:     r.committed,
		clusters: make([]*Cluster, 0, size),
		byName:   make(map[string]*Cluster, size),
		warmth:   newLatch(),
		open:     true,
	}
}

func (g *Generation) add(c *Cluster) {
	g.clusters = append(g.clusters, c)
	g.byName[c.config.Name] = c
}

// addFresh makes the view of a cluster that is new, or that differs from old.
func (g *Generation) addFresh(old *Cluster, config *snapshot.Cluster, secure *certificate.Client) {
	var owner *group
	if old != nil {
		owner = old.group
	} else {
		owner = newGroup(g.registry, config)
	}
	c, made := owner.view(config, secure, g.warmth)
	g.add(c)
	g.fresh = append(g.fresh, c)
	g.lookup = max(g.lookup, c.patience())
	if config.EarlyConnections > 0 {
		g.registry.openEarly(c, g.warmth)
		g.early = earlyPatience
	}
	if config.HealthCheck == nil {
		return
	}
	g.longest = max(g.longest, config.HealthCheck.Timeout)
	g.probes = append(g.probes, made...)
}

// Cluster is the live form of the cluster at index i of what Prepare was given.
func (g *Generation) Cluster(i int) *Cluster { return g.clusters[i] }

// Warm waits until every new name was looked up, every new endpoint that has a
// health check was probed once, and the first connections are open that are to be
// opened ahead, but no longer than a look-up is waited for and the longest timeout
// of a probe. That some are unhealthy or not found, or have not answered by then,
// is no error. The error is that of ctx.
func (g *Generation) Warm(ctx context.Context) error {
	limit := time.NewTimer(g.lookup + max(g.longest, g.early))
	defer limit.Stop()
	select {
	case <-g.warmth.opened:
	case <-limit.C:
	case <-g.registry.stopped.Done():
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// latch opens when done was called once for each add, and once more: whoever
// makes a latch calls done after the last add, so that it does not open between.
type latch struct {
	left   atomic.Int64
	opened chan struct{}
}

func newLatch() *latch {
	l := &latch{opened: make(chan struct{})}
	l.left.Store(1)
	return l
}

func (l *latch) add() { l.left.Add(1) }

func (l *latch) done() {
	if l.left.Add(-1) == 0 {
		close(l.opened)
	}
}

// same reports whether two configurations are equal in all that matters here.
// The identity alone may leave out what is no state, such as limits.
func same(a, b *snapshot.Cluster) bool {
	if a == b {
		return true
	}
	return a.Identity == b.Identity &&
		sameLimits(a, b) &&
		a.ConnectTimeout == b.ConnectTimeout &&
		a.KeepAliveTimeout == b.KeepAliveTimeout &&
		a.PanicThreshold == b.PanicThreshold &&
		a.Balancing == b.Balancing &&
		a.SlowStart == b.SlowStart &&
		a.HTTP2 == b.HTTP2 && a.ALPN == b.ALPN &&
		samePart(a.Affinity, b.Affinity) &&
		samePart(a.CircuitBreaker, b.CircuitBreaker) &&
		samePart(a.DNS, b.DNS) &&
		sameEndpoints(a.Endpoints, b.Endpoints) &&
		sameCheck(a.HealthCheck, b.HealthCheck) &&
		samePart(a.Outlier, b.Outlier)
}

func sameLimits(a, b *snapshot.Cluster) bool {
	return a.MaxConnections == b.MaxConnections &&
		a.MaxConnectionsPerEndpoint == b.MaxConnectionsPerEndpoint &&
		a.MaxPendingRequests == b.MaxPendingRequests &&
		a.AdaptiveMinimum == b.AdaptiveMinimum &&
		a.MaxRequests == b.MaxRequests &&
		a.EarlyConnections == b.EarlyConnections
}

func sameEndpoints(a, b []snapshot.Endpoint) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// samePart compares parts that may be absent.
func samePart[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

func sameCheck(a, b *snapshot.HealthCheck) bool {
	if a == nil || b == nil || a == b {
		return a == b
	}
	if len(a.ExpectedStatuses) != len(b.ExpectedStatuses) {
		return false
	}
	for i := range a.ExpectedStatuses {
		if a.ExpectedStatuses[i] != b.ExpectedStatuses[i] {
			return false
		}
	}
	return a.Probe == b.Probe && a.HTTP2 == b.HTTP2 && a.Service == b.Service && a.Path == b.Path && a.Host == b.Host &&
		a.Interval == b.Interval && a.Timeout == b.Timeout &&
		a.HealthyThreshold == b.HealthyThreshold && a.UnhealthyThreshold == b.UnhealthyThreshold
}
