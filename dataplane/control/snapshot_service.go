package control

import (
	"context"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// snapshotService says what runs.
type snapshotService struct {
	controlv1.UnimplementedSnapshotServiceServer

	applier  *Applier
	staged   budget
	stopping <-chan struct{} // closed when streams have to end
}

// request is what the options of a message ask for.
func request(o *controlv1.ApplyOptions, writer string) Request {
	if o.GetWriter() != "" {
		writer = o.GetWriter()
	}
	return Request{
		Term: o.GetTerm(), BaseDigest: o.GetBaseDigest(), AllowShrink: o.GetAllowShrink(), Writer: writer,
	}
}

func (s *snapshotService) Apply(ctx context.Context, m *controlv1.ApplyRequest) (*controlv1.ApplyResponse, error) {
	if err := check(m.Options); err != nil {
		return nil, err
	}
	r := request(m.Options, writerOf(ctx))
	r.Snapshot, r.Source = given(m.Snapshot), "apply"
	result, err := s.applier.Apply(ctx, r)
	if err != nil {
		return nil, err
	}
	u := fit(activeUpdate(result))
	return &controlv1.ApplyResponse{
		Snapshot: u.Snapshot, Unchanged: u.Unchanged, Diff: u.Diff, Warnings: u.Violations,
	}, nil
}

func (s *snapshotService) Plan(ctx context.Context, m *controlv1.PlanRequest) (*controlv1.PlanResponse, error) {
	if err := check(m.Options); err != nil {
		return nil, err
	}
	r := request(m.Options, writerOf(ctx))
	r.Snapshot = given(m.Snapshot)
	p, err := s.applier.Plan(ctx, r)
	if err != nil {
		return nil, err
	}
	errs := &controlv1.StateUpdate{}
	setViolations(errs, p.Violations)
	rest := &controlv1.StateUpdate{Diff: p.Diff}
	setViolations(rest, p.Warnings)
	errs, rest = fit(errs), fit(rest)
	return &controlv1.PlanResponse{
		Digest: p.Digest, Unchanged: p.Unchanged, Base: p.Base,
		Diff: rest.Diff, Violations: errs.Violations, Warnings: rest.Violations,
	}, nil
}

// given takes no snapshot for an empty one, which says what is missing.
func given(s *configv1.Snapshot) *configv1.Snapshot {
	if s == nil {
		return &configv1.Snapshot{}
	}
	return s
}

func (s *snapshotService) Rollback(ctx context.Context, m *controlv1.RollbackRequest) (*controlv1.RollbackResponse, error) {
	if err := check(m); err != nil {
		return nil, err
	}
	r := request(m.Options, writerOf(ctx))
	r.Source = "rollback"
	result, err := s.applier.Rollback(ctx, m.Generation, r)
	if err != nil {
		return nil, err
	}
	u := fit(activeUpdate(result))
	return &controlv1.RollbackResponse{
		Snapshot: u.Snapshot, Unchanged: u.Unchanged, Diff: u.Diff, Warnings: u.Violations,
	}, nil
}

// pieceSize is what a piece of Get holds at most, in bytes; a resource that is
// larger is a piece of its own.
const pieceSize = 256 << 10

func (s *snapshotService) Get(m *controlv1.GetRequest, stream controlv1.SnapshotService_GetServer) error {
	if err := check(m); err != nil {
		return err
	}
	info, source, err := s.content(m.Generation)
	if err != nil {
		return err
	}
	err = stream.Send(&controlv1.GetResponse{Piece: &controlv1.GetResponse_Snapshot{Snapshot: info}})
	if err != nil {
		return err
	}
	wanted := pick(resources(snapshot.Redact(source)), m.Kinds, m.Names)
	for piece := range pieces(wanted, pieceSize) {
		err := stream.Send(&controlv1.GetResponse{Piece: &controlv1.GetResponse_Resources{
			Resources: &controlv1.ResourceList{Resources: piece},
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

// content is what a generation says, or the active one if it is 0.
func (s *snapshotService) content(generation uint64) (*controlv1.SnapshotInfo, *configv1.Snapshot, error) {
	info, compiled := s.applier.Active()
	if generation == 0 && info == nil {
		return nil, nil, &Refusal{Reason: ReasonNoGeneration, Text: "nothing is active"}
	}
	if generation == 0 || generation == info.GetGeneration() {
		return info, compiled.Source, nil
	}
	meta, source, err := s.applier.stored(generation)
	if err != nil {
		return nil, nil, err
	}
	return meta.info(), source, nil
}
