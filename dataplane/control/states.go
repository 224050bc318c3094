package control

import (
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// Bounds of what is said about one snapshot.
const (
	maxViolations   = 1000 // in an update
	maxEventEntries = 32   // of each list, in an event
)

// state says that a job has reached a state before it was admitted.
func (a *Applier) state(j *job, s controlv1.SnapshotState, err error) {
	u := &controlv1.StateUpdate{State: s, Snapshot: j.info()}
	if err != nil {
		u = refusedUpdate(j, err)
	}
	a.publish(u)
	a.logState(u)
	j.observe(u)
}

func (a *Applier) rejected(j *job, err error) {
	a.state(j, controlv1.SnapshotState_SNAPSHOT_STATE_REJECTED, err)
}

// validated says once that a job is free of errors. The caller holds mu.
func (a *Applier) validated(j *job) {
	if j.validated != nil {
		return
	}
	j.validated = &controlv1.StateUpdate{
		State:    controlv1.SnapshotState_SNAPSHOT_STATE_VALIDATED,
		Snapshot: j.info(), Diff: j.diff, Unchanged: j.next.Digest == a.machine.active,
	}
	setViolations(j.validated, j.violations)
	a.publish(j.validated)
	a.logState(j.validated)
}

func activeUpdate(r *Result) *controlv1.StateUpdate {
	u := &controlv1.StateUpdate{
		State:    controlv1.SnapshotState_SNAPSHOT_STATE_ACTIVE,
		Snapshot: r.Info, Diff: r.Diff, Unchanged: r.Unchanged,
	}
	setViolations(u, r.Warnings)
	return u
}

// refusedUpdate is REJECTED, or SUPERSEDED.
func refusedUpdate(j *job, err error) *controlv1.StateUpdate {
	u := &controlv1.StateUpdate{
		State:    controlv1.SnapshotState_SNAPSHOT_STATE_REJECTED,
		Snapshot: j.info(), Reason: err.Error(),
	}
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		return u
	}
	u.Reason, u.ReasonCode = refusal.Text, string(refusal.Reason)
	setViolations(u, refusal.Violations)
	if refusal.Reason == ReasonInvalid && len(refusal.Violations) > 0 {
		u.Reason = "" // the violations say it
	}
	if refusal.Reason == ReasonSuperseded {
		u.State = controlv1.SnapshotState_SNAPSHOT_STATE_SUPERSEDED
	}
	return u
}

func setViolations(u *controlv1.StateUpdate, list []snapshot.Violation) {
	u.Violations, u.ViolationCount = violations(list), uint32(len(list))
}

// violations are the first thousand, as they go over the wire.
func violations(list []snapshot.Violation) []*controlv1.Violation {
	out := make([]*controlv1.Violation, min(len(list), maxViolations))
	for i := range out {
		v, severity := list[i], controlv1.Severity_SEVERITY_ERROR
		if v.Warning {
			severity = controlv1.Severity_SEVERITY_WARNING
		}
		out[i] = &controlv1.Violation{FieldPath: v.Path, Message: v.Message, RuleId: v.Rule, Severity: severity}
	}
	return out
}

// divide parts errors from warnings.
func divide(list []snapshot.Violation) (errs, warnings []snapshot.Violation) {
	for _, v := range list {
		if v.Warning {
			warnings = append(warnings, v)
		} else {
			errs = append(errs, v)
		}
	}
	return errs, warnings
}

// publish puts an update into the log of events, with its lists cut.
func (a *Applier) publish(u *controlv1.StateUpdate) {
	cut := &controlv1.StateUpdate{
		State: u.State, Snapshot: u.Snapshot, ViolationCount: u.ViolationCount, Reason: u.Reason,
		Unchanged: u.Unchanged, Diff: cutDiff(u.Diff, maxEventEntries),
		Violations:   first(u.Violations, maxEventEntries),
		Degradations: first(u.Degradations, maxEventEntries),
	}
	a.events.Publish(&controlv1.Event{Detail: &controlv1.Event_Snapshot{
		Snapshot: &controlv1.SnapshotEvent{Update: cut},
	}})
}

func (a *Applier) logState(u *controlv1.StateUpdate) {
	attrs := []any{
		"state", stateName(u.State), "version", u.Snapshot.GetVersion(), "digest", u.Snapshot.GetDigest(),
		"generation", u.Snapshot.GetGeneration(), "writer", u.Snapshot.GetWriter(),
	}
	switch u.State {
	case controlv1.SnapshotState_SNAPSHOT_STATE_DEGRADED:
		a.logDegraded(u, attrs)
	case controlv1.SnapshotState_SNAPSHOT_STATE_REJECTED:
		a.log.Warn("snapshot", append(attrs, "reason", u.Reason, "violations", u.ViolationCount)...)
	case controlv1.SnapshotState_SNAPSHOT_STATE_ACTIVE, controlv1.SnapshotState_SNAPSHOT_STATE_SUPERSEDED:
		a.log.Info("snapshot", append(attrs, "unchanged", u.Unchanged)...)
	default:
		a.log.Debug("snapshot", attrs...)
	}
}

// logDegraded says what does not work, or that all works again.
func (a *Applier) logDegraded(u *controlv1.StateUpdate, attrs []any) {
	if len(u.Degradations) == 0 {
		a.log.Info("snapshot works again as a whole", attrs...)
	}
	for _, d := range u.Degradations {
		a.log.Warn("snapshot", append(slices.Clone(attrs), "resource", d.GetResource().GetName(), "reason", d.GetReason())...)
	}
}

// stateName is the state in one word, without the enum's prefix.
func stateName(s controlv1.SnapshotState) string {
	const prefix = "SNAPSHOT_STATE_"
	return s.String()[len(prefix):]
}

// maxMessage bounds every message of the API, in bytes.
const maxMessage = 1 << 20

// fit cuts the lists of an update until it fits into one message. The counts
// stay.
func fit(u *controlv1.StateUpdate) *controlv1.StateUpdate {
	for limit := maxViolations; proto.Size(u) > maxMessage-64 && limit > 0; limit /= 2 {
		u = proto.CloneOf(u)
		u.Violations = first(u.Violations, limit)
		u.Degradations = first(u.Degradations, limit)
		u.Diff = cutDiff(u.Diff, limit)
	}
	return u
}

// cutDiff keeps the first of each list; the counts stay.
func cutDiff(d *controlv1.Diff, limit int) *controlv1.Diff {
	if d == nil {
		return nil
	}
	return &controlv1.Diff{
		Added: first(d.Added, limit), Removed: first(d.Removed, limit), Changed: first(d.Changed, limit),
		AddedCount: d.AddedCount, RemovedCount: d.RemovedCount, ChangedCount: d.ChangedCount,
	}
}

func first[T any](list []T, limit int) []T { return slices.Clip(list[:min(len(list), limit)]) }
