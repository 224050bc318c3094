package upstream

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// cluster is a configuration with the defaults of the language. An endpoint is
// an address, or an address and a weight: "127.0.0.1:1 3".
func cluster(name string, endpoints ...string) *snapshot.Cluster {
	c := &snapshot.Cluster{
		Name:               name,
		Identity:           name + strings.Join(endpoints, ","),
		MaxConnections:     1024,
		MaxPendingRequests: 1024,
		ConnectTimeout:     3 * time.Second,
		KeepAliveTimeout:   time.Minute,
		PanicThreshold:     50,
		Outlier:            &snapshot.Outlier{ConsecutiveFailures: 5, EjectionTime: 30 * time.Second, MaxEjectionPercent: 50},
	}
	for _, text := range endpoints {
		e := snapshot.Endpoint{Weight: 1}
		_, _ = fmt.Sscanf(text, "%s %d", &e.Address, &e.Weight)
		c.Endpoints = append(c.Endpoints, e)
	}
	return c
}

// checked adds a health check, and another identity with it.
func checked(c *snapshot.Cluster) *snapshot.Cluster {
	c.Identity += " checked"
	c.HealthCheck = &snapshot.HealthCheck{
		Path:             "/healthz",
		ExpectedStatuses: []snapshot.StatusRange{{First: 200, Last: 299}},
		Interval:         5 * time.Second, Timeout: 2 * time.Second,
		HealthyThreshold: 1, UnhealthyThreshold: 2,
	}
	return c
}

// start is a registry that ends with the test.
func start(t testing.TB, o Options) *Registry {
	t.Helper()
	r := NewRegistry(o)
	t.Cleanup(r.Close)
	return r
}

// apply prepares, warms and commits.
func apply(t testing.TB, r *Registry, clusters ...*snapshot.Cluster) *Generation {
	t.Helper()
	g := r.Prepare(clusters)
	if err := g.Warm(context.Background()); err != nil {
		t.Fatal(err)
	}
	r.Commit(g)
	return g
}

// only is the single cluster of a registry that was just given it.
func only(t testing.TB, o Options, c *snapshot.Cluster) *Cluster {
	t.Helper()
	return apply(t, start(t, o), c).Cluster(0)
}

// server is a backend whose answer can be changed.
type server struct {
	*httptest.Server
	status atomic.Int64
	asked  atomic.Int64
}

func serve(t testing.TB) *server {
	t.Helper()
	s := &server{}
	s.status.Store(200)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		w.WriteHeader(int(s.status.Load()))
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) address() string { return s.Listener.Addr().String() }

// accepting is the address of a listener that holds whatever connects.
func accepting(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var held []net.Conn
		defer func() {
			for _, c := range held {
				_ = c.Close()
			}
		}()
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			held = append(held, c)
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
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

// events collects events and lets a test wait for them.
type events chan Event

func (v events) add(e Event) { v <- e }

// next waits for an event and checks its kind.
func (v events) next(t testing.TB, kind Kind) Event {
	t.Helper()
	select {
	case e := <-v:
		if e.Kind != kind {
			t.Fatalf("event %v, want %v: %+v", e.Kind, kind, e)
		}
		return e
	case <-time.After(20 * time.Second):
		t.Fatalf("no event, want %v", kind)
	}
	panic("unreachable")
}

// picks counts n picks by address.
func picks(t testing.TB, c *Cluster, n int) map[string]int {
	t.Helper()
	counts := make(map[string]int)
	for range n {
		e, why := c.Pick(nil)
		if why != 0 {
			t.Fatalf("no endpoint: %v", why)
		}
		counts[e.Address()]++
	}
	return counts
}
