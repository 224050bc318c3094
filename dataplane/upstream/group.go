package upstream

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dataplane/certificate"
	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/socket"
	"github.com/headgate/headgate/dataplane/upstream/balance"
	"github.com/headgate/headgate/dataplane/upstream/health"
	"github.com/headgate/headgate/dataplane/upstream/pool"
	"github.com/headgate/headgate/dataplane/upstream/retry"
)

// group is what a cluster keeps while snapshots come and go.
type group struct {
	name        string
	registry    *Registry
	connections *pool.Group

	// The committed configuration, as requests need it.
	maxRequests    atomic.Int64
	maxRetries     atomic.Int64
	connectTimeout atomic.Int64 // nanoseconds
	outlier        atomic.Pointer[snapshot.Outlier]
	breaker        atomic.Pointer[snapshot.CircuitBreaker]
	byLatency      atomic.Bool              // the policy goes by latencies
	adaptive       atomic.Pointer[adaptive] // the limit that follows latency; nil: there is none

	positions [4]balance.Position // by rank of priority
	again     balance.Position    // of second choices, in all priorities
	requests  atomic.Int64        // in flight
	mirrors   atomic.Int64        // of these, copies of other requests
	retries   retry.Budget

	mu sync.Mutex
	// guarded by mu
	endpoints map[identity]*Endpoint // of all views
	views     []*Cluster             // whose pickers are kept up to date
	current   *Cluster               // the committed view, nil before there is one
	ramping   bool                   // some endpoint grows to its weight
	told      Resolution             // what was told last of the name, if there is one

	ramp timer // owned by schedule: the next step of those that grow
}

func newGroup(r *Registry, config *snapshot.Cluster) *group {
	g := &group{
		name:        config.Name,
		registry:    r,
		connections: pool.NewGroup(limitsOf(config)),
		endpoints:   make(map[identity]*Endpoint, len(config.Endpoints)),
	}
	g.ramp.ring = g.rampStep
	g.configure(config)
	return g
}

func limitsOf(config *snapshot.Cluster) pool.Limits {
	return pool.Limits{
		Connections: config.MaxConnections,
		PerPool:     config.MaxConnectionsPerEndpoint,
		Waiting:     config.MaxPendingRequests,
		KeepAlive:   config.KeepAliveTimeout,
	}
}

func (g *group) configure(config *snapshot.Cluster) {
	g.maxRequests.Store(int64(config.MaxRequests))
	g.maxRetries.Store(int64(config.MaxRetries))
	g.connectTimeout.Store(int64(config.ConnectTimeout))
	g.outlier.Store(config.Outlier)
	g.breaker.Store(config.CircuitBreaker)
	g.adapt(socket.Now(), config.AdaptiveMinimum)
	g.byLatency.Store(config.Balancing.Policy == snapshot.PeakEWMA)
}

// view makes a Cluster of config, and the endpoints that no view has yet. Those
// that were never probed, but will be, tell warmth when they were.
func (g *group) view(config *snapshot.Cluster, secure *certificate.Client, warmth *latch) (c *Cluster, made []*Endpoint) {
	c = &Cluster{config: config, group: g}
	g.mu.Lock()
	defer g.mu.Unlock()
	c.secure = g.known(secure)
	list := config.Endpoints
	if config.DNS != nil {
		list = g.follow(c, warmth)
	}
	made = g.enlist(c, list, warmth)
	g.views = append(g.views, c)
	c.build()
	if c.watch != nil {
		g.tryFamilies(c, warmth)
	}
	return c, made
}

// enlist makes a list the endpoints of a view, and those that no view has yet.
// warmth, if there is one, waits for their first probe. The caller holds mu.
func (g *group) enlist(c *Cluster, list []snapshot.Endpoint, warmth *latch) (made []*Endpoint) {
	c.listed = list
	c.endpoints, c.weights = make([]*Endpoint, len(list)), make([]int, len(list))
	c.ranks, c.depth = ranksOf(list)
	c.zones = zonesOf(list, g.registry.options.Zone, c.config.Balancing.Policy)
	check := c.config.HealthCheck
	for i := range list {
		e := g.endpoints[identity{list[i].Address, c.secure}]
		if e == nil {
			e = newEndpoint(g, list[i].Address, c.secure)
			e.check = check
			if e.check != nil {
				e.next = e.since
			}
			g.endpoints[e.identity()] = e
			made = append(made, e)
		}
		if warmth != nil && check != nil && e.check != nil && e.active.State() == StateUnknown {
			warmth.add()
			e.warmth = append(e.warmth, warmth)
		}
		e.views++
		c.endpoints[i], c.weights[i] = e, list[i].Weight
		if c.config.Affinity != nil && e.token == 0 { // and so no request reads it yet
			e.token = tokenOf(g.name, e.address)
		}
	}
	c.judgeFamilies()
	return made
}

// known is TLS as some view has it already, if one has the same, so that its
// sessions live on. The caller holds mu.
func (g *group) known(secure *certificate.Client) *certificate.Client {
	for _, c := range g.views {
		if c.secure.Equal(secure) {
			return c.secure
		}
	}
	return secure
}

// adopt makes a view the committed one.
func (g *group) adopt(c *Cluster) {
	g.configure(c.config)
	g.connections.SetLimits(limitsOf(c.config))
	g.mu.Lock()
	defer g.mu.Unlock()
	first := g.current == nil
	g.current = c
	g.adoptEndpoints(c, first)
	g.tellResolution(c, true)
}

// adoptEndpoints has the endpoints of the committed view be as that wants them.
// In a new cluster they do not grow slowly: all would do so alike. The caller
// holds mu.
func (g *group) adoptEndpoints(c *Cluster, first bool) {
	now, stale := socket.Now(), false
	for _, e := range c.endpoints {
		if e.drain != nil && g.registry.drains.of(g.name, e.address) == nil { // put back before there was a committed view
			e.drain, stale = nil, true
		}
		if !e.adopted && !first {
			g.startRamp(e, now)
		}
		e.adopted = true
		if c.config.CircuitBreaker == nil {
			g.closeCircuit(e, now)
		} else {
			g.setGate(e)
		}
		g.setCheck(e, c.config.HealthCheck, now)
		if c.config.Outlier == nil && e.ejection.Active() {
			g.readmit(e, now, "outlier detection was turned off")
		}
	}
	if g.ramping || stale {
		g.rebuild()
	}
}

// dropView retires the endpoints that are in no other view.
func (g *group) dropView(c *Cluster) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.views, c)
	if i < 0 {
		return
	}
	g.views = slices.Delete(g.views, i, i+1)
	c.retired = true
	c.unfollow()
	if c.config.Balancing.Policy == snapshot.LeastRequest {
		c.build()
	}
	g.dismiss(c.endpoints)
}

// dismiss is for endpoints that a view has no more. The caller holds mu.
func (g *group) dismiss(endpoints []*Endpoint) {
	for _, e := range endpoints {
		if e.views--; e.views == 0 {
			g.retire(e)
		}
	}
}

// retireAll retires every endpoint: the cluster is gone.
func (g *group) retireAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.views {
		c.unfollow()
	}
	for _, e := range g.endpoints {
		g.retire(e)
	}
	g.registry.schedule.silence(&g.ramp)
	g.views, g.current = nil, nil
}

// retire ends what an endpoint does by itself. The caller holds mu.
func (g *group) retire(e *Endpoint) {
	delete(g.endpoints, e.identity())
	g.registry.schedule.remove(e)
	e.check, e.next = nil, 0
	g.warmed(e)
	e.closeChannel()
	e.pool.Close()
	e.streams.shutdown()
}

// warmed tells those who wait for an endpoint's first probe. The caller holds mu.
func (g *group) warmed(e *Endpoint) {
	for _, l := range e.warmth {
		l.done()
	}
	e.warmth = nil
}

// rebuild brings the pickers of all views up to date. The caller holds mu.
func (g *group) rebuild() {
	for _, c := range g.views {
		c.build()
	}
}

// setCheck changes how an endpoint is probed. The caller holds mu.
func (g *group) setCheck(e *Endpoint, check *snapshot.HealthCheck, now int64) {
	if sameCheck(e.check, check) {
		return // a probe under way goes by the old pointer
	}
	e.check = check
	if check != nil {
		e.next = now
		g.registry.schedule.probeAt(e, now)
		return
	}
	e.next = 0
	e.closeChannel()
	g.registry.schedule.cancelProbe(e)
	g.warmed(e)
	g.forgetHealth(e, now)
}

// forgetHealth is for an endpoint that is not probed any more: nothing could
// bring it back. The caller holds mu.
func (g *group) forgetHealth(e *Endpoint, now int64) {
	from := e.active.State()
	e.active = health.Check{}
	if from == StateUnknown {
		return
	}
	g.changed(e, now, Event{Kind: HealthChanged, From: from, To: StateUnknown, Cause: "the health check was removed"})
}

// changed records a change and tells of it. The caller holds mu.
func (g *group) changed(e *Endpoint, now int64, v Event) {
	e.since, e.cause, e.evidence = now, v.Cause, v.Evidence
	if takesRequests(v.From) != takesRequests(v.To) {
		if takesRequests(v.To) {
			g.startRamp(e, now)
		}
		g.rebuild()
	}
	g.tell(e, now, v)
}

// tell completes an event and sends it. The caller holds mu.
func (g *group) tell(e *Endpoint, now int64, v Event) {
	v.Ejections = e.ejection.Times()
	v.Cluster, v.Endpoint, v.At = g.name, e.address, socket.At(now)
	v.NextProbe = timeOf(e.next)
	g.registry.options.Events(v)
}

func takesRequests(s State) bool { return s == StateUnknown || s == StateHealthy }

// checkOf is how to probe an endpoint, nil if it is not to be, and whether that is
// its first probe.
func (g *group) checkOf(e *Endpoint) (check *snapshot.HealthCheck, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return e.check, e.active.State() == StateUnknown
}

// observe takes the result of a probe.
func (g *group) observe(e *Endpoint, p probe, now int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e.check != p.check {
		return
	}
	e.next = p.next
	g.registry.schedule.probeAt(e, p.next)
	defer g.warmed(e)
	from := e.active.State()
	thresholds := health.Thresholds{Healthy: p.check.HealthyThreshold, Unhealthy: p.check.UnhealthyThreshold}
	if e.active.Observe(p.ok, thresholds) {
		g.changed(e, now, Event{
			Kind: HealthChanged, From: from, To: e.active.State(),
			Cause: p.cause(e.active.Run()), Evidence: p.evidence(),
		})
	}
	g.probedCircuit(e, &p, now)
}

// eject puts an endpoint aside that failed streak times in a row, if the
// cluster can spare it.
func (g *group) eject(e *Endpoint, outlier *snapshot.Outlier, streak uint32, r Result) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.current == nil || g.endpoints[e.identity()] != e || e.ejection.Active() {
		return
	}
	if !health.MayEject(g.current.withoutOne(e), outlier.MaxEjectionPercent) {
		g.spare(e, outlier, streak, r)
		return
	}
	now := socket.Now()
	from := e.state()
	until := e.ejection.Eject(now, outlier.EjectionTime)
	g.registry.schedule.ringAt(&e.back, until)
	g.changed(e, now, Event{
		Kind: Ejected, From: from, To: StateEjected, Until: socket.At(until),
		Cause:    fmt.Sprintf("%d requests failed in a row, the last: %s", streak, r),
		Evidence: r.evidence(),
	})
}

// spare says, once for each streak, that an endpoint stays which should go.
func (g *group) spare(e *Endpoint, outlier *snapshot.Outlier, streak uint32, r Result) {
	if int(streak) != outlier.ConsecutiveFailures {
		return
	}
	g.registry.options.Logger.Warn("a failing endpoint is not ejected: the cluster can spare no more",
		"cluster", g.name, "endpoint", e.address, "failures", streak, "last", r.String())
}

// withoutOne is the population as e's ejection would find it. The caller holds
// group.mu.
func (c *Cluster) withoutOne(e *Endpoint) health.Population {
	var p health.Population
	for i, other := range c.endpoints {
		if !c.takesPart(i) {
			continue
		}
		p.Endpoints++
		if other.ejection.Active() {
			p.Ejected++
		}
		if other != e && other.inService() {
			p.Others++
		}
	}
	return p
}

// comeBack ends an ejection whose time is over.
func (g *group) comeBack(e *Endpoint, now int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e.ejection.Active() && e.ejection.Until() <= now && g.endpoints[e.identity()] == e {
		g.readmit(e, now, "the ejection is over")
	}
}

// readmit ends an ejection. The caller holds mu.
func (g *group) readmit(e *Endpoint, now int64, cause string) {
	g.registry.schedule.silence(&e.back)
	e.ejection.End(now)
	e.streak.Store(0)
	g.changed(e, now, Event{Kind: Returned, From: StateEjected, To: e.state(), Cause: cause})
}

// rounded is a duration in a form for people.
func rounded(nanoseconds int64) time.Duration {
	d := time.Duration(nanoseconds)
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}
