package ctl

import (
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// What the details of a refused call hold is shown: each field with what is
// wrong with it, and what can be done.
func TestDetailsAreShown(t *testing.T) {
	refused, err := status.New(codes.InvalidArgument, "the request has 2 faults").WithDetails(
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: "clusters[0]", Description: "must not be empty"},
			{Field: "instance", Description: "must be at most 128 bytes\x1b[2J"},
		}},
		&errdetails.ErrorInfo{Reason: "STALE_TERM", Domain: "headgate"},
	)
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeNode{}
	f.watches = append(f.watches, func(*controlv1.WatchRequest, watchServer) error { return refused.Err() })
	stdout, stderr := new(output), new(output)
	code := run(t.Context(), "", stdout, stderr, "events", "--target", f.serve(t))
	const want = `error: the request has 2 faults
  clusters[0]: must not be empty
  instance: must be at most 128 bytes?[2J
hint: another writer has taken over with a higher term; --term says which one you hold
`
	if code != exitFailed || stderr.String() != want {
		t.Errorf("exit code %d, stderr\n%swant\n%s", code, stderr, want)
	}
}

func TestWords(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		{"nobody there", status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp 10.0.0.1:7070: connect: connection refused"`),
			"no data plane answers at 10.0.0.1:7070 (is it running? --target says where)"},
		{"no such host", status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp: lookup gate: no such host"`),
			"cannot reach 10.0.0.1:7070: dial tcp: lookup gate: no such host"},
		{"too late", status.Error(codes.DeadlineExceeded, "context deadline exceeded"),
			"10.0.0.1:7070 did not answer in time (--timeout says how long)"},
		{"not built in", status.Error(codes.Unimplemented, "Stats is not served here"),
			"10.0.0.1:7070 does not do this: Stats is not served here"},
		{"plain", status.Error(codes.NotFound, "no generation 99"), "no generation 99"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := failedCall(destination{address: "10.0.0.1:7070"}, test.err).Error()
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}
