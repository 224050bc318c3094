package telemetry

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
)

// HealthRecord is a change of an endpoint's health, or of its circuit.
type HealthRecord struct {
	Cluster         string
	Endpoint        string // address
	From            string // one of healthStates or circuitStates, as To
	To              string
	Cause           string // "2 active probes failed: connection refused"
	Evidence        string // "GET /healthz: status 500 in 3ms"
	SnapshotVersion string
	At              time.Time // zero: now
}

// healthStates are the states counted under their own name; index 0 is any other.
var healthStates = [...]string{otherName, "unknown", "healthy", "unhealthy", "ejected", "drained"}

// circuitStates are those of circuits, counted likewise.
var circuitStates = [...]string{otherName, "closed", "open", "half-open"}

// Health records a transition: as an OpenTelemetry log record, in the program's
// log, and in a counter.
func (r *Recorder) Health(e HealthRecord) {
	r.transition("health", &e, e.To == "healthy")
	if endpoint := r.endpointOf(&e); endpoint != nil {
		endpoint.transitions[max(slices.Index(healthStates[:], e.To), 0)].Add(1)
	}
}

// Circuit is Health for a change of an endpoint's circuit.
func (r *Recorder) Circuit(e HealthRecord) {
	r.transition("circuit", &e, e.To == "closed")
	if endpoint := r.endpointOf(&e); endpoint != nil {
		endpoint.circuits[max(slices.Index(circuitStates[:], e.To), 0)].Add(1)
	}
}

// transition records that something of an endpoint has changed, for the better
// if well is set.
func (r *Recorder) transition(what string, e *HealthRecord, well bool) {
	e.At = orNow(e.At)
	level, severity := slog.LevelInfo, log.SeverityInfo
	if !well {
		level, severity = slog.LevelWarn, log.SeverityWarn
	}
	r.emit("headgate.endpoint."+what, e.At, severity,
		what+" of endpoint "+e.Endpoint+" of cluster "+e.Cluster+": "+e.From+" to "+e.To+": "+e.Cause,
		keyCluster.String(e.Cluster), keyEndpoint.String(e.Endpoint),
		keyFrom.String(e.From), keyTo.String(e.To), keyCause.String(e.Cause), keyEvidence.String(e.Evidence),
		keySnapshotVersion.String(e.SnapshotVersion))
	r.logger.Log(context.Background(), level, "endpoint "+what, "cluster", e.Cluster, "endpoint", e.Endpoint,
		"from", e.From, "to", e.To, "cause", e.Cause, "evidence", e.Evidence, "snapshot", e.SnapshotVersion)
}

// endpointOf is where the changes of an endpoint are counted; nil: nowhere.
func (r *Recorder) endpointOf(e *HealthRecord) *endpointSeries {
	r.mu.Lock()
	defer r.mu.Unlock()
	cluster := r.clusters[e.Cluster]
	if cluster == nil {
		return nil
	}
	if endpoint := cluster.endpoints[e.Endpoint]; endpoint != nil {
		return endpoint
	}
	return cluster.table.other
}

// SnapshotRecord is a step in the life of a snapshot.
type SnapshotRecord struct {
	Version    string
	Digest     string
	Generation uint64 // activations on this node so far; 0 before the first
	State      string // RECEIVED, VALIDATED, ACTIVE, REJECTED or DEGRADED
	Cause      string // why it was refused or is degraded
	At         time.Time
}

// snapshotStates are the states counted under their own name; index 0 is any other.
var snapshotStates = [...]string{otherName, "RECEIVED", "VALIDATED", "ACTIVE", "REJECTED", "DEGRADED"}

// snapshotState is what the metrics tell of snapshots; guarded by Recorder.mu.
type snapshotState struct {
	counts [len(snapshotStates)]atomic.Uint64
	active SnapshotRecord // the latest that was ACTIVE
}

// SnapshotState records a step of a snapshot as an OpenTelemetry log record and in
// a counter. In the program's log it is told by who decided it.
// The context may carry the span of the push that caused it.
func (r *Recorder) SnapshotState(ctx context.Context, e SnapshotRecord) {
	e.At = orNow(e.At)
	r.mu.Lock()
	r.state.counts[max(slices.Index(snapshotStates[:], e.State), 0)].Add(1)
	if e.State == "ACTIVE" {
		r.state.active = e
	}
	r.mu.Unlock()
	severity := log.SeverityInfo
	if e.State == "REJECTED" || e.State == "DEGRADED" {
		severity = log.SeverityWarn
	}
	r.emitContext(ctx, "headgate.snapshot.state", e.At, severity, "snapshot "+e.Version+" is "+e.State,
		keySnapshotVersion.String(e.Version), keySnapshotDigest.String(e.Digest),
		keyGeneration.Int64(int64(e.Generation)), keyState.String(e.State), keyCause.String(e.Cause))
}

func orNow(t time.Time) time.Time {
	if t.IsZero() {
		return time.Now()
	}
	return t
}

func (r *Recorder) emit(name string, at time.Time, severity log.Severity, body string, attributes ...attribute.KeyValue) {
	r.emitContext(context.Background(), name, at, severity, body, attributes...)
}

// emitContext sends an event record; attributes without a value are left out.
func (r *Recorder) emitContext(ctx context.Context, name string, at time.Time, severity log.Severity, body string, attributes ...attribute.KeyValue) {
	var record log.Record
	record.SetEventName(name)
	record.SetTimestamp(at)
	record.SetSeverity(severity)
	record.SetBody(attribute.StringValue(text([]byte(body))))
	for _, a := range attributes {
		if a.Value.Type() == attribute.STRING {
			if a.Value.AsString() == "" {
				continue
			}
			a = a.Key.String(text([]byte(a.Value.AsString())))
		}
		record.AddAttributes(a)
	}
	r.event.Emit(ctx, record)
}
