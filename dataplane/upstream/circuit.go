package upstream

import (
	"fmt"

	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/socket"
	"github.com/headgate/headgate/dataplane/upstream/breaker"
	"github.com/headgate/headgate/dataplane/upstream/health"
)

// Ticket is given to an attempt when it begins and handed back when it ends.
type Ticket = breaker.Ticket

// CircuitState is what the circuit of an endpoint lets through.
type CircuitState = breaker.State

// The states of a circuit.
const (
	CircuitClosed   = breaker.Closed
	CircuitOpen     = breaker.Open
	CircuitHalfOpen = breaker.HalfOpen
)

// A gate is what requests see of a circuit: its epoch, above one of these.
const (
	gateFree = iota // the circuit is closed
	gateTry         // it is half-open and has room for a trial
	gateShut        // nothing gets through
)

const gateBits = 2

func gateOf(epoch uint32, kind uint64) uint64 { return uint64(epoch)<<gateBits | kind }

// currentTicket is for an attempt of which no ticket was kept.
func (e *Endpoint) currentTicket() Ticket {
	gate := e.gate.Load()
	if gate&(gateTry|gateShut) == gateFree {
		return breaker.NewTicket(uint32(gate >> gateBits))
	}
	e.group.mu.Lock()
	defer e.group.mu.Unlock()
	return e.circuit.Current()
}

// admits reports whether the circuit lets one more attempt through.
func (e *Endpoint) admits() bool { return e.gate.Load()&gateShut == 0 }

// admit begins an attempt as far as the circuit is concerned. It is false if the
// circuit did not let it through; the ticket is good all the same, for an attempt
// that is made in spite of that.
func (e *Endpoint) admit() (Ticket, bool) {
	gate := e.gate.Load()
	if gate&(gateTry|gateShut) == gateFree {
		return breaker.NewTicket(uint32(gate >> gateBits)), true
	}
	g := e.group
	g.mu.Lock()
	defer g.mu.Unlock()
	t, ok := e.circuit.Admit(circuitConfig(g.breaker.Load()))
	g.setGate(e)
	return t, ok
}

func circuitConfig(c *snapshot.CircuitBreaker) breaker.Config {
	if c == nil {
		return breaker.Config{}
	}
	return breaker.Config{
		ConsecutiveFailures: c.ConsecutiveFailures, OpenFor: c.OpenFor, HalfOpenRequests: c.HalfOpenRequests,
	}
}

// setGate shows the circuit to requests. The caller holds mu.
func (g *group) setGate(e *Endpoint) {
	kind := uint64(gateShut)
	switch {
	case e.circuit.State() == breaker.Closed:
		kind = gateFree
	case e.circuit.Admits(circuitConfig(g.breaker.Load())):
		kind = gateTry
	}
	e.gate.Store(gateOf(e.circuit.Epoch(), kind))
}

// trip opens the circuit of an endpoint that has failed streak times in a row,
// and reports whether it did.
func (g *group) trip(e *Endpoint, t Ticket, config *snapshot.CircuitBreaker, streak uint32, r Result) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, from := socket.Now(), e.circuit.State()
	if g.endpoints[e.identity()] != e || !e.circuit.Failed(now, t, int(streak), circuitConfig(config)) {
		return false
	}
	g.circuitChanged(e, now, from,
		fmt.Sprintf("%d requests failed in a row, the last: %s", streak, r), r.evidence())
	return true
}

// tried ends a trial of a half-open circuit.
func (g *group) tried(e *Endpoint, t Ticket, r Result) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, from, config := socket.Now(), e.circuit.State(), circuitConfig(g.breaker.Load())
	changed, cause := false, ""
	switch r.Outcome {
	case Success:
		changed = e.circuit.Succeeded(t, config)
		cause = fmt.Sprintf("all trials succeeded (%d)", max(1, config.HalfOpenRequests))
	case Ignored:
		e.circuit.Ignored(t)
	default:
		changed = e.circuit.Failed(now, t, 1, config)
		cause = "a trial failed: " + r.String()
	}
	if changed && g.endpoints[e.identity()] == e {
		g.circuitChanged(e, now, from, cause, r.evidence())
		return
	}
	g.setGate(e)
}

// probedCircuit lets the circuit know of a probe: a failed one opens it if
// requests have begun to fail too, a good one closes what a probe has opened.
// The caller holds mu.
func (g *group) probedCircuit(e *Endpoint, p *probe, now int64) {
	config := g.breaker.Load()
	if config == nil {
		return
	}
	from, changed := e.circuit.State(), false
	switch {
	case p.ok:
		changed = e.active.State() == health.Healthy && e.circuit.ProbeSucceeded()
	case e.streak.Load() > 0:
		changed = e.circuit.ProbeFailed(now, circuitConfig(config))
	}
	if changed {
		g.circuitChanged(e, now, from, p.cause(e.active.Run()), p.evidence())
	}
}

// tickCircuit is for a circuit whose time has come.
func (g *group) tickCircuit(e *Endpoint, now int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	config := g.breaker.Load()
	if config == nil || g.endpoints[e.identity()] != e {
		return
	}
	from := e.circuit.State()
	if e.circuit.Tick(now, circuitConfig(config)) {
		g.circuitChanged(e, now, from, "it was open for "+config.OpenFor.String(), "")
		return
	}
	g.showCircuit(e)
}

// closeCircuit is for an endpoint whose cluster has no breaker any more. The
// caller holds mu.
func (g *group) closeCircuit(e *Endpoint, now int64) {
	if from := e.circuit.State(); e.circuit.Close() {
		g.circuitChanged(e, now, from, "the circuit breaker was removed", "")
	}
}

// showCircuit brings the gate and the timer up to date. The caller holds mu.
func (g *group) showCircuit(e *Endpoint) {
	g.setGate(e)
	if until := e.circuit.Until(); until != 0 {
		g.registry.schedule.ringAt(&e.retry, until)
	} else {
		g.registry.schedule.silence(&e.retry)
	}
}

// circuitChanged records a change and tells of it. The caller holds mu.
func (g *group) circuitChanged(e *Endpoint, now int64, from CircuitState, cause, evidence string) {
	to := e.circuit.State()
	e.since, e.cause, e.evidence = now, cause, evidence
	if to == breaker.Closed {
		e.streak.Store(0)
		g.startRamp(e, now)
	}
	if to == breaker.HalfOpen {
		e.average.Store(0) // what was learnt of it is old
	}
	g.showCircuit(e)
	g.rebuild()
	v := Event{Kind: CircuitChanged, From: e.state(), To: e.state(), CircuitFrom: from, CircuitTo: to, Cause: cause, Evidence: evidence}
	if to == breaker.Open {
		v.NextTry = socket.At(e.circuit.Until())
	}
	g.tell(e, now, v)
}
