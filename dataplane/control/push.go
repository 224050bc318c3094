package control

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// heartbeatEvery is the silence after which a node says that it is there.
const heartbeatEvery = 15 * time.Second

// pushedAtOnce is how many snapshots of one stream may be between commit and
// their end: one that is in flight, and the one that supersedes it.
const pushedAtOnce = 2

// pushServer is what is used of a controlv1.SnapshotService_PushServer.
type pushServer interface {
	Context() context.Context
	Send(*controlv1.PushResponse) error
	Recv() (*controlv1.PushRequest, error)
}

// Push serves one stream. Its own goroutine is the only one that sends; another
// one receives; each snapshot that is under way has one more.
func (s *snapshotService) Push(stream controlv1.SnapshotService_PushServer) error {
	return newPushStream(s, stream).serve()
}

type pushStream struct {
	service *snapshotService
	stream  pushServer
	writer  string

	updates chan *controlv1.StateUpdate // to be sent
	slots   chan struct{}               // holds a token for each snapshot under way
	ended   chan struct{}               // closed when nothing is sent any more
	over    chan error                  // how receiving ended, and all that came of it

	staging staging        // owned by receive
	pending sync.WaitGroup // snapshots under way
}

func newPushStream(s *snapshotService, stream pushServer) *pushStream {
	return &pushStream{
		service: s, stream: stream, writer: writerOf(stream.Context()),
		staging: staging{budget: &s.staged},
		updates: make(chan *controlv1.StateUpdate),
		slots:   make(chan struct{}, pushedAtOnce),
		ended:   make(chan struct{}),
		over:    make(chan error, 1),
	}
}

// serve sends what is to be said until the stream ends.
func (p *pushStream) serve() error {
	defer close(p.ended)
	degradations, changed := p.service.applier.Degradations()
	if err := p.send(&controlv1.PushResponse{Message: &controlv1.PushResponse_Current{
		Current: p.current(degradations),
	}}); err != nil {
		return err
	}
	go p.receive()
	heartbeat := time.NewTicker(heartbeatEvery)
	defer heartbeat.Stop()
	for {
		var err error
		select {
		case u := <-p.updates:
			err = p.sendUpdate(u)
		case <-changed:
			_, changed = p.service.applier.Degradations()
			err = p.sendUpdate(p.service.applier.Degraded())
		case now := <-heartbeat.C:
			err = p.send(&controlv1.PushResponse{Message: &controlv1.PushResponse_Heartbeat{
				Heartbeat: &controlv1.Heartbeat{Time: timestamppb.New(now)},
			}})
		case err := <-p.over:
			return err
		case <-p.service.stopping:
			return stopping()
		}
		if err != nil {
			return err
		}
	}
}

func (p *pushStream) send(m *controlv1.PushResponse) error { return p.stream.Send(m) }

func (p *pushStream) sendUpdate(u *controlv1.StateUpdate) error {
	return p.send(&controlv1.PushResponse{Message: &controlv1.PushResponse_Update{Update: fit(u)}})
}

func (p *pushStream) current(degradations []*controlv1.Degradation) *controlv1.CurrentState {
	active, _ := p.service.applier.Active()
	return &controlv1.CurrentState{
		Node: p.service.applier.Events().Node(), Active: active,
		HighestTerm: p.service.applier.Term(), Degradations: degradations,
	}
}

// receive reads until the controller has said all, or the stream is cut. What
// was begun and not committed by then is dropped.
func (p *pushStream) receive() {
	defer p.staging.drop()
	for {
		m, err := p.stream.Recv()
		if err == nil {
			err = p.take(m)
		}
		if err == nil {
			continue
		}
		if errors.Is(err, io.EOF) {
			p.pending.Wait()
			err = nil
		}
		p.over <- err
		return
	}
}

// take does what one message asks. An error ends the stream.
func (p *pushStream) take(m *controlv1.PushRequest) error {
	switch m := m.Message.(type) {
	case *controlv1.PushRequest_Begin:
		p.staging.start(m.Begin)
		return check(m.Begin)
	case *controlv1.PushRequest_Resources:
		return p.staging.add(m.Resources)
	case *controlv1.PushRequest_Commit:
		return p.commit(m.Commit)
	case *controlv1.PushRequest_Heartbeat:
		return nil
	}
	return status.Error(codes.InvalidArgument, "message: of no kind that this node knows")
}

// commit hands a complete snapshot over, and returns once its place in the
// order of snapshots is settled.
func (p *pushStream) commit(c *controlv1.PushCommit) error {
	if err := check(c); err != nil {
		return err
	}
	begin := p.staging.begin
	_, active := p.service.applier.Active()
	snapshot, err := p.staging.finish(c, active)
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return p.refuse(begin, refusal)
	}
	if err != nil {
		return err
	}
	r := request(begin.GetOptions(), p.writer)
	r.Snapshot, r.Version, r.ExpectedDigest, r.Source = snapshot, begin.Version, c.ExpectedDigest, "push"
	r.patched = begin.Patch
	return p.hand(r, begin.PlanOnly)
}

// hand starts an apply, or a plan, and waits until it is settled.
func (p *pushStream) hand(r Request, planOnly bool) error {
	select {
	case p.slots <- struct{}{}:
	case <-p.ended:
		return context.Canceled
	}
	settled := make(chan struct{})
	settle := sync.OnceFunc(func() { close(settled) })
	r.Observe = func(u *controlv1.StateUpdate) {
		if u.State != controlv1.SnapshotState_SNAPSHOT_STATE_RECEIVED {
			settle()
		}
		p.tell(u)
	}
	p.pending.Go(func() {
		defer func() { <-p.slots }()
		defer settle()
		if planOnly {
			p.service.plan(p.stream.Context(), r)
			return
		}
		_, _ = p.service.applier.Apply(p.stream.Context(), r)
	})
	<-settled
	return nil
}

// tell hands an update to the sender; if that is gone, nobody is told.
func (p *pushStream) tell(u *controlv1.StateUpdate) {
	select {
	case p.updates <- u:
	case <-p.ended:
	}
}

// refuse says that a patch could not be made into a snapshot.
func (p *pushStream) refuse(begin *controlv1.PushBegin, refusal *Refusal) error {
	o := begin.GetOptions()
	p.tell(&controlv1.StateUpdate{
		State:    controlv1.SnapshotState_SNAPSHOT_STATE_REJECTED,
		Snapshot: &controlv1.SnapshotInfo{Version: begin.GetVersion(), Term: o.GetTerm(), Writer: o.GetWriter()},
		Reason:   refusal.Text,
	})
	return nil
}

// plan tells an observer what Apply would do, in the same states.
func (s *snapshotService) plan(ctx context.Context, r Request) {
	j := &job{request: r}
	j.observe(&controlv1.StateUpdate{State: controlv1.SnapshotState_SNAPSHOT_STATE_RECEIVED, Snapshot: j.info()})
	plan, err := s.applier.Plan(ctx, r)
	switch {
	case err != nil:
		j.observe(refusedUpdate(j, err))
	case plan.Digest == "":
		j.observe(refusedUpdate(j, invalid(plan.Violations)))
	default:
		u := &controlv1.StateUpdate{
			State:    controlv1.SnapshotState_SNAPSHOT_STATE_VALIDATED,
			Snapshot: j.info(), Diff: plan.Diff, Unchanged: plan.Unchanged,
		}
		u.Snapshot.Digest = plan.Digest
		setViolations(u, plan.Warnings)
		j.observe(u)
	}
}
