package upstream

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// healthServer serves grpc.health.v1 on a listener.
func healthServer(t testing.TB, l net.Listener) *health.Server {
	t.Helper()
	s, h := grpc.NewServer(), health.NewServer()
	grpc_health_v1.RegisterHealthServer(s, h)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return h
}

func listen(t testing.TB, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	must(t, err)
	return l
}

// probedBy changes how endpoints are probed.
func probedBy(c *snapshot.Cluster, probe snapshot.Probe, service string) *snapshot.Cluster {
	checked(c)
	c.HealthCheck.Probe, c.HealthCheck.Service = probe, service
	c.HealthCheck.Interval, c.HealthCheck.UnhealthyThreshold = 20*time.Millisecond, 1
	c.HealthCheck.Timeout = time.Minute // no slow machine makes a probe fail
	return c
}

// follow checks the next change of health.
func follow(t *testing.T, seen events, to State, cause, evidence string) {
	t.Helper()
	e := seen.next(t, HealthChanged)
	if e.To != to || e.Cause != cause || !strings.HasPrefix(e.Evidence, evidence) {
		t.Fatalf("event %+v\nwant %v: %s (%s)", e, to, cause, evidence)
	}
}

func TestProbeGRPC(t *testing.T) {
	l := listen(t, "tcp", "127.0.0.1:0")
	h := healthServer(t, l)
	h.SetServingStatus("users", grpc_health_v1.HealthCheckResponse_SERVING)
	seen := make(events, 10)
	apply(t, start(t, Options{Events: seen.add}), probedBy(cluster("c", l.Addr().String()), snapshot.ProbeGRPC, "users"))

	follow(t, seen, StateHealthy, "1 active probe passed: SERVING", "grpc.health.v1 Check users: SERVING in ")
	h.SetServingStatus("users", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	follow(t, seen, StateUnhealthy, "1 active probe failed: NOT_SERVING", "grpc.health.v1 Check users: NOT_SERVING in ")
	h.SetServingStatus("users", grpc_health_v1.HealthCheckResponse_SERVING)
	follow(t, seen, StateHealthy, "1 active probe passed: SERVING", "")
}

func TestProbeGRPCFailures(t *testing.T) {
	serving := listen(t, "tcp", "127.0.0.1:0")
	healthServer(t, serving)
	for _, test := range []struct{ name, address, service, want string }{
		{"nothing is known of the service", serving.Addr().String(), "unheard-of", "status NotFound"},
		{"nobody listens", refusing(t), "", "connection refused"},
		{"nobody answers", accepting(t), "", "timeout after 500ms"},
		{"it is no HTTP/2", serve(t).address(), "", "http2: connection: frame too large (FRAME_SIZE_ERROR)"},
	} {
		seen := make(events, 10)
		config := probedBy(cluster("c", test.address), snapshot.ProbeGRPC, test.service)
		if test.name == "nobody answers" {
			config.HealthCheck.Timeout = 500 * time.Millisecond
		}
		config.HealthCheck.Interval = time.Minute
		g := start(t, Options{Events: seen.add}).Prepare([]*snapshot.Cluster{config})
		g.registry.Commit(g)
		if e := seen.next(t, HealthChanged); e.Cause != "1 active probe failed: "+test.want {
			t.Errorf("%s: %s", test.name, e.Cause)
		}
	}
}

// The connection is kept from probe to probe. One that its peer has closed
// meanwhile is replaced, which is no failure, and the last one is closed with the
// endpoint.
func TestProbeGRPCKeepsItsConnection(t *testing.T) {
	l := listen(t, "tcp", "127.0.0.1:0")
	var address atomic.Value // of the server
	address.Store(l.Addr().String())
	first := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(first, health.NewServer())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = first.Serve(l) }()

	var dials atomic.Int32
	r := start(t, Options{Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		dials.Add(1)
		return new(net.Dialer).DialContext(ctx, network, address.Load().(string))
	}})
	config := probedBy(cluster("c", "a:1"), snapshot.ProbeGRPC, "")
	config.HealthCheck.Interval = time.Hour // after its first probe the schedule leaves the endpoint to the test
	e := apply(t, r, config).Cluster(0).endpoints[0]
	for range 20 {
		if ok, result := r.ask(e, config.HealthCheck); !ok {
			t.Fatal(result)
		}
	}
	if n := dials.Load(); n != 1 {
		t.Errorf("%d connections for 21 probes", n)
	}
	first.Stop()
	<-ended
	l = listen(t, "tcp", "127.0.0.1:0")
	healthServer(t, l)
	address.Store(l.Addr().String())
	if ok, result := r.ask(e, config.HealthCheck); !ok || dials.Load() != 2 {
		t.Errorf("after the server was replaced, with %d connections in all: %s", dials.Load(), result)
	}
	apply(t, r)
	e.group.mu.Lock()
	defer e.group.mu.Unlock()
	if e.channel != nil {
		t.Error("the connection of an endpoint that is gone is kept")
	}
}

func TestProbeGRPCOverUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	healthServer(t, listen(t, "unix", path))
	seen := make(events, 10)
	apply(t, start(t, Options{Events: seen.add}), probedBy(cluster("c", "unix:"+path), snapshot.ProbeGRPC, ""))
	follow(t, seen, StateHealthy, "1 active probe passed: SERVING", "grpc.health.v1 Check: SERVING in ")
}

func TestProbeTCP(t *testing.T) {
	timed(t, func(t *testing.T, n *network, r *Registry, seen events) {
		n.set("a:1", "hang") // it accepts
		apply(t, r, probedBy(cluster("c", "a:1"), snapshot.ProbeTCP, ""))
		follow(t, seen, StateHealthy, "1 active probe passed: accepted", "connect: accepted in ")
		n.set("a:1", "")
		follow(t, seen, StateUnhealthy, "1 active probe failed: connection refused", "connect: connection refused in ")
		n.set("a:1", okay)
		follow(t, seen, StateHealthy, "1 active probe passed: accepted", "")
	})
}
