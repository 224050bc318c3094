package dataplane

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/admin"
	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/telemetry"
	"github.com/headgate/headgate/dataplane/upstream"
)

// endpointChanged tells of a change of an endpoint: to those who watch events,
// and, if what it is used for has changed, as a log record and a metric. It must
// not block.
func (s *Server) endpointChanged(e upstream.Event) {
	version := ""
	if live := s.engine.Live().Snapshot; live != nil {
		version = live.Version
	}
	record := telemetry.HealthRecord{
		Cluster: e.Cluster, Endpoint: e.Endpoint, From: e.From.String(), To: e.To.String(),
		Cause: e.Cause, Evidence: e.Evidence, SnapshotVersion: version, At: e.At,
	}
	switch e.Kind {
	case upstream.CircuitChanged:
		record.From, record.To = e.CircuitFrom.String(), e.CircuitTo.String()
		s.recorder.Circuit(record)
	case upstream.EndpointDrained, upstream.EndpointUndrained:
		record.Cause = byHand(&e)
		s.recorder.Health(record)
	default:
		s.recorder.Health(record)
	}
	s.events.Publish(endpointEvent(&e))
}

// byHand is the cause of what somebody has done.
func byHand(e *upstream.Event) string {
	cause := "by hand"
	if e.Writer != "" {
		cause += " of " + e.Writer
	}
	if e.Cause != "" {
		cause += ": " + e.Cause
	}
	return cause
}

func endpointEvent(e *upstream.Event) *controlv1.Event {
	event := &controlv1.Event{Time: timestamppb.New(e.At)}
	switch e.Kind {
	case upstream.HealthChanged:
		event.Detail = &controlv1.Event_EndpointHealth{EndpointHealth: &controlv1.EndpointHealthEvent{
			Cluster: e.Cluster, Endpoint: e.Endpoint, From: healthState(e.From), To: healthState(e.To),
			Cause: e.Cause, Evidence: e.Evidence, NextProbe: timestamp(e.NextProbe),
		}}
	case upstream.CircuitChanged:
		event.Detail = &controlv1.Event_Circuit{Circuit: &controlv1.CircuitEvent{
			Cluster: e.Cluster, Endpoint: e.Endpoint, From: circuitState(e.CircuitFrom), To: circuitState(e.CircuitTo),
			Cause: e.Cause, Evidence: e.Evidence, NextTry: timestamp(e.NextTry),
		}}
	case upstream.EndpointDrained, upstream.EndpointUndrained:
		event.Detail = &controlv1.Event_Drain{Drain: &controlv1.DrainEvent{
			Cluster: e.Cluster, Endpoint: e.Endpoint, Drained: e.Kind == upstream.EndpointDrained, Cause: e.Cause, Writer: e.Writer,
		}}
	default:
		event.Detail = &controlv1.Event_Ejection{Ejection: &controlv1.EjectionEvent{
			Cluster: e.Cluster, Endpoint: e.Endpoint, Ejected: e.Kind == upstream.Ejected,
			Cause: e.Cause, Evidence: e.Evidence, Count: uint32(e.Ejections), Until: timestamp(e.Until),
		}}
	}
	return event
}

func circuitState(s upstream.CircuitState) controlv1.CircuitState {
	switch s {
	case upstream.CircuitOpen:
		return controlv1.CircuitState_CIRCUIT_STATE_OPEN
	case upstream.CircuitHalfOpen:
		return controlv1.CircuitState_CIRCUIT_STATE_HALF_OPEN
	}
	return controlv1.CircuitState_CIRCUIT_STATE_CLOSED
}

func healthState(s upstream.State) controlv1.HealthState {
	switch s {
	case upstream.StateHealthy:
		return controlv1.HealthState_HEALTH_STATE_HEALTHY
	case upstream.StateUnhealthy:
		return controlv1.HealthState_HEALTH_STATE_UNHEALTHY
	}
	return controlv1.HealthState_HEALTH_STATE_UNKNOWN
}

func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// Status is what the data plane knows of itself. See control.Node.
func (s *Server) Status() *controlv1.StatusResponse {
	node := &controlv1.NodeStatus{
		Node: s.options.Node, SoftwareVersion: s.options.Version, Labels: s.options.Labels,
		StartedTime: timestamppb.New(s.started), Draining: s.draining.Load(),
		Drained: drainer{s.registry}.list(),
	}
	response := &controlv1.StatusResponse{Node: node, Listeners: s.sockets.status()}
	for _, l := range response.Listeners {
		node.Connections += l.Connections
	}
	clusters := s.registry.Status()
	for i := range clusters {
		node.RequestsInFlight += uint64(clusters[i].InFlight)
		response.Clusters = append(response.Clusters, clusterStatus(&clusters[i]))
	}
	slices.SortFunc(response.Clusters, func(a, b *controlv1.ClusterStatus) int { return strings.Compare(a.Name, b.Name) })
	return response
}

func (s *sockets) status() []*controlv1.ListenerStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*controlv1.ListenerStatus
	for _, b := range s.bound {
		if b.shown {
			list = append(list, b.status(false))
		}
	}
	for _, b := range s.draining {
		list = append(list, b.status(true))
	}
	slices.SortFunc(list, func(a, b *controlv1.ListenerStatus) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func (b *boundSocket) status(draining bool) *controlv1.ListenerStatus {
	open, accepted := b.Counts()
	return &controlv1.ListenerStatus{
		Name: b.config.Name, Addresses: []string{b.Addr().String()},
		Connections: uint64(open), Accepted: accepted, Draining: draining,
	}
}

// maxEndpoints bounds the endpoints that one cluster shows.
const maxEndpoints = 1000

func clusterStatus(c *upstream.ClusterStatus) *controlv1.ClusterStatus {
	status := &controlv1.ClusterStatus{
		Name: c.Name, EndpointCount: uint32(len(c.Endpoints)),
		Panic: c.Panicked, PendingRequests: uint64(c.Waiting),
		RequestsInFlight: uint64(max(c.InFlight, 0)), RetriesInFlight: uint64(max(c.Retries, 0)),
		Connections: uint64(c.Connections),
	}
	if c.Resolution != nil {
		status.Dns = dnsEvent(c.Resolution)
	}
	if c.Adaptive > 0 {
		limit := uint64(c.Adaptive)
		status.ConcurrencyLimit = &limit
	}
	for i := range c.Endpoints {
		e := &c.Endpoints[i]
		if e.Weight > 0 && e.Drain == nil && (e.State == upstream.StateHealthy || e.State == upstream.StateUnknown) {
			status.AvailableCount++
		}
		status.Endpoints = append(status.Endpoints, endpointStatus(e))
	}
	slices.SortStableFunc(status.Endpoints, func(a, b *controlv1.EndpointStatus) int { return trouble(b) - trouble(a) })
	status.Endpoints = status.Endpoints[:min(len(status.Endpoints), maxEndpoints)]
	return status
}

// trouble orders endpoints so that those which need a look come first.
func trouble(e *controlv1.EndpointStatus) int {
	if e.Health == controlv1.HealthState_HEALTH_STATE_UNHEALTHY || e.EjectedUntil != nil || e.Drain != nil {
		return 1
	}
	return 0
}

func endpointStatus(e *upstream.EndpointStatus) *controlv1.EndpointStatus {
	status := &controlv1.EndpointStatus{
		Address: e.Address, Zone: e.Zone, Weight: uint32(e.Weight), Priority: uint32(e.Priority), Health: healthState(e.Health),
		Since: timestamp(e.Since), LastCause: e.Cause, NextProbe: timestamp(e.NextProbe), EjectedUntil: timestamp(e.EjectedUntil),
		RequestsInFlight: uint64(max(e.InFlight, 0)), Requests: e.Requests, Failures: e.Failures,
		Connections: uint64(e.ConnectionsIdle + e.ConnectionsActive), IdleConnections: uint64(e.ConnectionsIdle),
		PendingRequests: uint64(e.Waiting), Ejections: uint32(e.Ejections), WeightPercent: uint32(e.Share),
		Drain: drainOf(e.Drain), LastEvidence: e.Evidence, NextTry: timestamp(e.NextTry),
	}
	if e.HasRecent {
		status.SuccessRatio = &e.SuccessRatio
	}
	if e.Latency > 0 {
		status.Latency = durationpb.New(e.Latency)
	}
	if e.HasCircuit {
		status.Circuit = circuitState(e.Circuit)
	}
	return status
}

// adminOptions are what the admin pages show.
func (s *Server) adminOptions() admin.Options {
	return admin.Options{Recorder: s.recorder, Ready: s.readiness, Status: s.statusJSON, Config: s.configJSON}
}

// readiness reports whether requests are served, and why not.
func (s *Server) readiness() (bool, string) {
	switch {
	case s.draining.Load():
		return false, "draining"
	case !s.ready.Load():
		return false, "no snapshot is active"
	}
	return true, ""
}

// statusJSON is Status with what the control API adds.
func (s *Server) statusJSON() any {
	status := s.Status()
	s.applier.FillStatus(status.Node)
	text, err := protojson.Marshal(status)
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	return json.RawMessage(text)
}

// configJSON is the active snapshot without its secrets.
func (s *Server) configJSON() []byte {
	_, active := s.applier.Active()
	if active == nil {
		return []byte("{}\n")
	}
	text, err := protojson.MarshalOptions{Multiline: true}.Marshal(snapshot.Redact(active.Source))
	if err != nil {
		return []byte("{}\n")
	}
	return append(text, '\n')
}
