package control

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

func wantCode(t *testing.T, err error, want codes.Code, text string) {
	t.Helper()
	if status.Code(err) != want || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want %v with %q", err, want, text)
	}
}

func TestPush(t *testing.T) {
	r := newRig(t, nil)
	d, current := r.push()
	if current.Node != "test" || current.Active != nil {
		t.Errorf("current %v", current)
	}
	d.whole(config("one", 1, 5), &controlv1.ApplyOptions{Writer: "me", Term: 2})
	u := d.hears("RECEIVED", "VALIDATED", "ACTIVE")
	if u.Snapshot.Version != "one" || u.Snapshot.Generation != 1 || u.Snapshot.Writer != "me" || u.Diff.AddedCount != 6 {
		t.Errorf("active %v", u)
	}
	if r.node.runs() != "one" {
		t.Errorf("%q runs", r.node.runs())
	}

	// The same once more changes nothing and says so.
	d.whole(config("one", 1, 5), &controlv1.ApplyOptions{Term: 2})
	if u := d.hears("RECEIVED", "VALIDATED", "ACTIVE"); !u.Unchanged || u.Snapshot.Generation != 1 {
		t.Errorf("again %v", u)
	}

	// An older leader is refused; the stream goes on.
	d.whole(config("old", 9, 5), &controlv1.ApplyOptions{Term: 1})
	if u := d.hears("RECEIVED", "REJECTED"); !strings.Contains(u.Reason, "stale") {
		t.Errorf("rejected %v", u)
	}

	// So is who did not read what is active.
	d.whole(config("blind", 8, 5), &controlv1.ApplyOptions{Term: 2, BaseDigest: strings.Repeat("0", 64)})
	if u := d.hears("RECEIVED", "REJECTED"); !strings.Contains(u.Reason, u.Snapshot.Digest) {
		t.Errorf("rejected %v", u)
	}

	// The controller says no more, and the node ends the stream.
	if err := d.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := d.ends(); !errors.Is(err, io.EOF) {
		t.Errorf("the end: %v", err)
	}
}

// TestPushCut is a stream that is cut in the middle of a push: nothing of it is
// applied; pushed again it is applied exactly once, and who comes back is told
// what is active.
func TestPushCut(t *testing.T) {
	r := newRig(t, nil)
	before := r.apply(config("before", 0, 2))
	d, _ := r.push()
	d.begin(&controlv1.PushBegin{Version: "one"})
	d.pieces(config("one", 1, 4))
	d.cut()
	_ = d.ends()

	d, current := r.push()
	if current.Active.GetDigest() != before.Digest {
		t.Errorf("current %v", current)
	}
	d.whole(config("one", 1, 4), nil)
	u := d.hears("RECEIVED", "VALIDATED", "ACTIVE")
	d.cut()
	_ = d.ends()

	d, current = r.push()
	if current.Active.GetDigest() != u.Snapshot.Digest || current.Active.GetGeneration() != 2 {
		t.Errorf("current %v", current)
	}
	d.whole(config("one", 1, 4), nil)
	if u := d.hears("RECEIVED", "VALIDATED", "ACTIVE"); !u.Unchanged {
		t.Errorf("again %v", u)
	}
	if len(r.node.committed) != 2 {
		t.Errorf("committed %v", r.node.committed)
	}
}

// TestPushCutWhileWarming cuts the stream after the commit: the snapshot is the
// node's by then, and pushing it again does not apply it twice.
func TestPushCutWhileWarming(t *testing.T) {
	r := newRig(t, nil)
	r.node.hold, r.node.entered = make(chan struct{}), make(chan string, 1)
	d, _ := r.push()
	d.whole(config("one", 1, 1), nil)
	d.hears("RECEIVED", "VALIDATED")
	<-r.node.entered
	d.cut()
	_ = d.ends()

	d, _ = r.push()
	d.whole(config("one", 1, 1), nil)
	d.hears("RECEIVED", "VALIDATED")
	close(r.node.hold)
	d.hears("ACTIVE")
	if r.node.prepared != 1 || len(r.node.committed) != 1 {
		t.Errorf("prepared %d times, committed %v", r.node.prepared, r.node.committed)
	}
}

// TestPushOneBadRoute: the whole is refused with the path of each fault, and
// the old one serves on.
func TestPushOneBadRoute(t *testing.T) {
	r := newRig(t, nil)
	r.apply(config("good", 1, 100))
	bad := config("bad", 2, 100)
	bad.Routes[37].Name = "r36"
	bad.Routes[99].GetRespond().Status = 42
	d, _ := r.push()
	d.whole(bad, nil)
	u := d.hears("RECEIVED", "REJECTED")
	if u.ViolationCount != 2 || u.Violations[0].FieldPath != "routes[37].name" || u.Violations[1].FieldPath != "routes[99].respond.status" {
		t.Errorf("violations %v", u.Violations)
	}
	if r.node.runs() != "good" {
		t.Errorf("%q runs", r.node.runs())
	}
}

func TestPushSupersedes(t *testing.T) {
	r := newRig(t, nil)
	r.node.hold, r.node.entered = make(chan struct{}), make(chan string, 2)
	d, _ := r.push()
	d.whole(config("one", 1, 1), nil)
	d.hears("RECEIVED", "VALIDATED")
	<-r.node.entered
	other, _ := r.push()
	other.whole(config("two", 2, 1), nil)
	other.hears("RECEIVED", "VALIDATED")
	if u := d.hears("SUPERSEDED"); u.Snapshot.Version != "one" {
		t.Errorf("superseded %v", u)
	}
	<-r.node.entered
	close(r.node.hold)
	other.hears("ACTIVE")
	if r.node.runs() != "two" || len(r.node.committed) != 1 {
		t.Errorf("%q runs, committed %v", r.node.runs(), r.node.committed)
	}
}

func TestPushPatch(t *testing.T) {
	const route = controlv1.ResourceKind_RESOURCE_KIND_ROUTE
	r := newRig(t, nil)
	base := r.apply(config("base", 1, 3))
	d, current := r.push()
	changed := config("", 7, 5)
	d.begin(&controlv1.PushBegin{Version: "patched", Patch: true, Options: &controlv1.ApplyOptions{BaseDigest: current.Active.Digest}})
	d.remove(route, "r0")
	d.resources(
		&controlv1.Resource{Resource: &controlv1.Resource_Route{Route: changed.Routes[4]}},
		&controlv1.Resource{Resource: &controlv1.Resource_Route{Route: changed.Routes[1]}},
	)
	want := config("", 1, 3)
	want.Routes = []*configv1.Route{changed.Routes[1], want.Routes[2], changed.Routes[4]}
	d.commit(&controlv1.PushCommit{ExpectedResources: 2})
	u := d.hears("RECEIVED", "VALIDATED", "ACTIVE")
	if u.Diff.AddedCount != 1 || u.Diff.RemovedCount != 1 || u.Diff.ChangedCount != 1 {
		t.Errorf("diff %v", u.Diff)
	}
	r.apply(want)
	if info, _ := r.applier.Active(); info.Generation != 2 {
		t.Error("the patched snapshot is not what it was to be")
	}

	// On a base that is not active any more.
	d.begin(&controlv1.PushBegin{Version: "late", Patch: true, Options: &controlv1.ApplyOptions{BaseDigest: base.Digest}})
	d.commit(&controlv1.PushCommit{})
	if u := d.hears("REJECTED"); !strings.Contains(u.Reason, "active is "+u1(r)) {
		t.Errorf("rejected %v", u)
	}

	// What is not there can't go.
	d.begin(&controlv1.PushBegin{Version: "odd", Patch: true, Options: &controlv1.ApplyOptions{BaseDigest: u1(r)}})
	d.remove(route, "r0")
	d.commit(&controlv1.PushCommit{})
	if u := d.hears("REJECTED"); !strings.Contains(u.Reason, `"r0"`) {
		t.Errorf("rejected %v", u)
	}
}

func u1(r *rig) string {
	info, _ := r.applier.Active()
	return info.Digest
}

func TestPushPlanOnly(t *testing.T) {
	r := newRig(t, nil)
	r.apply(config("one", 1, 2))
	d, _ := r.push()
	d.begin(&controlv1.PushBegin{Version: "two", PlanOnly: true, Options: &controlv1.ApplyOptions{Term: 5}})
	d.pieces(config("two", 1, 3))
	d.commit(&controlv1.PushCommit{})
	u := d.hears("RECEIVED", "VALIDATED")
	if u.Diff.AddedCount != 1 || u.Snapshot.Digest == "" || u.Snapshot.Generation != 0 {
		t.Errorf("planned %v", u)
	}
	if r.node.runs() != "one" || r.node.prepared != 1 || r.applier.Term() != 0 {
		t.Errorf("%q runs, prepared %d times, term %d", r.node.runs(), r.node.prepared, r.applier.Term())
	}
	d.begin(&controlv1.PushBegin{PlanOnly: true})
	d.commit(&controlv1.PushCommit{})
	if u := d.hears("RECEIVED", "VALIDATED"); u.Diff.RemovedCount != 3 {
		t.Errorf("planned %v", u)
	}
}

func TestPushExpectations(t *testing.T) {
	r := newRig(t, nil)
	d, _ := r.push()
	d.begin(&controlv1.PushBegin{})
	d.pieces(config("", 1, 1))
	d.commit(&controlv1.PushCommit{ExpectedDigest: strings.Repeat("0", 64)})
	if u := d.hears("RECEIVED", "REJECTED"); !strings.Contains(u.Reason, "as expected") {
		t.Errorf("rejected %v", u)
	}
	d.begin(&controlv1.PushBegin{})
	d.pieces(config("", 1, 1))
	d.commit(&controlv1.PushCommit{ExpectedResources: 7})
	wantCode(t, d.ends(), codes.InvalidArgument, "commit.expected_resources: 2 came, not 7")
}

// TestPushOutOfTurn holds what is no conversation to be its end.
func TestPushOutOfTurn(t *testing.T) {
	r := newRig(t, nil)
	big := &configv1.Route{Action: &configv1.Route_Respond{Respond: &configv1.Respond{Body: strings.Repeat("x", maxMessage)}}}
	for name, c := range map[string]struct {
		say  func(*dialogue)
		code codes.Code
		text string
	}{
		"resources first": {func(d *dialogue) { d.resources() }, codes.InvalidArgument, "resources: no snapshot was begun"},
		"commit first":    {func(d *dialogue) { d.commit(&controlv1.PushCommit{}) }, codes.InvalidArgument, "commit: no snapshot was begun"},
		"nothing":         {func(d *dialogue) { d.send(&controlv1.PushRequest{}) }, codes.InvalidArgument, "message: "},
		"bad digest": {func(d *dialogue) {
			d.begin(&controlv1.PushBegin{Options: &controlv1.ApplyOptions{BaseDigest: "abc"}})
		}, codes.InvalidArgument, "options.base_digest"},
		"removed from a whole": {func(d *dialogue) {
			d.begin(&controlv1.PushBegin{})
			d.remove(controlv1.ResourceKind_RESOURCE_KIND_ROUTE, "x")
		}, codes.InvalidArgument, "resources.removed: only a patch"},
		"a patch of anything": {func(d *dialogue) {
			d.begin(&controlv1.PushBegin{Patch: true})
			d.commit(&controlv1.PushCommit{})
		}, codes.InvalidArgument, "begin.options.base_digest"},
		"a resource of no kind": {func(d *dialogue) {
			d.begin(&controlv1.PushBegin{})
			d.resources(&controlv1.Resource{})
			d.commit(&controlv1.PushCommit{})
		}, codes.InvalidArgument, "resources[0]: of no kind"},
		"a message over the bound": {func(d *dialogue) {
			d.begin(&controlv1.PushBegin{})
			d.resources(&controlv1.Resource{Resource: &controlv1.Resource_Route{Route: big}})
		}, codes.ResourceExhausted, "larger than max"},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := r.push()
			d.t = t
			c.say(d)
			wantCode(t, d.ends(), c.code, c.text)
		})
	}
}

// TestPushDegraded: who has a stream open hears of what fails later.
func TestPushDegraded(t *testing.T) {
	r := newRig(t, nil)
	r.apply(config("one", 1, 1))
	d, _ := r.push()
	web := &controlv1.ResourceName{Kind: controlv1.ResourceKind_RESOURCE_KIND_LISTENER, Name: "web"}
	r.applier.Degrade(web, "the address is gone")
	u := d.hears("DEGRADED")
	if len(u.Degradations) != 1 || u.Degradations[0].Reason != "the address is gone" || u.Snapshot.Version != "one" {
		t.Errorf("degraded %v", u)
	}
	_, current := r.push()
	if len(current.Degradations) != 1 {
		t.Errorf("current %v", current)
	}
	r.applier.Recover(web)
	if u := d.hears("DEGRADED"); len(u.Degradations) != 0 {
		t.Errorf("recovered %v", u)
	}
}

func TestStopEndsStreams(t *testing.T) {
	r := newRig(t, nil)
	d, _ := r.push()
	watch, err := r.events.Watch(t.Context(), &controlv1.WatchRequest{Follow: true, FromSequence: new(uint64)})
	if err != nil {
		t.Fatal(err)
	}
	r.server.Stop(t.Context())
	wantCode(t, d.ends(), codes.Unavailable, "stopping")
	_, err = watch.Recv()
	wantCode(t, err, codes.Unavailable, "stopping")
}

// silentStream is a controller that says nothing.
type silentStream struct {
	ctx  context.Context
	sent chan *controlv1.PushResponse
}

func (s *silentStream) Context() context.Context { return s.ctx }

func (s *silentStream) Send(m *controlv1.PushResponse) error {
	s.sent <- m
	return nil
}

func (s *silentStream) Recv() (*controlv1.PushRequest, error) {
	<-s.ctx.Done()
	return nil, s.ctx.Err()
}

func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewApplier(ApplierOptions{Node: &fakeNode{}})
		defer a.Close()
		ctx, cancel := context.WithCancel(t.Context())
		stream := &silentStream{ctx: ctx, sent: make(chan *controlv1.PushResponse)}
		service := &snapshotService{applier: a, stopping: make(chan struct{})}
		done := make(chan error, 1)
		go func() { done <- newPushStream(service, stream).serve() }()
		if m := <-stream.sent; m.GetCurrent() == nil {
			t.Errorf("first came %v", m)
		}
		for range 3 {
			if m := <-stream.sent; m.GetHeartbeat().GetTime() == nil {
				t.Errorf("came %v", m)
			}
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the end: %v", err)
		}
	})
}

// TestStagingBounds holds a snapshot, and all that are begun, to their bounds.
func TestStagingBounds(t *testing.T) {
	piece := &controlv1.PushResources{Resources: []*controlv1.Resource{{Resource: &controlv1.Resource_Route{
		Route: &configv1.Route{Name: "x"},
	}}}}
	all := &budget{}
	one := staging{budget: all}
	one.start(&controlv1.PushBegin{})
	one.size = maxSnapshot - 1
	all.used.Store(one.size)
	wantCode(t, one.add(piece), codes.ResourceExhausted, "over the bound of 67108864 bytes")
	one.drop()
	if got := all.used.Load(); got != 0 {
		t.Errorf("%d bytes are still counted", got)
	}
	all.used.Store(maxStaged - 1)
	one.start(&controlv1.PushBegin{})
	wantCode(t, one.add(piece), codes.ResourceExhausted, "on their way to this node")
	if got := all.used.Load(); got != maxStaged-1 {
		t.Errorf("%d bytes are counted", got)
	}
}
