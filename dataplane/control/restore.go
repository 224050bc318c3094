package control

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// Restore makes the last stored generation active, under its own number, and
// returns what that is; nil if nothing is stored. One that is corrupt, or that
// this program refuses, is passed over for the one before it, which is said in
// the events and the log. One that is good and that the node can't prepare now
// is an error: an older one would not be what was asked for.
//
// It is called once. A controller may come at any time: what it has made active
// by then stays so and is returned, and what it pushes meanwhile has to wait.
func (a *Applier) Restore(ctx context.Context) (*controlv1.SnapshotInfo, error) {
	if err := a.takeTurn(ctx); err != nil {
		return nil, err
	}
	defer a.endTurn()
	a.running.Wait() // what was admitted before
	if active := a.current(); active != nil {
		return active.info, nil
	}
	return a.restore(ctx)
}

func (a *Applier) restore(ctx context.Context) (*controlv1.SnapshotInfo, error) {
	ctx, span := a.tracer.Start(ctx, "headgate.restore")
	meta, next, err := a.lastGood()
	if err != nil || next == nil {
		endSpan(span, err)
		return nil, err
	}
	defer func() { endSpan(span, err) }()
	prepared, err := a.node.Prepare(ctx, next)
	if err != nil {
		err = fmt.Errorf("generation %d: %w", meta.Generation, err)
		return nil, err
	}
	a.events.setVersion(next.Version)
	prepared.Commit(meta.Generation)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.active = &activation{info: meta.info(), snapshot: next}
	a.machine.active = next.Digest
	u := activeUpdate(&Result{Info: a.active.info, Diff: next.DiffFrom(nil)})
	a.publish(u)
	a.logState(u)
	return a.active.info, nil
}

// lastGood finds the newest generation that this program can run, and says if
// that is not the newest one. It is an error if there are some and none is good.
func (a *Applier) lastGood() (meta Meta, next *snapshot.Snapshot, err error) {
	stored := a.store.List()
	for i, entry := range stored {
		meta, next, err = a.revive(entry)
		if err == nil && i > 0 {
			a.storeTrouble(meta.Generation, fmt.Errorf("generation %d is used, as no later one can be", meta.Generation))
		}
		if err == nil {
			return meta, next, nil
		}
		if entry.Err == nil { // else it was said when the store was opened
			a.storeTrouble(entry.Generation, fmt.Errorf("generation %d: %w", entry.Generation, err))
		}
	}
	if len(stored) > 0 {
		return meta, nil, errors.New("no stored generation can be used")
	}
	return meta, nil, nil
}

// revive reads and compiles a stored generation.
func (a *Applier) revive(entry Stored) (meta Meta, next *snapshot.Snapshot, err error) {
	if entry.Err != nil {
		return meta, nil, entry.Err
	}
	meta, source, err := a.stored(entry.Generation)
	if err != nil {
		return meta, nil, err
	}
	next, violations := snapshot.Compile(source)
	if next == nil {
		return meta, nil, invalid(violations)
	}
	meta.Digest = next.Digest
	return meta, next, nil
}

// stored reads a generation; a *Refusal says why it can't be had.
func (a *Applier) stored(generation uint64) (Meta, *configv1.Snapshot, error) {
	meta, body, err := a.store.Get(generation)
	if errors.Is(err, ErrNoGeneration) {
		return meta, nil, &Refusal{Reason: ReasonNoGeneration, Text: err.Error(), Err: err}
	}
	source := &configv1.Snapshot{}
	if err == nil {
		err = proto.Unmarshal(body, source)
	}
	if err != nil {
		return meta, nil, &Refusal{Reason: ReasonCorrupt, Text: err.Error(), Err: err}
	}
	return meta, source, nil
}

// Rollback makes a stored generation active again, as a new one. Generation 0
// is the newest one older than the active one. The request's snapshot is not
// used.
func (a *Applier) Rollback(ctx context.Context, generation uint64, r Request) (*Result, error) {
	if generation == 0 {
		generation = a.before()
	}
	_, source, err := a.stored(generation)
	if err != nil {
		return nil, err
	}
	r.Snapshot, r.AllowShrink = source, true
	return a.Apply(ctx, r)
}

// before is the newest good generation older than the active one; 0: none.
func (a *Applier) before() uint64 {
	active, _ := a.Active()
	for _, s := range a.store.List() {
		if s.Err == nil && s.Generation < active.GetGeneration() {
			return s.Generation
		}
	}
	return 0
}
