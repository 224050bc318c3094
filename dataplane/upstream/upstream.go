// Package upstream is the clusters as they live: their endpoints with health,
// ejections, counters and connections. It owns the active probes and everything
// that must outlive a snapshot, and lets an apply take effect without disturbing
// what did not change.
//
// It must not know requests: who picks an endpoint, sends something and judges
// the outcome is the proxy. The decisions are those of the machines in balance,
// health, retry and pool; this package gives them a clock, a lock and a place.
//
// A cluster's name stands for a group, which owns the state; a Cluster is the
// view that one snapshot has of it. Endpoints of equal address are the same
// object in all views of a group.
//
//	Generation (committed) ──── Cluster ─┐
//	                                     ├─ group ── Endpoint ── pool.Pool
//	Generation (being prepared) Cluster ─┘
//
// Locks are taken in this order: Registry.mu, group.mu, then that of the schedule,
// of the drains or of the resolver. Requests
// take none of them, unless they fail so often that an endpoint is ejected.
package upstream

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"

	"github.com/headgate/headgate/dataplane/certificate"
	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/socket"
	"github.com/headgate/headgate/dataplane/upstream/resolve"
)

// Options say what a Registry works with. The zero value is ready to use.
type Options struct {
	// Shards is how many parts each endpoint keeps its idle connections in;
	// default GOMAXPROCS.
	Shards int
	// Events hears of changes, in order for each endpoint. It is called under
	// a lock: it must not block and must not call back.
	Events func(Event)
	// Logger gets what is nobody's event; default: nothing is logged.
	Logger *slog.Logger
	// Dial opens connections, for requests and for probes; default net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Resolve says how the names of clusters are looked up.
	Resolve resolve.Options
	// Resolved hears of the addresses of the names of committed clusters, under the
	// same rules as Events.
	Resolved func(Resolution)
	// Zone is where this node is: endpoints in the same one are preferred; default
	// nowhere.
	Zone string
	// UserAgent is sent with probes; default "headgate-health".
	UserAgent string
}

func (o Options) withDefaults() Options {
	if o.Shards < 1 {
		o.Shards = runtime.GOMAXPROCS(0)
	}
	if o.Events == nil {
		o.Events = func(Event) {}
	}
	if o.Resolved == nil {
		o.Resolved = func(Resolution) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	if o.UserAgent == "" {
		o.UserAgent = "headgate-health"
	}
	return o
}

// Registry is all clusters. Its methods may be called from any goroutine.
type Registry struct {
	options  Options
	schedule *schedule
	resolver *resolve.Resolver
	early    chan struct{} // one message for each connection that is opened ahead
	stop     context.CancelFunc
	stopped  context.Context
	running  sync.WaitGroup // the scheduler and the sweeper
	jitter   func() float64 // in [0,1), for the time of a probe
	drains   drains

	mu sync.Mutex
	// guarded by mu
	committed *Generation
}

// NewRegistry starts a registry without clusters. Close must be called.
func NewRegistry(o Options) *Registry {
	r := &Registry{options: o.withDefaults(), committed: &Generation{}, jitter: rand.Float64}
	r.stopped, r.stop = context.WithCancel(context.Background())
	r.committed.registry = r
	r.schedule = newSchedule(r.stopped, r.probe)
	r.resolver = resolve.NewResolver(r.options.Resolve)
	r.early = make(chan struct{}, maxEarly)
	r.running.Go(r.schedule.run)
	r.running.Go(r.sweep)
	return r
}

// Close ends all probes and look-ups, closes the idle connections, and waits until nothing
// of the registry runs any more. Connections in use stay with their users.
func (r *Registry) Close() {
	r.stop()
	r.resolver.Close()
	r.running.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.committed.clusters {
		c.group.retireAll()
	}
}

// Prepare makes live clusters of the compiled ones, in their order. What is
// new is made and begins to be probed; what is unchanged is the same object as
// in the committed generation; what changed is a new view of the same state.
// Requests see nothing of it before Commit. Commit or Abort must follow.
func (r *Registry) Prepare(clusters []*snapshot.Cluster) *Generation {
	return r.PrepareSecure(clusters, func(*snapshot.Cluster) *certificate.Client { return nil })
}

// PrepareSecure is Prepare where clusters are spoken to over TLS; secure gives
// that of a cluster, nil for clear text. An endpoint that is spoken to with
// other TLS than before is a new one.
func (r *Registry) PrepareSecure(clusters []*snapshot.Cluster, secure func(*snapshot.Cluster) *certificate.Client) *Generation {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := newGeneration(r, len(clusters))
	for _, config := range clusters {
		old, over := r.committed.byName[config.Name], secure(config)
		if old != nil && same(old.config, config) && old.secure.Equal(over) {
			g.add(old)
			continue
		}
		g.addFresh(old, config, over)
	}
	g.warmth.done()
	r.schedule.startAll(g.probes, socket.Now())
	g.probes = nil
	return g
}

// Commit makes a generation the one that counts and retires what it does not
// contain: probes stop, idle connections close, those in use finish. Limits and
// health checks of changed clusters hold from now on. It panics if g was
// aborted, or prepared before another generation was committed: what it shares
// with that one may be gone.
func (r *Registry) Commit(g *Generation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.committed
	if !g.open || g.base != old {
		panic("upstream: Commit of a generation that is not prepared on the committed one")
	}
	for _, c := range g.clusters {
		if old.byName[c.config.Name] != c {
			c.group.adopt(c)
		}
	}
	for _, c := range old.clusters {
		switch now := g.byName[c.config.Name]; {
		case now == nil || now.group != c.group:
			c.group.retireAll()
		case now != c:
			c.group.dropView(c)
		}
	}
	r.committed = g
	g.open, g.base = false, nil
}

// Abort drops a generation that is not to be committed.
func (r *Registry) Abort(g *Generation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !g.open {
		return
	}
	g.open, g.base = false, nil
	for _, c := range g.fresh {
		c.group.dropView(c)
	}
}
