package ctl

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// The trace that ctl was called in goes on to the node, also where ctl itself
// exports nothing.
func TestTraceContextIsSent(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	var sent []string
	f := &fakeNode{}
	f.pushes = append(f.pushes, func(stream pushServer) error {
		md, _ := metadata.FromIncomingContext(stream.Context())
		sent = md.Get("traceparent")
		return status.Error(codes.PermissionDenied, "enough")
	})
	env := []string{"TRACEPARENT=" + parent, "HEADGATE_TARGET=" + f.serve(t)}
	stdout, stderr := new(output), new(output)
	code := Main(t.Context(), []string{"apply", "-"}, env, strings.NewReader(smallManifest), stdout, stderr)
	if code != exitFailed || stderr.String() != "error: enough\n" {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	if len(sent) != 1 || sent[0] != parent {
		t.Errorf("traceparent %q was sent, want %q", sent, parent)
	}
}
