package upstream

import (
	"strings"
	"sync/atomic"

	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/socket"
	"github.com/headgate/headgate/dataplane/upstream/health"
	"github.com/headgate/headgate/dataplane/upstream/pool"
)

// Outcome is how an attempt ended, as far as the endpoint is to blame.
type Outcome uint8

const (
	// Success: the endpoint answered, with a status other than ServerError's.
	Success Outcome = iota
	// ConnectFailure: there was no connection.
	ConnectFailure
	// Reset: the connection broke, or what came over it was not HTTP.
	Reset
	// Timeout: there was no answer in time.
	Timeout
	// ServerError: the status was 502, 503 or 504.
	ServerError
	// Ignored: nothing was learnt, for instance because the client went away.
	Ignored
)

var outcomeNames = [...]string{"success", "connect failure", "reset", "timeout", "server error", "ignored"}

func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "invalid"
}

// Endpoint is one server of a cluster. It lives as long as a committed snapshot
// names its address in that cluster.
type Endpoint struct {
	address string // as configured
	network string // "tcp" or "unix"
	target  string // what to dial
	group   *group
	pool    *pool.Pool

	_        [64]byte // what requests write shares no cache line with what they read
	begun    atomic.Uint64
	ended    atomic.Uint64
	failures atomic.Uint64
	ignored  atomic.Uint64
	latency  atomic.Int64  // of all successes together, in nanoseconds
	streak   atomic.Uint32 // failures since the last success
	_        [64]byte

	probing timer // owned by schedule
	back    timer // owned by schedule: the end of the ejection

	// guarded by group.mu
	check    *snapshot.HealthCheck // nil: not probed
	active   health.Check
	ejection health.Ejection
	warmth   []*latch // told of the first probe; nil afterwards
	since    int64    // of the state it is in
	cause    string
	evidence string
	next     int64 // when the next probe is due; 0: none
	views    int   // that contain it
}

func newEndpoint(g *group, address string) *Endpoint {
	e := &Endpoint{
		address: address,
		network: "tcp",
		target:  address,
		group:   g,
		pool:    g.connections.NewPool(g.registry.options.Shards),
		since:   socket.Now(),
	}
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		e.network, e.target = "unix", path
	}
	e.probing.endpoint, e.back.endpoint = e, e
	return e
}

// Address is host:port, [v6]:port or unix:/path, as configured.
func (e *Endpoint) Address() string { return e.address }

// Begin counts an attempt in; Done must follow.
func (e *Endpoint) Begin() { e.begun.Add(1) }

// Done counts an attempt out. latency is in nanoseconds. An endpoint that fails
// often enough in a row is ejected by this.
func (e *Endpoint) Done(o Outcome, latency int64) {
	e.ended.Add(1)
	switch o {
	case Success:
		e.latency.Add(latency)
		if e.streak.Load() != 0 {
			e.streak.Store(0)
		}
	case Ignored:
		e.ignored.Add(1)
	default:
		e.fail(o, latency)
	}
}

// fail asks for an ejection once for each ConsecutiveFailures in a row, so that
// an endpoint that may not be ejected does not lock up its cluster.
func (e *Endpoint) fail(o Outcome, latency int64) {
	e.failures.Add(1)
	streak := e.streak.Add(1)
	outlier := e.group.outlier.Load()
	if outlier == nil || outlier.ConsecutiveFailures < 1 {
		return
	}
	if streak%uint32(outlier.ConsecutiveFailures) == 0 {
		e.group.eject(e, outlier, streak, o, latency)
	}
}

// InFlight is how many attempts are under way.
func (e *Endpoint) InFlight() int64 {
	ended := e.ended.Load()
	return int64(e.begun.Load() - ended)
}

// available reports whether requests should go there. The caller holds group.mu.
func (e *Endpoint) available() bool {
	return e.active.State() != health.Unhealthy && !e.ejection.Active()
}

// state is the health, unless the endpoint is ejected. The caller holds group.mu.
func (e *Endpoint) state() State {
	if e.ejection.Active() {
		return StateEjected
	}
	return e.active.State()
}
