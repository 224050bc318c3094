package upstream

import (
	"time"

	"github.com/headgate/headgate/dataplane/upstream/health"
)

// State is what an endpoint is to those who choose one.
type State = health.State

// The states of an endpoint.
const (
	StateUnknown   = health.Unknown   // never probed; gets requests
	StateHealthy   = health.Healthy   // passed its last probes
	StateUnhealthy = health.Unhealthy // failed its last probes
	StateEjected   = health.Ejected   // failed requests; put aside for a time
	StateDrained   = health.Drained   // taken out by hand
)

// Kind is what an Event is about.
type Kind uint8

const (
	// HealthChanged: active probes changed the state.
	HealthChanged Kind = iota + 1
	// Ejected: the traffic failed so often that the endpoint is put aside.
	Ejected
	// Returned: an ejection is over.
	Returned
	// CircuitChanged: the circuit opened, closed or is being tried.
	CircuitChanged
	// EndpointDrained: somebody has taken the endpoint out by hand.
	EndpointDrained
	// EndpointUndrained: somebody has put it back.
	EndpointUndrained
)

func (k Kind) String() string {
	switch k {
	case HealthChanged:
		return "health changed"
	case Ejected:
		return "ejected"
	case Returned:
		return "returned"
	case CircuitChanged:
		return "circuit changed"
	case EndpointDrained:
		return "drained"
	case EndpointUndrained:
		return "undrained"
	}
	return "invalid"
}

// Event is a change of one endpoint.
type Event struct {
	Kind      Kind
	Cluster   string
	Endpoint  string // its address
	From, To  State
	Cause     string // "2 active probes failed: connection refused"
	Evidence  string // "GET /healthz: status 500 in 3ms"
	At        time.Time
	NextProbe time.Time // zero if it is not probed
	Ejections int       // of this endpoint that count towards the length of the next
	Until     time.Time // end of the ejection; zero for other kinds

	CircuitFrom, CircuitTo CircuitState // of CircuitChanged
	NextTry                time.Time    // when an open circuit is tried; zero otherwise

	Writer string // who drained it by hand, or put it back
}
