package upstream

import (
	"slices"
	"time"

	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/socket"
	"github.com/headgate/headgate/dataplane/upstream/breaker"
	"github.com/headgate/headgate/dataplane/upstream/health"
)

// ClusterStatus is a committed cluster at one moment.
type ClusterStatus struct {
	Name        string
	InFlight    int64 // requests
	Retries     int64 // retries under way
	Mirrors     int64 // requests that are copies
	Connections int   // open, idle or not, or being opened
	Waiting     int   // requests that wait for a connection
	Adaptive    int   // how many requests may wait for an answer, by a limit that follows latency; 0: there is none
	Awaiting    int64 // of these, by the same limit
	Panicked    bool  // so few endpoints are available that health is ignored
	Endpoints   []EndpointStatus
	Resolution  *Resolution // of the name whose addresses are the endpoints; nil: they are listed
}

// EndpointStatus is an endpoint at one moment.
type EndpointStatus struct {
	Address  string
	Zone     string
	Weight   int
	Priority int
	Share    int // percent of the weight that it has at the moment, while it starts slowly

	State        State
	Health       State // by active probes alone
	Since        time.Time
	Cause        string // of the last change; "" if there was none
	Evidence     string
	Ejections    int       // that count towards the length of the next
	EjectedUntil time.Time // zero if it is not ejected
	NextProbe    time.Time // zero if it is not probed

	Drain *Drain // by hand; nil: it is not

	HasCircuit bool // the cluster has a breaker
	Circuit    CircuitState
	Trials     int       // under way, of a half-open circuit
	NextTry    time.Time // of an open circuit; zero otherwise

	InFlight int64 // attempts
	Requests uint64
	Failures uint64

	HasRecent    bool          // there were attempts of late
	SuccessRatio float64       // of these
	Latency      time.Duration // mean of the recent successes, to the head of the answer; 0: there were none

	ConnectionsIdle   int
	ConnectionsActive int // in use or being opened
	Waiting           int // requests that wait for a connection to it
}

// Status is all committed clusters, in their order.
func (r *Registry) Status() []ClusterStatus {
	clusters := r.current().clusters
	list := make([]ClusterStatus, len(clusters))
	for i, c := range clusters {
		list[i] = c.Status()
	}
	return list
}

// Status is the cluster at this moment.
func (c *Cluster) Status() ClusterStatus {
	s := ClusterStatus{
		Name:     c.config.Name,
		InFlight: c.group.requests.Load(),
		Retries:  c.group.retries.InFlight(),
		Mirrors:  c.group.mirrors.Load(),
		Panicked: c.picker.Load().panicked,
	}
	if a := c.group.adaptive.Load(); a != nil {
		s.Adaptive, s.Awaiting = int(a.most.Load()), a.waiting.Load()
	}
	s.Connections, s.Waiting = c.group.connections.Counts()
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	s.Resolution = c.resolution()
	s.Endpoints = make([]EndpointStatus, len(c.endpoints))
	for i, e := range c.endpoints {
		s.Endpoints[i] = e.status(&c.listed[i])
		s.Endpoints[i].Share = e.rampPercent(c.config.SlowStart)
		s.Endpoints[i].HasCircuit = c.config.CircuitBreaker != nil
	}
	return s
}

// Endpoint is an endpoint of a committed cluster at this moment; false: there is
// none such.
func (r *Registry) Endpoint(cluster, address string) (EndpointStatus, bool) {
	c := r.current().byName[cluster]
	if c == nil {
		return EndpointStatus{}, false
	}
	endpoints := c.Status().Endpoints
	i := slices.IndexFunc(endpoints, func(e EndpointStatus) bool { return e.Address == address })
	if i < 0 {
		return EndpointStatus{}, false
	}
	return endpoints[i], true
}

// status is the endpoint's. The caller holds group.mu.
func (e *Endpoint) status(config *snapshot.Endpoint) EndpointStatus {
	s := EndpointStatus{
		Address: e.address, Zone: config.Zone, Weight: config.Weight, Priority: config.Priority,
		State: e.state(), Health: e.active.State(),
		Since: socket.At(e.since), Cause: e.cause, Evidence: e.evidence,
		Ejections: e.ejection.Times(),
		NextProbe: timeOf(e.next),
		Drain:     e.drain,
		InFlight:  e.InFlight(), Requests: e.begun.Load(), Failures: e.failures.Load(),
		Latency: e.recent.latency(),
	}
	if s.Circuit = e.circuit.State(); s.Circuit == breaker.Open {
		s.NextTry = socket.At(e.circuit.Until())
	}
	s.Trials = e.circuit.Trials()
	if s.State == health.Ejected {
		s.EjectedUntil = socket.At(e.ejection.Until())
	}
	s.SuccessRatio, s.HasRecent = e.recent.success()
	idle, open := e.pool.Counts()
	s.ConnectionsIdle, s.ConnectionsActive, s.Waiting = idle, open-idle, e.pool.Waiting()
	return s
}

// timeOf is the wall-clock time of one of socket.Now; zero for 0.
func timeOf(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return socket.At(at)
}
