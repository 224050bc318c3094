package dataplane

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// pusher is a controller with an open Push stream.
type pusher struct {
	t       testing.TB
	stream  controlv1.SnapshotService_PushClient
	current *controlv1.CurrentState // said when the stream was opened
	cut     context.CancelFunc
}

// push opens a stream to the control API of g.
func push(t testing.TB, g *gate) *pusher {
	t.Helper()
	conn, err := grpc.NewClient(g.ControlAddr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	p := &pusher{t: t}
	var ctx context.Context
	ctx, p.cut = context.WithCancel(context.Background())
	t.Cleanup(p.cut)
	if p.stream, err = controlv1.NewSnapshotServiceClient(conn).Push(ctx); err != nil {
		t.Fatal(err)
	}
	for p.current == nil {
		p.current = p.receive().GetCurrent()
	}
	return p
}

func (p *pusher) send(m *controlv1.PushRequest) {
	p.t.Helper()
	if err := p.stream.Send(m); err != nil {
		p.t.Fatal(err)
	}
}

// begin begins a snapshot: a patch of the one with that digest, or a whole one
// if it is "".
func (p *pusher) begin(base string) {
	p.t.Helper()
	p.send(&controlv1.PushRequest{Message: &controlv1.PushRequest_Begin{Begin: &controlv1.PushBegin{
		Patch: base != "", Options: &controlv1.ApplyOptions{BaseDigest: base},
	}}})
}

func (p *pusher) resource(r *controlv1.Resource) {
	p.t.Helper()
	p.send(&controlv1.PushRequest{Message: &controlv1.PushRequest_Resources{Resources: &controlv1.PushResources{
		Resources: []*controlv1.Resource{r},
	}}})
}

func (p *pusher) route(r *configv1.Route) {
	p.t.Helper()
	p.resource(&controlv1.Resource{Resource: &controlv1.Resource_Route{Route: r}})
}

func (p *pusher) listener(l *configv1.Listener) {
	p.t.Helper()
	p.resource(&controlv1.Resource{Resource: &controlv1.Resource_Listener{Listener: l}})
}

func (p *pusher) commit() {
	p.t.Helper()
	p.send(&controlv1.PushRequest{Message: &controlv1.PushRequest_Commit{Commit: &controlv1.PushCommit{}}})
}

func (p *pusher) receive() *controlv1.PushResponse {
	p.t.Helper()
	m, err := p.stream.Recv()
	if err != nil {
		p.t.Fatal(err)
	}
	return m
}

// update is the next state that is final: ACTIVE, REJECTED or SUPERSEDED.
func (p *pusher) update() *controlv1.StateUpdate {
	p.t.Helper()
	for {
		u := p.receive().GetUpdate()
		switch u.GetState() {
		case controlv1.SnapshotState_SNAPSHOT_STATE_ACTIVE, controlv1.SnapshotState_SNAPSHOT_STATE_REJECTED,
			controlv1.SnapshotState_SNAPSHOT_STATE_SUPERSEDED:
			return u
		}
	}
}

// active waits for ACTIVE.
func (p *pusher) active() *controlv1.SnapshotInfo {
	p.t.Helper()
	u := p.update()
	if u.State != controlv1.SnapshotState_SNAPSHOT_STATE_ACTIVE {
		p.t.Fatalf("%v", u)
	}
	return u.Snapshot
}
