package upstream

import (
	"net"
	"path/filepath"
	"strings"
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
		{"it is no HTTP/2", serve(t).address(), "", "status Unavailable"},
	} {
		seen := make(events, 10)
		config := probedBy(cluster("c", test.address), snapshot.ProbeGRPC, test.service)
		config.HealthCheck.Timeout = 500 * time.Millisecond
		config.HealthCheck.Interval = time.Minute
		g := start(t, Options{Events: seen.add}).Prepare([]*snapshot.Cluster{config})
		g.registry.Commit(g)
		if e := seen.next(t, HealthChanged); e.Cause != "1 active probe failed: "+test.want {
			t.Errorf("%s: %s", test.name, e.Cause)
		}
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
