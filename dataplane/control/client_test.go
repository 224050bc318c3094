package control

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// rig is a server and a client of it.
type rig struct {
	t       *testing.T
	node    *fakeNode
	applier *Applier
	server  *Server
	conn    *grpc.ClientConn

	snapshots controlv1.SnapshotServiceClient
	events    controlv1.EventServiceClient
	inspect   controlv1.InspectServiceClient
}

func newRig(t *testing.T, change func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, node: &fakeNode{}}
	r.applier = NewApplier(ApplierOptions{Node: r.node, Events: NewEventLog("test", 64)})
	o := Options{Applier: r.applier, Node: r.node}
	if change != nil {
		change(&o)
	}
	r.server = NewServer(o)
	listener := bufconn.Listen(1 << 16)
	served := make(chan error, 1)
	go func() { served <- r.server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:node",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// A window that does not grow, so that who does not read holds the sender up.
		grpc.WithInitialWindowSize(1<<16), grpc.WithInitialConnWindowSize(1<<16),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
	)
	if err != nil {
		t.Fatal(err)
	}
	r.conn = conn
	r.snapshots = controlv1.NewSnapshotServiceClient(conn)
	r.events = controlv1.NewEventServiceClient(conn)
	r.inspect = controlv1.NewInspectServiceClient(conn)
	t.Cleanup(func() {
		_ = conn.Close()
		r.server.Stop(context.Background())
		if err := <-served; err != nil {
			t.Error(err)
		}
		r.applier.Close()
	})
	return r
}

// apply makes a configuration active, so that a test may begin.
func (r *rig) apply(s *configv1.Snapshot) *controlv1.SnapshotInfo {
	r.t.Helper()
	result, err := r.applier.Apply(r.t.Context(), Request{Snapshot: s})
	if err != nil {
		r.t.Fatal(err)
	}
	return result.Info
}

// dialogue is a Push stream. Its methods read as what the two say.
type dialogue struct {
	t      *testing.T
	stream controlv1.SnapshotService_PushClient
	cut    context.CancelFunc
}

// push opens a stream and returns what the node says first.
func (r *rig) push() (*dialogue, *controlv1.CurrentState) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	stream, err := r.snapshots.Push(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	d := &dialogue{t: r.t, stream: stream, cut: cancel}
	r.t.Cleanup(cancel)
	m, err := stream.Recv()
	if err != nil || m.GetCurrent() == nil {
		r.t.Fatalf("first came %v, %v", m, err)
	}
	return d, m.GetCurrent()
}

func (d *dialogue) send(m *controlv1.PushRequest) {
	d.t.Helper()
	if err := d.stream.Send(m); err != nil {
		d.t.Fatal(err)
	}
}

func (d *dialogue) begin(b *controlv1.PushBegin) {
	d.t.Helper()
	d.send(&controlv1.PushRequest{Message: &controlv1.PushRequest_Begin{Begin: b}})
}

func (d *dialogue) resources(list ...*controlv1.Resource) {
	d.t.Helper()
	d.send(&controlv1.PushRequest{Message: &controlv1.PushRequest_Resources{
		Resources: &controlv1.PushResources{Resources: list},
	}})
}

func (d *dialogue) remove(kind controlv1.ResourceKind, name string) {
	d.t.Helper()
	d.send(&controlv1.PushRequest{Message: &controlv1.PushRequest_Resources{
		Resources: &controlv1.PushResources{Removed: []*controlv1.ResourceName{{Kind: kind, Name: name}}},
	}})
}

func (d *dialogue) commit(c *controlv1.PushCommit) {
	d.t.Helper()
	d.send(&controlv1.PushRequest{Message: &controlv1.PushRequest_Commit{Commit: c}})
}

// whole sends a snapshot in pieces of two resources each.
func (d *dialogue) whole(s *configv1.Snapshot, o *controlv1.ApplyOptions) {
	d.t.Helper()
	d.begin(&controlv1.PushBegin{Version: s.Version, Options: o})
	d.pieces(s)
	d.commit(&controlv1.PushCommit{ExpectedResources: uint64(countResources(s))})
}

func (d *dialogue) pieces(s *configv1.Snapshot) {
	d.t.Helper()
	var piece []*controlv1.Resource
	for r := range resources(s) {
		if piece = append(piece, r); len(piece) == 2 {
			d.resources(piece...)
			piece = nil
		}
	}
	d.resources(piece...)
}

// hears waits for states in this order and returns the last update.
func (d *dialogue) hears(want ...string) (last *controlv1.StateUpdate) {
	d.t.Helper()
	for _, w := range want {
		m, err := d.stream.Recv()
		if err != nil {
			d.t.Fatalf("instead of %s: %v", w, err)
		}
		if m.GetUpdate() == nil || stateName(m.GetUpdate().State) != w {
			d.t.Fatalf("instead of %s: %v", w, m)
		}
		last = m.GetUpdate()
	}
	return last
}

// ends waits for the end of the stream.
func (d *dialogue) ends() error {
	d.t.Helper()
	m, err := d.stream.Recv()
	if err == nil {
		d.t.Fatalf("instead of the end: %v", m)
	}
	return err
}
