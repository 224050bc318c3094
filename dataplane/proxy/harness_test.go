package proxy_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"buf.build/go/protoyaml"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/headgate/headgate/dataplane/listener"
	"github.com/headgate/headgate/dataplane/proxy"
	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/telemetry"
	"github.com/headgate/headgate/dataplane/upstream"
	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait for an event; only what hangs takes as long.
const patience = 20 * time.Second

// gate is a data plane of one listener, without its control API.
type gate struct {
	t        testing.TB
	recorder *telemetry.Recorder
	registry *upstream.Registry
	engine   *proxy.Engine
	listener *listener.Listener
	side     *quicSide // nil: it is not reached by HTTP/3
	drained  sync.Once
	cut      int
}

const gateShards = 2

// start runs a data plane with a manifest until the test ends.
func start(t testing.TB, manifest string) *gate {
	t.Helper()
	return startWith(t, manifest, upstream.Options{Shards: gateShards})
}

// startWith is start with another way to reach upstreams.
func startWith(t testing.TB, manifest string, o upstream.Options) *gate {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	recorder, err := telemetry.New(context.Background(), telemetry.Options{Shards: gateShards, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{t: t, recorder: recorder, engine: proxy.New(logger)}
	g.registry = upstream.NewRegistry(o)
	g.apply(manifest)
	if g.listener, err = listener.Bind("tcp", "127.0.0.1:0", logger); err != nil {
		t.Fatal(err)
	}
	g.listener.Serve(func(c net.Conn, n uint64) listener.Conn {
		return g.engine.NewConn(c, 0, int(n%gateShards))
	})
	t.Cleanup(g.stop)
	return g
}

// apply makes a manifest live, as the data plane does.
func (g *gate) apply(manifest string) {
	g.t.Helper()
	config := new(configv1.Snapshot)
	if err := protoyaml.Unmarshal([]byte(manifest), config); err != nil {
		g.t.Fatalf("%v\n%s", err, manifest)
	}
	snap, violations := snapshot.Compile(config)
	if snap == nil {
		g.t.Fatalf("%v\n%s", violations, manifest)
	}
	prepared := g.registry.Prepare(snap.Clusters)
	if err := prepared.Warm(context.Background()); err != nil {
		g.t.Fatal(err)
	}
	clusters := make([]*upstream.Cluster, len(snap.Clusters))
	for i := range clusters {
		clusters[i] = prepared.Cluster(i)
	}
	view := g.recorder.View(snap)
	places := make([]proxy.Place, len(snap.Listeners))
	for i := range places {
		places[i].Slot = i
		if g.side != nil {
			places[i].QUICPort = g.side.socket.Addr().(*net.UDPAddr).Port
		}
	}
	next := proxy.NewGeneration(snap, clusters, view, places, g.engine.Live())
	g.registry.Commit(prepared)
	g.recorder.Use(view)
	g.engine.Swap(next)
}

// drain ends the connections as a retired listener does, within patience.
func (g *gate) drain() (cut int) {
	g.drained.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		g.cut = g.drainAll(ctx)
	})
	return g.cut
}

// stop cuts what is left and waits until nothing runs any more.
func (g *gate) stop() {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	g.drained.Do(func() { g.drainAll(over) })
	if g.side != nil {
		_ = g.side.socket.Close()
	}
	g.engine.Close()
	g.registry.Close()
	if err := g.recorder.Shutdown(context.Background()); err != nil {
		g.t.Error(err)
	}
}

func (g *gate) drainAll(ctx context.Context) (cut int) {
	if g.side != nil {
		cut = g.side.drain(ctx)
	}
	return cut + g.listener.Drain(ctx)
}

// dial connects a client.
func (g *gate) dial() *peer {
	g.t.Helper()
	c, err := net.Dial("tcp", g.listener.Addr().String())
	if err != nil {
		g.t.Fatal(err)
	}
	return newPeer(g.t, "client", c)
}

// recent waits until n exchanges are recorded and returns them, the first
// first.
func (g *gate) recent(n int) []telemetry.Recent {
	g.t.Helper()
	var found []telemetry.Recent
	for end := time.Now().Add(patience); len(found) < n; {
		if time.Now().After(end) {
			g.t.Fatalf("%d exchanges were recorded, want %d: %+v", len(found), n, found)
		}
		found = g.recorder.Recent(nil, 1000)
	}
	for i, j := 0, len(found)-1; i < j; i, j = i+1, j-1 {
		found[i], found[j] = found[j], found[i]
	}
	return found
}

// backend is a server that does what the test says, byte by byte.
type backend struct {
	t        testing.TB
	listener *net.TCPListener
}

func newBackend(t testing.TB) *backend {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &backend{t: t, listener: l.(*net.TCPListener)}
	t.Cleanup(func() { _ = l.Close() })
	return b
}

func (b *backend) address() string { return b.listener.Addr().String() }

// accept waits for the next connection.
func (b *backend) accept() *peer {
	b.t.Helper()
	_ = b.listener.SetDeadline(time.Now().Add(patience))
	c, err := b.listener.Accept()
	if err != nil {
		b.t.Fatalf("backend: no connection: %v", err)
	}
	return newPeer(b.t, "backend", c)
}

// untouched fails the test if a connection is waiting. What would make one must
// be over.
func (b *backend) untouched() {
	b.t.Helper()
	_ = b.listener.SetDeadline(time.Now().Add(time.Millisecond))
	c, err := b.listener.Accept()
	if err == nil {
		_ = c.Close()
		b.t.Error("backend: a connection that nobody wants")
	}
}

// refusing is an address where nothing listens, and nothing will while the test runs:
// a socket holds its port.
func refusing(t testing.TB) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
}

// manifest is a snapshot of one listener; lines are put behind it.
func manifest(lines ...string) string {
	return "version: test\nlisteners: [{name: web, address: 127.0.0.1:1}]\n" + strings.Join(lines, "\n") + "\n"
}

// single forwards everything to one endpoint.
func single(address string) string {
	return manifest(
		"clusters: [{name: main, endpoints: [{address: '"+address+"'}]}]",
		"routes: [{name: all, forward: {backends: [{cluster: main}]}}]",
	)
}
