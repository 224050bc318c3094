package dataplane

import (
	"context"
	"errors"
	"strings"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/control"
	"github.com/headgate/headgate/dataplane/telemetry"
)

// recordStates makes log records and metrics of what happens to snapshots,
// until ctx ends. It reads the events like everybody else.
func (s *Server) recordStates(ctx context.Context, r *control.EventReader) {
	for {
		events, err := r.Next(ctx, 64)
		if _, ok := errors.AsType[*control.SlowReaderError](err); ok {
			s.logger.Warn("states of snapshots were not recorded", "error", err)
			r = s.events.ReadNew()
			continue
		}
		if err != nil {
			return
		}
		for _, e := range events {
			if u := e.GetSnapshot().GetUpdate(); u != nil {
				s.recorder.SnapshotState(ctx, snapshotRecord(e, u))
			}
		}
	}
}

func snapshotRecord(e *controlv1.Event, u *controlv1.StateUpdate) telemetry.SnapshotRecord {
	cause := u.GetReason()
	if v := u.GetViolations(); cause == "" && u.GetState() == controlv1.SnapshotState_SNAPSHOT_STATE_REJECTED && len(v) > 0 {
		cause = v[0].GetFieldPath() + ": " + v[0].GetMessage()
	}
	return telemetry.SnapshotRecord{
		Version:    u.GetSnapshot().GetVersion(),
		Digest:     u.GetSnapshot().GetDigest(),
		Generation: u.GetSnapshot().GetGeneration(),
		State:      strings.TrimPrefix(u.GetState().String(), "SNAPSHOT_STATE_"),
		Cause:      cause,
		At:         e.GetTime().AsTime(),
	}
}
