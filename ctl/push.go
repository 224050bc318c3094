package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// Bounds on pushing again after the stream broke.
const (
	maxPushes    = 8
	farewellTime = time.Second // for the node to end its side of the stream
)

// push is a snapshot on its way, and what is known of it.
type push struct {
	// Set by the caller, read only afterwards.
	snapshot  *configv1.Snapshot
	digest    string // of the snapshot
	options   *controlv1.ApplyOptions
	planOnly  bool
	wait      bool // for ACTIVE; otherwise VALIDATED is enough
	unchanged bool // whatever is active at first must still be when it is applied
	progress  func(*controlv1.StateUpdate)
	retrying  func(err error, wait time.Duration)

	// What the node said.
	met       bool                    // it has said what is active
	before    *controlv1.SnapshotInfo // active at first; nil: nothing was
	validated *controlv1.StateUpdate
	last      *controlv1.StateUpdate
}

// pushSnapshot pushes until the snapshot has reached a final state, which is
// in p.last. When the stream breaks after the node has answered once, it pushes
// again: a node applies the same snapshot once.
func (k *client) pushSnapshot(ctx context.Context, p *push) error {
	var retry backoff
	for attempt := 1; ; attempt++ {
		err := k.pushOnce(ctx, p)
		if err == nil || !p.met || status.Code(err) != codes.Unavailable || attempt == maxPushes {
			return failedPush(k.where, err)
		}
		wait := retry.next()
		p.retrying(failedCall(k.where, err), wait)
		if err := pause(ctx, wait); err != nil {
			return failedCall(k.where, err)
		}
	}
}

// failedPush keeps what this program refuses apart from what failed.
func failedPush(d destination, err error) error {
	if _, ok := errors.AsType[*refusedPush](err); ok {
		return err
	}
	return failedCall(d, err)
}

// refusedPush is a push that this program gave up before it began.
type refusedPush struct{ text string }

func (e *refusedPush) Error() string { return e.text }

// pause waits, unless ctx ends before.
func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type pushStream = grpc.BidiStreamingClient[controlv1.PushRequest, controlv1.PushResponse]

// pushOnce is one conversation: the node says what is active, the snapshot
// goes out in pieces, the node says what becomes of it.
func (k *client) pushOnce(ctx context.Context, p *push) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := k.snapshots.Push(ctx)
	if err != nil {
		return err
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if err := p.meet(first.GetCurrent()); err != nil {
		return err
	}
	if err := p.send(stream); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := p.follow(stream); err != nil {
		return err
	}
	farewell(stream, cancel)
	return nil
}

// meet notes what is active and settles the base digest.
func (p *push) meet(current *controlv1.CurrentState) error {
	if current == nil {
		return &refusedPush{"the node did not say what is active; is it a control API of this version?"}
	}
	active := current.GetActive()
	if !p.met {
		p.met, p.before = true, active
	}
	if active.GetDigest() == p.digest {
		p.options.BaseDigest = "" // a push that broke has done it
		return nil
	}
	if p.unchanged && p.options.GetBaseDigest() == "" {
		p.options.BaseDigest = active.GetDigest()
	}
	base, err := completeBase(p.options.GetBaseDigest(), active)
	p.options.BaseDigest = base
	return err
}

// completeBase completes the first digits of the active digest. A base in full
// is left to the node to compare.
func completeBase(base string, active *controlv1.SnapshotInfo) (string, error) {
	if base == "" || len(base) == fullDigest {
		return base, nil
	}
	if !strings.HasPrefix(active.GetDigest(), base) {
		return "", &refusedPush{fmt.Sprintf("what runs is %s, not %s; nothing was applied", named(active), base)}
	}
	return active.GetDigest(), nil
}

// fullDigest is the length of a digest that is not shortened.
const fullDigest = 64

func named(info *controlv1.SnapshotInfo) string {
	if info.GetDigest() == "" {
		return "nothing"
	}
	return short(info.GetDigest())
}

// send sends begin, the pieces and commit. io.EOF says that the node ended the
// stream; its reason comes from Recv.
func (p *push) send(stream pushStream) error {
	parts := resourcesOf(p.snapshot)
	groups, err := pieces(parts)
	if err != nil {
		return &refusedPush{err.Error()}
	}
	begin := &controlv1.PushBegin{Version: p.snapshot.GetVersion(), Options: p.options, PlanOnly: p.planOnly}
	if err := stream.Send(&controlv1.PushRequest{Message: &controlv1.PushRequest_Begin{Begin: begin}}); err != nil {
		return err
	}
	for _, group := range groups {
		piece := &controlv1.PushRequest_Resources{Resources: &controlv1.PushResources{Resources: group}}
		if err := stream.Send(&controlv1.PushRequest{Message: piece}); err != nil {
			return err
		}
	}
	commit := &controlv1.PushCommit{ExpectedResources: uint64(len(parts))}
	return stream.Send(&controlv1.PushRequest{Message: &controlv1.PushRequest_Commit{Commit: commit}})
}

// follow reads states until one is final.
func (p *push) follow(stream pushStream) error {
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			err = status.Error(codes.Unavailable, "the node ended the stream before it said what became of the snapshot")
		}
		if err != nil {
			return err
		}
		update := answer.GetUpdate()
		if update == nil || update.GetState() == controlv1.SnapshotState_SNAPSHOT_STATE_DEGRADED {
			continue
		}
		p.last = update
		if update.GetState() == controlv1.SnapshotState_SNAPSHOT_STATE_VALIDATED {
			p.validated = update
		}
		p.progress(update)
		if p.final(update.GetState()) {
			return nil
		}
	}
}

func (p *push) final(state controlv1.SnapshotState) bool {
	switch state {
	case controlv1.SnapshotState_SNAPSHOT_STATE_VALIDATED:
		return p.planOnly || !p.wait
	case controlv1.SnapshotState_SNAPSHOT_STATE_ACTIVE,
		controlv1.SnapshotState_SNAPSHOT_STATE_REJECTED,
		controlv1.SnapshotState_SNAPSHOT_STATE_SUPERSEDED:
		return true
	}
	return false
}

// farewell ends the stream in order, so that it does not look cut off to the
// node and in traces. A node that does not answer is left.
func farewell(stream pushStream, cancel context.CancelFunc) {
	timer := time.AfterFunc(farewellTime, cancel)
	defer timer.Stop()
	if stream.CloseSend() != nil {
		return
	}
	for {
		if _, err := stream.Recv(); err != nil {
			return
		}
	}
}
