package ctl

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

type watchServer = grpc.ServerStreamingServer[controlv1.WatchResponse]

func storeEvent(sequence uint64, instance, cause string) *controlv1.WatchResponse {
	return &controlv1.WatchResponse{Event: &controlv1.Event{
		Sequence: sequence, Instance: instance,
		Detail: &controlv1.Event_Store{Store: &controlv1.StoreEvent{Cause: cause}},
	}}
}

func gapEvent(instance string, from, to uint64) *controlv1.WatchResponse {
	return &controlv1.WatchResponse{Event: &controlv1.Event{
		Instance: instance, Detail: &controlv1.Event_Gap{Gap: &controlv1.GapEvent{From: from, To: to}},
	}}
}

// A watcher that is cut off goes on where it was, shows each event once, and
// says where some are missing.
func TestEventsResume(t *testing.T) {
	verifyNoLeak(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	var asked []string
	note := func(ask *controlv1.WatchRequest) {
		asked = append(asked, number(ask.GetFromSequence())+" "+ask.GetInstance())
	}
	f := &fakeNode{}
	f.watches = append(f.watches,
		func(ask *controlv1.WatchRequest, _ watchServer) error {
			note(ask)
			return status.Error(codes.Unavailable, "the node stops before anything happened")
		},
		func(ask *controlv1.WatchRequest, stream watchServer) error {
			note(ask)
			_ = stream.Send(storeEvent(1, "first", "one"))
			_ = stream.Send(storeEvent(2, "first", "two"))
			return status.Error(codes.Unavailable, "the node stops")
		},
		func(ask *controlv1.WatchRequest, stream watchServer) error {
			note(ask)
			_ = stream.Send(storeEvent(3, "first", "three"))
			return status.Error(codes.ResourceExhausted, "the reader is too slow")
		},
		func(ask *controlv1.WatchRequest, stream watchServer) error {
			note(ask)
			_ = stream.Send(gapEvent("first", 4, 7))
			return nil
		},
		func(ask *controlv1.WatchRequest, stream watchServer) error {
			note(ask)
			_ = stream.Send(gapEvent("second", 0, 0))
			_ = stream.Send(storeEvent(1, "second", "another life"))
			<-stream.Context().Done()
			return nil
		})

	stdout, stderr := new(output), new(output)
	stdout.wrote = func(all string) {
		if strings.Contains(all, "another life") {
			cancel()
		}
	}
	code := run(ctx, "", stdout, stderr, "events", "--watch", "--target", f.serve(t))
	if code != 0 {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	if got, want := strings.Join(asked, ", "), "0 , 0 , 3 first, 4 first, 8 first"; got != want {
		t.Errorf("asked from %s, want %s", got, want)
	}
	for _, want := range []string{"one", "two", "three", "events 4 to 7 are missing", "events are missing here", "another life"} {
		if n := strings.Count(stdout.String(), want); n != 1 {
			t.Errorf("%q is shown %d times in\n%s", want, n, stdout)
		}
	}
	if n := strings.Count(stderr.String(), "resuming from event"); n != 4 {
		t.Errorf("resumed %d times, want 4:\n%s", n, stderr)
	}
}

// What the node refuses for good is not tried again.
func TestEventsRefused(t *testing.T) {
	f := &fakeNode{}
	f.watches = append(f.watches, func(*controlv1.WatchRequest, watchServer) error {
		return status.Error(codes.PermissionDenied, "events are for the role read")
	})
	stdout, stderr := new(output), new(output)
	if code := run(t.Context(), "", stdout, stderr, "events", "--watch", "--target", f.serve(t)); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if got, want := stderr.String(), "error: events are for the role read\n"; got != want {
		t.Errorf("stderr is %q, want %q", got, want)
	}
}

const smallManifest = `
listeners: [{name: web, address: "127.0.0.1:0"}]
routes: [{name: ping, respond: {body: pong}}]
`

type pushServer = grpc.BidiStreamingServer[controlv1.PushRequest, controlv1.PushResponse]

// receivePush reads a snapshot up to its commit.
func receivePush(stream pushServer) (*controlv1.PushBegin, int, error) {
	var begin *controlv1.PushBegin
	resources := 0
	for {
		request, err := stream.Recv()
		if err != nil {
			return nil, 0, err
		}
		if b := request.GetBegin(); b != nil {
			begin = b
		}
		resources += len(request.GetResources().GetResources())
		if request.GetCommit() != nil {
			return begin, resources, nil
		}
	}
}

func sayCurrent(stream pushServer, active *controlv1.SnapshotInfo) error {
	return stream.Send(&controlv1.PushResponse{Message: &controlv1.PushResponse_Current{
		Current: &controlv1.CurrentState{Node: "n", Active: active},
	}})
}

func sayState(stream pushServer, u *controlv1.StateUpdate) error {
	return stream.Send(&controlv1.PushResponse{Message: &controlv1.PushResponse_Update{Update: u}})
}

// The stream breaks after the commit; the same snapshot is pushed again, and
// what the node did meanwhile does not count as somebody else's change.
func TestPushAgain(t *testing.T) {
	verifyNoLeak(t)
	digest := digestOf(t, smallManifest)
	before := &controlv1.SnapshotInfo{Version: "old", Digest: strings.Repeat("ab", 32), Generation: 3}
	after := &controlv1.SnapshotInfo{Version: "new", Digest: digest, Generation: 4}

	var begins []*controlv1.PushBegin
	f := &fakeNode{}
	f.pushes = append(f.pushes,
		func(stream pushServer) error {
			_ = sayCurrent(stream, before)
			begin, _, err := receivePush(stream)
			if err != nil {
				return err
			}
			begins = append(begins, begin)
			return status.Error(codes.Unavailable, "the node stops")
		},
		func(stream pushServer) error {
			_ = sayCurrent(stream, after)
			begin, resources, err := receivePush(stream)
			if err != nil {
				return err
			}
			begins = append(begins, begin)
			if resources != 2 {
				return status.Errorf(codes.InvalidArgument, "%d resources", resources)
			}
			return sayState(stream, &controlv1.StateUpdate{
				State: controlv1.SnapshotState_SNAPSHOT_STATE_ACTIVE, Snapshot: after, Unchanged: true,
			})
		})

	stdout, stderr := new(output), new(output)
	code := run(t.Context(), smallManifest, stdout, stderr, "apply", "-", "--if-unchanged", "--target", f.serve(t))
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	if got, want := begins[0].GetOptions().GetBaseDigest(), before.GetDigest(); got != want {
		t.Errorf("the first push has base %q, want %q", got, want)
	}
	if got := begins[1].GetOptions().GetBaseDigest(); got != "" {
		t.Errorf("the second push has base %q, want none", got)
	}
	if got, want := stdout.String(), "unchanged: version new, digest "+short(digest)+", generation 4\n"; got != want {
		t.Errorf("stdout is %q, want %q", got, want)
	}
	if !strings.Contains(stderr.String(), "the node stops; pushing again in ") {
		t.Errorf("stderr does not say that it pushed again:\n%s", stderr)
	}
}
