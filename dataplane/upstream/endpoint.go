package upstream

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/headgate/headgate/dataplane/certificate"
	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/socket"
	"github.com/headgate/headgate/dataplane/upstream/balance"
	"github.com/headgate/headgate/dataplane/upstream/breaker"
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
//
// It is one cache line, which has all that a choice reads of an endpoint and all
// that an attempt writes: with a thousand of them, each line that a choice reads
// is one that it waits for.
type Endpoint struct {
	*backend

	gate     atomic.Uint64 // what requests see of circuit
	begun    atomic.Uint64
	ended    atomic.Uint64
	average  atomic.Uint64 // a balance.Latency, if the policy goes by it
	latency  atomic.Int64  // of all successes together, in nanoseconds
	failures atomic.Uint64
	streak   atomic.Uint32 // failures since the last success
	_        [4]byte
}

// backend is what else belongs to an endpoint.
type backend struct {
	address string              // as configured
	network string              // "tcp" or "unix"
	target  string              // what to dial
	secure  *certificate.Client // TLS; nil: clear text
	group   *group
	pool    *pool.Pool
	streams streams // connections that speak HTTP/2
	token   uint64  // that clients know it by; 0 before a view has affinity

	agreed  atomic.Uint32
	ignored atomic.Uint64          // attempts of which nothing was learnt
	seats   atomic.Pointer[[]seat] // in trees of loads; replaced under group.mu

	probing timer // owned by schedule
	back    timer // owned by schedule: the end of the ejection
	retry   timer // owned by schedule: the circuit's next change by time

	// guarded by group.mu
	check     *snapshot.HealthCheck // nil: not probed
	active    health.Check
	ejection  health.Ejection
	circuit   breaker.Circuit
	rampFrom  int64    // since when it has been growing to its weight; 0: it has it
	warmth    []*latch // told of the first probe; nil afterwards
	since     int64    // of the state it is in
	cause     string
	evidence  string
	next      int64  // when the next probe is due; 0: none
	views     int    // that contain it
	connected bool   // a trial of its family has reached it
	opening   bool   // connections are opened ahead
	pause     int    // sweeps until that is tried again
	adopted   bool   // a committed view has contained it
	drain     *Drain // by hand; nil: it is not
	recent    recent
	channel   *channel // that gRPC probes use; nil: there is none, or a probe has it
}

func newEndpoint(g *group, address string, secure *certificate.Client) *Endpoint {
	e := &Endpoint{backend: &backend{
		address: address,
		network: "tcp",
		target:  address,
		secure:  secure,
		group:   g,
		pool:    g.connections.NewPool(g.registry.options.Shards),
		streams: streams{shards: make([]streamShard, g.registry.options.Shards)},
		since:   socket.Now(),
	}}
	e.drain = g.registry.drains.of(g.name, address)
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		e.network, e.target = "unix", path
	}
	e.probing.endpoint = e
	e.back.ring = func(now int64) { g.comeBack(e, now) }
	e.retry.ring = func(now int64) { g.tickCircuit(e, now) }
	return e
}

// identity tells an endpoint from the others of its cluster. One that is spoken
// to with other TLS is another one: its connections must not be used, and what
// probes found out says little.
type identity struct {
	address string
	secure  *certificate.Client
}

func (e *Endpoint) identity() identity { return identity{e.address, e.secure} }

// Address is host:port, [v6]:port or unix:/path, as configured.
func (e *Endpoint) Address() string { return e.address }

// Begin counts an attempt in that Pick or Choose has chosen the endpoint for;
// End must follow with the ticket.
func (e *Endpoint) Begin() Ticket {
	t, _ := e.admit()
	e.enter()
	return t
}

func (e *Endpoint) enter() {
	e.begun.Add(1)
	e.moved()
}

// Done is End for an attempt that began just now, as far as circuits go.
func (e *Endpoint) Done(o Outcome, latency int64) {
	e.End(e.currentTicket(), o, latency)
}

// End counts an attempt out. latency is how long the answer took, in
// nanoseconds. An endpoint that fails often enough in a row is ejected by this,
// or its circuit opens.
func (e *Endpoint) End(t Ticket, o Outcome, latency int64) {
	e.EndWith(t, Result{Outcome: o, Latency: latency})
}

// Result is how an attempt went.
type Result struct {
	Outcome Outcome
	Latency int64  // of the answer or failure, in nanoseconds
	Detail  string // what went wrong, for people: "connection refused"; "": the outcome says it
}

// String is what went wrong, in as few words as people can act on.
func (r Result) String() string {
	if r.Detail != "" {
		return r.Detail
	}
	return r.Outcome.String()
}

// evidence is what is known of it.
func (r Result) evidence() string {
	if r.Detail != "" {
		return fmt.Sprintf("%s: %s after %s", r.Outcome, r.Detail, rounded(r.Latency))
	}
	return fmt.Sprintf("%s after %s", r.Outcome, rounded(r.Latency))
}

// EndWith is End for those who know more.
func (e *Endpoint) EndWith(t Ticket, r Result) {
	e.ended.Add(1)
	e.moved()
	o, latency := r.Outcome, r.Latency
	e.count(o, latency)
	if e.group.byLatency.Load() {
		e.learn(o, latency)
	}
	switch gate := e.gate.Load(); {
	case t.Trial():
		e.group.tried(e, t, r)
	case gate != gateOf(t.Epoch(), gateFree) || o == Ignored:
		// It says nothing of the endpoint as it is now.
	case o == Success:
		if e.streak.Load() != 0 {
			e.streak.Store(0)
		}
	default:
		e.fail(t, r)
	}
}

func (e *Endpoint) count(o Outcome, latency int64) {
	switch o {
	case Success:
		e.latency.Add(latency)
	case Ignored:
		e.ignored.Add(1)
	default:
		e.failures.Add(1)
	}
}

// learn brings the average latency up to date.
func (e *Endpoint) learn(o Outcome, latency int64) {
	if o == Ignored {
		return
	}
	for now := socket.Now(); ; {
		old := e.average.Load()
		average := balance.Latency(old)
		if o == Success {
			average = average.Succeeded(now, latency)
		} else {
			average = average.Failed(now, latency)
		}
		if e.average.CompareAndSwap(old, uint64(average)) {
			return
		}
	}
}

func (e *Endpoint) averageLatency() balance.Latency { return balance.Latency(e.average.Load()) }

// moved tells the trees of loads how many attempts are in flight. Each who
// changes that number reads it again after it has told, so the last word is the
// right one whoever has it.
func (e *Endpoint) moved() {
	seats := e.seats.Load()
	if seats == nil {
		return
	}
	for n := e.InFlight(); ; {
		for _, s := range *seats {
			s.tree.Set(s.place, n)
		}
		again := e.InFlight()
		if again == n {
			return
		}
		n = again
	}
}

// fail asks for an open circuit, or else for an ejection once for each
// ConsecutiveFailures in a row, so that an endpoint that may not be ejected does
// not lock up its cluster.
func (e *Endpoint) fail(t Ticket, r Result) {
	streak := e.streak.Add(1)
	circuit := e.group.breaker.Load()
	if circuit != nil && int(streak) >= circuit.ConsecutiveFailures && e.group.trip(e, t, circuit, streak, r) {
		return
	}
	outlier := e.group.outlier.Load()
	if outlier == nil || outlier.ConsecutiveFailures < 1 {
		return
	}
	if streak%uint32(outlier.ConsecutiveFailures) == 0 {
		e.group.eject(e, outlier, streak, r)
	}
}

// InFlight is how many attempts are under way.
func (e *Endpoint) InFlight() int64 {
	ended := e.ended.Load()
	return int64(e.begun.Load() - ended)
}

// inService reports whether it is available and its circuit lets something
// through. The caller holds group.mu.
func (e *Endpoint) inService() bool { return e.available() && e.circuit.State() != breaker.Open }

// available reports whether it is healthy and not ejected. The caller holds
// group.mu.
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
