package ctl

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/ctl/manifest"
	"github.com/headgate/headgate/dataplane/snapshot"
)

// fakeNode plays the far side of streams that break, which a real node does
// not do when it is asked to. Each call of a stream takes the next script.
type fakeNode struct {
	controlv1.UnimplementedSnapshotServiceServer
	controlv1.UnimplementedEventServiceServer

	mu      sync.Mutex
	pushes  []func(grpc.BidiStreamingServer[controlv1.PushRequest, controlv1.PushResponse]) error
	watches []func(*controlv1.WatchRequest, grpc.ServerStreamingServer[controlv1.WatchResponse]) error
}

func (f *fakeNode) Push(stream grpc.BidiStreamingServer[controlv1.PushRequest, controlv1.PushResponse]) error {
	f.mu.Lock()
	script := f.pushes[0]
	f.pushes = f.pushes[1:]
	f.mu.Unlock()
	return script(stream)
}

func (f *fakeNode) Watch(ask *controlv1.WatchRequest, stream grpc.ServerStreamingServer[controlv1.WatchResponse]) error {
	f.mu.Lock()
	script := f.watches[0]
	f.watches = f.watches[1:]
	f.mu.Unlock()
	return script(ask, stream)
}

// serve starts the fake and returns its address.
func (f *fakeNode) serve(t *testing.T) string {
	t.Helper()
	path := filepath.Join(socketDir(t), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	controlv1.RegisterSnapshotServiceServer(server, f)
	controlv1.RegisterEventServiceServer(server, f)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return "unix:" + path
}

// socketDir is a directory whose name is short enough for a unix socket.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// output collects what is written and calls back after each write.
type output struct {
	mu     sync.Mutex
	buffer bytes.Buffer
	wrote  func(all string)
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.buffer.Write(p)
	if o.wrote != nil {
		o.wrote(o.buffer.String())
	}
	return n, err
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.String()
}

// run runs one command line in this process.
func run(ctx context.Context, stdin string, stdout, stderr *output, args ...string) int {
	env := []string{"HEADGATE_CONFIG=/nonexistent", "HEADGATE_WRITER=tester"}
	return Main(ctx, args, env, strings.NewReader(stdin), stdout, stderr)
}

// digestOf is the digest of a manifest.
func digestOf(t *testing.T, text string) string {
	t.Helper()
	m, faults := manifest.Parse(manifest.Source{Name: "test", Data: []byte(text)})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return snapshot.Digest(m.Snapshot)
}

// verifyNoLeak fails the test if a goroutine outlives what was started after
// the call.
func verifyNoLeak(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}
