package upstream

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// backendVariable makes a process of this test a backend: http or grpc.
const backendVariable = "HEADGATE_PROBED_BACKEND"

func TestMain(m *testing.M) {
	if protocol := os.Getenv(backendVariable); protocol != "" {
		runBackend(protocol)
	}
	goleak.VerifyTestMain(m)
}

// runBackend says where it listens and serves until it is killed.
func runBackend(protocol string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	if protocol == "grpc" {
		s := grpc.NewServer()
		grpc_health_v1.RegisterHealthServer(s, health.NewServer())
		panic(s.Serve(l))
	}
	panic(http.Serve(l, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
}

// backendProcess is the address of a backend that is a process of its own, so that
// what it costs is not counted.
func backendProcess(t *testing.T, protocol string) string {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	command := exec.CommandContext(t.Context(), self)
	command.Env = append(os.Environ(), backendVariable+"="+protocol)
	out, err := command.StdoutPipe()
	must(t, err)
	must(t, command.Start())
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	return strings.TrimSpace(line)
}

// cpu is what this process has used.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	must(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// 10,000 endpoints in 1,000 clusters, each probed every 10 s: that takes less than
// a fifth of a core, and no moment has many more probes than another. It takes
// half a minute, and is one of the bars.
func TestProbesCosts(t *testing.T) {
	if os.Getenv("HEADGATE_BARS") != "full" {
		t.Skip("HEADGATE_BARS=full measures")
	}
	for protocol, probe := range map[string]snapshot.Probe{"http": snapshot.ProbeHTTP, "grpc": snapshot.ProbeGRPC} {
		t.Run(protocol, func(t *testing.T) { probesCost(t, backendProcess(t, protocol), probe) })
	}
}

func probesCost(t *testing.T, address string, probe snapshot.Probe) {
	const interval = 10 * time.Second
	var mu sync.Mutex
	var dials []time.Time
	r := start(t, Options{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		mu.Lock()
		dials = append(dials, time.Now())
		mu.Unlock()
		return new(net.Dialer).DialContext(ctx, "tcp", address) // the same, whatever is asked for
	}})
	var clusters []*snapshot.Cluster
	for i := range 1000 {
		var endpoints []string
		for j := range 10 {
			endpoints = append(endpoints, fmt.Sprintf("10.0.%d.%d:80", i, j))
		}
		c := probedBy(cluster(fmt.Sprintf("c%d", i), endpoints...), probe, "")
		c.HealthCheck.Interval, c.HealthCheck.Path = interval, "/"
		clusters = append(clusters, c)
	}
	apply(t, r, clusters...)
	time.Sleep(interval) // until they are spread
	mu.Lock()
	dials = nil
	mu.Unlock()
	before, began := cpu(t), time.Now()
	time.Sleep(interval)
	used, took := cpu(t)-before, time.Since(began)
	mu.Lock()
	defer mu.Unlock()
	slices := make([]int, 11)
	for _, at := range dials {
		slices[min(10, int(at.Sub(began)/time.Second))]++
	}
	t.Logf("%.1f%% of a core; connections opened in each second: %v", 100*float64(used)/float64(took), slices[:10])
	if used > took/5 {
		t.Errorf("%v of CPU in %v", used, took)
	}
	for s, n := range slices[:10] {
		if n > 1500 { // 1000 are due
			t.Errorf("second %d: %d probes", s, n)
		}
	}
}
