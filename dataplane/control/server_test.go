package control

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// details finds the parts of an error's status.
func details(err error) (info *errdetails.ErrorInfo, bad *errdetails.BadRequest) {
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			info = d
		case *errdetails.BadRequest:
			bad = d
		}
	}
	return info, bad
}

// TestApplyOutcomes holds each outcome of the unary call to its code and reason.
func TestApplyOutcomes(t *testing.T) {
	r := newRig(t, nil)
	r.apply(config("one", 1, 30))
	call := func(s *configv1.Snapshot, o *controlv1.ApplyOptions) (*controlv1.ApplyResponse, error) {
		return r.snapshots.Apply(t.Context(), &controlv1.ApplyRequest{Snapshot: s, Options: o})
	}
	refused := func(s *configv1.Snapshot, o *controlv1.ApplyOptions, code codes.Code, reason Reason) *errdetails.BadRequest {
		t.Helper()
		_, err := call(s, o)
		wantCode(t, err, code, "")
		info, bad := details(err)
		if info.GetReason() != string(reason) || info.GetDomain() != errorDomain {
			t.Errorf("info %v, want %s", info, reason)
		}
		return bad
	}
	out, err := call(config("two", 2, 30), &controlv1.ApplyOptions{Term: 3, Writer: "me"})
	if err != nil || out.Snapshot.Generation != 2 || out.Diff.ChangedCount != 30 || out.Snapshot.Writer != "me" {
		t.Errorf("applied %v, %v", out, err)
	}
	if out, err = call(config("two", 2, 30), &controlv1.ApplyOptions{Term: 3}); err != nil || !out.Unchanged {
		t.Errorf("again %v, %v", out, err)
	}
	refused(config("", 3, 30), nil, codes.FailedPrecondition, ReasonStaleTerm)
	refused(config("", 3, 30), &controlv1.ApplyOptions{Term: 3, BaseDigest: strings.Repeat("0", 64)}, codes.Aborted, ReasonBaseDigest)
	refused(config("", 3, 3), &controlv1.ApplyOptions{Term: 3}, codes.FailedPrecondition, ReasonShrink)
	refused(nil, &controlv1.ApplyOptions{Term: 3}, codes.FailedPrecondition, ReasonShrink)

	broken := config("", 3, 200)
	for _, route := range broken.Routes {
		route.GetRespond().Status = 1
	}
	bad := refused(broken, &controlv1.ApplyOptions{Term: 3}, codes.InvalidArgument, ReasonInvalid)
	if n := len(bad.GetFieldViolations()); n == 0 || n == 200 || proto.Size(bad) > maxDetail+100 {
		t.Errorf("%d violations in %d bytes", n, proto.Size(bad))
	}
	if f := bad.FieldViolations[0]; f.Field != "routes[0].respond.status" || f.Description == "" {
		t.Errorf("the first is %v", f)
	}
	_, err = call(config("", 4, 30), &controlv1.ApplyOptions{BaseDigest: "short"})
	wantCode(t, err, codes.InvalidArgument, "base_digest")

	r.node.fail = &FieldError{Path: "listeners[0].address", Err: errors.New("address already in use")}
	bad = refused(config("", 5, 30), &controlv1.ApplyOptions{Term: 3}, codes.FailedPrecondition, ReasonNode)
	if bad.GetFieldViolations()[0].Field != "listeners[0].address" {
		t.Errorf("violations %v", bad)
	}
}

func TestPlan(t *testing.T) {
	r := newRig(t, nil)
	base := r.apply(config("one", 1, 2))
	p, err := r.snapshots.Plan(t.Context(), &controlv1.PlanRequest{Snapshot: config("two", 2, 3)})
	if err != nil || p.Base.Digest != base.Digest || p.Diff.ChangedCount != 2 || p.Diff.AddedCount != 1 || p.Digest == "" {
		t.Errorf("plan %v, %v", p, err)
	}
	bad := config("", 2, 2)
	bad.Routes[1].Name = "r0"
	p, err = r.snapshots.Plan(t.Context(), &controlv1.PlanRequest{Snapshot: bad})
	if err != nil || p.Digest != "" || p.Diff != nil || len(p.Violations) != 1 || p.Violations[0].FieldPath != "routes[1].name" {
		t.Errorf("plan %v, %v", p, err)
	}
	p, err = r.snapshots.Plan(t.Context(), &controlv1.PlanRequest{Snapshot: config("", 1, 2)})
	if err != nil || !p.Unchanged {
		t.Errorf("plan %v, %v", p, err)
	}
	if r.node.prepared != 1 {
		t.Errorf("prepared %d times", r.node.prepared)
	}
}

// get puts the pieces of a snapshot together again.
func (r *rig) get(m *controlv1.GetRequest) (info *controlv1.SnapshotInfo, s *configv1.Snapshot, messages int) {
	r.t.Helper()
	stream, err := r.snapshots.Get(r.t.Context(), m)
	if err != nil {
		r.t.Fatal(err)
	}
	s = &configv1.Snapshot{}
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return info, s, messages
		}
		if err != nil {
			r.t.Fatal(err)
		}
		if proto.Size(piece) > maxMessage {
			r.t.Errorf("a piece of %d bytes", proto.Size(piece))
		}
		messages++
		if piece.GetSnapshot() != nil {
			info = piece.GetSnapshot()
		}
		for _, resource := range piece.GetResources().GetResources() {
			appendResource(s, resource)
		}
	}
}

func TestGet(t *testing.T) {
	r := newRig(t, nil)
	stream, err := r.snapshots.Get(t.Context(), &controlv1.GetRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	wantCode(t, err, codes.NotFound, "nothing is active")

	one := config("", 1, 20)
	for _, route := range one.Routes {
		route.GetRespond().Body = strings.Repeat("x", 60<<10)
	}
	r.apply(one)
	r.apply(config("two", 2, 20))
	info, s, _ := r.get(&controlv1.GetRequest{})
	want := config("", 2, 20)
	if info.Generation != 2 || info.Version != "two" || !proto.Equal(s, want) {
		t.Errorf("got %v, %v", info, s)
	}
	info, s, messages := r.get(&controlv1.GetRequest{Generation: 1})
	one.Version = ""
	if info.Generation != 1 || messages < 5 || !proto.Equal(s, one) {
		t.Errorf("got %v in %d messages", info, messages)
	}
	_, s, _ = r.get(&controlv1.GetRequest{
		Kinds: []controlv1.ResourceKind{controlv1.ResourceKind_RESOURCE_KIND_ROUTE}, Names: []string{"r7", "web"},
	})
	if countResources(s) != 1 || s.Routes[0].Name != "r7" {
		t.Errorf("picked %v", s)
	}
}

func TestRevisions(t *testing.T) {
	r := newRig(t, nil)
	for seed, version := range []string{"one", "two", "three"} {
		r.apply(config(version, seed, 2))
	}
	out, err := r.snapshots.ListRevisions(t.Context(), &controlv1.ListRevisionsRequest{PageSize: 2})
	if err != nil || len(out.Revisions) != 2 || !out.Revisions[0].Active || out.Revisions[1].Active {
		t.Fatalf("listed %v, %v", out, err)
	}
	if v := out.Revisions[0]; v.Snapshot.Version != "three" || v.ResourceCount != 3 || v.SizeBytes == 0 {
		t.Errorf("revision %v", v)
	}
	out, err = r.snapshots.ListRevisions(t.Context(), &controlv1.ListRevisionsRequest{PageSize: 2, PageToken: out.NextPageToken})
	if err != nil || len(out.Revisions) != 1 || out.Revisions[0].Snapshot.Version != "one" || out.NextPageToken != "" {
		t.Errorf("the next page %v, %v", out, err)
	}
	_, err = r.snapshots.ListRevisions(t.Context(), &controlv1.ListRevisionsRequest{PageToken: "x"})
	wantCode(t, err, codes.InvalidArgument, "page_token")

	back, err := r.snapshots.Rollback(t.Context(), &controlv1.RollbackRequest{Generation: 1})
	if err != nil || back.Snapshot.Version != "one" || back.Snapshot.Generation != 4 || back.Diff.ChangedCount != 2 {
		t.Errorf("rolled back %v, %v", back, err)
	}
	_, err = r.snapshots.Rollback(t.Context(), &controlv1.RollbackRequest{Generation: 77})
	wantCode(t, err, codes.NotFound, "generation 77")
}

func TestStatus(t *testing.T) {
	r := newRig(t, nil)
	r.apply(config("one", 1, 1))
	r.applier.Degrade(nil, "the log can't be written")
	r.node.status = &controlv1.StatusResponse{
		Node:      &controlv1.NodeStatus{SoftwareVersion: "v1"},
		Listeners: []*controlv1.ListenerStatus{{Name: "web"}},
		Clusters:  []*controlv1.ClusterStatus{{Name: "a"}, {Name: "b"}, {Name: "c"}},
	}
	out, err := r.inspect.Status(t.Context(), &controlv1.StatusRequest{PageSize: 2})
	if err != nil {
		t.Fatal(err)
	}
	n := out.Node
	if n.Node != "test" || n.SoftwareVersion != "v1" || n.Snapshot.Version != "one" || len(n.Degradations) != 1 ||
		n.Instance == "" || n.LastEventSequence == 0 || n.Store.Directory != "" || !slices.Equal(n.Store.Generations, []uint64{1}) {
		t.Errorf("node %v", n)
	}
	if len(out.Clusters) != 2 || out.NextPageToken != "b" || len(out.Listeners) != 1 {
		t.Errorf("page %v", out)
	}
	out, err = r.inspect.Status(t.Context(), &controlv1.StatusRequest{PageToken: "b", Clusters: []string{"a", "c"}})
	if err != nil || len(out.Clusters) != 1 || out.Clusters[0].Name != "c" || out.NextPageToken != "" {
		t.Errorf("page %v, %v", out, err)
	}
}

func TestExplain(t *testing.T) {
	r := newRig(t, nil)
	ask := func(m *controlv1.ExplainRequest) (*controlv1.ExplainResponse, error) {
		return r.inspect.Explain(t.Context(), m)
	}
	_, err := ask(&controlv1.ExplainRequest{Request: &controlv1.RequestDescription{Path: "/1"}})
	wantCode(t, err, codes.FailedPrecondition, "nothing is active")
	r.apply(config("one", 1, 3))
	out, err := ask(&controlv1.ExplainRequest{Request: &controlv1.RequestDescription{Path: "/1"}})
	if err != nil || out.Explanation.Route != "r1" || out.Explanation.SnapshotVersion != "one" {
		t.Errorf("explained %v, %v", out, err)
	}
	candidate := config("two", 1, 3)
	candidate.Routes = candidate.Routes[:1]
	out, err = ask(&controlv1.ExplainRequest{Request: &controlv1.RequestDescription{Path: "/1"}, Candidate: candidate})
	if err != nil || out.Explanation.Route != "" {
		t.Errorf("explained %v, %v", out, err)
	}
	candidate.Routes[0].GetRespond().Status = 1
	_, err = ask(&controlv1.ExplainRequest{Request: &controlv1.RequestDescription{Path: "/1"}, Candidate: candidate})
	wantCode(t, err, codes.InvalidArgument, "")
	if _, bad := details(err); bad.GetFieldViolations()[0].Field != "routes[0].respond.status" {
		t.Errorf("violations %v", bad)
	}
	_, err = ask(&controlv1.ExplainRequest{})
	wantCode(t, err, codes.InvalidArgument, "request: is required")
	_, err = ask(&controlv1.ExplainRequest{Request: &controlv1.RequestDescription{SourceAddress: "here"}})
	wantCode(t, err, codes.InvalidArgument, "source_address")
}

func TestHooks(t *testing.T) {
	bare := newRig(t, nil)
	_, err := bare.inspect.Stats(t.Context(), &controlv1.StatsRequest{})
	wantCode(t, err, codes.Unimplemented, "keeps no numbers")
	tap, err := bare.inspect.Tap(t.Context(), &controlv1.TapRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = tap.Recv()
	wantCode(t, err, codes.Unimplemented, "keeps no record")

	r := newRig(t, func(o *Options) {
		o.Stats = func(context.Context, *controlv1.StatsRequest) (*controlv1.StatsResponse, error) {
			return &controlv1.StatsResponse{Reports: []*controlv1.StatsReport{{Node: "test"}}}, nil
		}
		o.Tap = func(ctx context.Context, _ *controlv1.TapRequest, send func(*controlv1.TapResponse) error) error {
			if err := send(&controlv1.TapResponse{Dropped: 3}); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}
	})
	if out, err := r.inspect.Stats(t.Context(), &controlv1.StatsRequest{}); err != nil || len(out.Reports) != 1 {
		t.Errorf("stats %v, %v", out, err)
	}
	if tap, err = r.inspect.Tap(t.Context(), &controlv1.TapRequest{}); err != nil {
		t.Fatal(err)
	}
	if m, err := tap.Recv(); err != nil || m.Dropped != 3 {
		t.Errorf("tapped %v, %v", m, err)
	}
	r.server.Stop(t.Context())
	_, err = tap.Recv()
	wantCode(t, err, codes.Unavailable, "stopping")
}

// TestPanicIsOneCall: a fault of the server's ends one call, not the process.
func TestPanicIsOneCall(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Stats = func(context.Context, *controlv1.StatsRequest) (*controlv1.StatsResponse, error) { panic("no") }
		o.Tap = func(context.Context, *controlv1.TapRequest, func(*controlv1.TapResponse) error) error { panic("no") }
	})
	_, err := r.inspect.Stats(t.Context(), &controlv1.StatsRequest{})
	wantCode(t, err, codes.Internal, "internal error")
	tap, err := r.inspect.Tap(t.Context(), &controlv1.TapRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = tap.Recv()
	wantCode(t, err, codes.Internal, "internal error")
}

func TestToken(t *testing.T) {
	const token = "correct horse battery"
	r := newRig(t, func(o *Options) { o.Auth.Token = token })
	for _, c := range []struct {
		header string
		code   codes.Code
	}{
		{"", codes.Unauthenticated},
		{"Bearer wrong horse battery", codes.Unauthenticated},
		{"Basic " + token, codes.Unauthenticated},
		{"Bearer " + token, codes.OK},
		{"bearer " + token, codes.OK},
	} {
		ctx := t.Context()
		if c.header != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", c.header)
		}
		_, err := r.inspect.Status(ctx, &controlv1.StatusRequest{})
		if status.Code(err) != c.code {
			t.Errorf("%q: %v", c.header, err)
		}
		stream, err := r.events.Watch(ctx, &controlv1.WatchRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = stream.Recv(); c.code != codes.OK && status.Code(err) != c.code {
			t.Errorf("%q: a stream: %v", c.header, err)
		}
	}
}

func TestReadToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(" correct horse battery\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadToken(file); got != "correct horse battery" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.WriteFile(file, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadToken(file); err == nil {
		t.Error("an empty token is one")
	}
}

// TestListen holds the control API to addresses that are safe without
// authentication.
func TestListen(t *testing.T) {
	open := Auth{}
	token := Auth{Token: "correct horse battery"}
	clients := Auth{TLS: &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert}}
	tlsOnly := Auth{TLS: &tls.Config{}}
	for _, c := range []struct {
		addr string
		auth Auth
		text string // of the error; "" for none
	}{
		{"127.0.0.1:0", open, ""},
		{"[::1]:0", open, ""},
		{"localhost:0", open, ""},
		{":0", open, "not a loopback address"},
		{"0.0.0.0:0", open, "not a loopback address"},
		{"0.0.0.0:0", tlsOnly, "not a loopback address"},
		{"example.com:0", open, "not a loopback address"},
		{"0.0.0.0:0", token, ""},
		{":0", clients, ""},
		{"127.0.0.1", open, "expected host:port or unix:/path"},
		{"unix:", open, "needs a path"},
	} {
		l, err := Listen(c.addr, c.auth)
		if err == nil {
			_ = l.Close()
		}
		if (err == nil) != (c.text == "") || err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", c.addr, err)
		}
	}
}

func TestListenUnix(t *testing.T) {
	addr := "unix:" + filepath.Join(t.TempDir(), "control")
	l, err := Listen(addr, Auth{})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(l.Addr().String())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, err := Listen(addr, Auth{}); err == nil || !strings.Contains(err.Error(), "another process serves it") {
		t.Errorf("a second one: %v", err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = l.Close()
	again, err := Listen(addr, Auth{})
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
}

func TestHealthAndReflection(t *testing.T) {
	r := newRig(t, nil)
	health := healthv1.NewHealthClient(r.conn)
	for _, name := range []string{"", controlv1.SnapshotService_ServiceDesc.ServiceName} {
		out, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{Service: name})
		if err != nil || out.Status != healthv1.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v, %v", name, out, err)
		}
	}
	stream, err := reflectionv1.NewServerReflectionClient(r.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = stream.Send(&reflectionv1.ServerReflectionRequest{
		MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{},
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := stream.Recv()
	if err != nil || len(out.GetListServicesResponse().GetService()) < 4 {
		t.Errorf("services %v, %v", out, err)
	}
	_ = stream.CloseSend()
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
