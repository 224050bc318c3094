package upstream

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/upstream/health"
)

func TestFirstProbeDecides(t *testing.T) {
	live, dead := serve(t), refusing(t)
	seen := make(events, 10)
	c := only(t, Options{Events: seen.add}, checked(cluster("c", live.address(), dead)))

	// Warm has waited for both probes, so nobody is ever sent to the dead one.
	if n := picks(t, c, 10); n[live.address()] != 10 {
		t.Fatalf("picks: %v", n)
	}
	for range 2 {
		e := seen.next(t, HealthChanged)
		want, evidence := "1 active probe passed: status 200", "GET /healthz: status 200 in "
		if e.Endpoint == dead {
			want, evidence = "1 active probe failed: connection refused", "GET /healthz: connection refused in "
		}
		if e.Cluster != "c" || e.From != StateUnknown || e.Cause != want || !strings.HasPrefix(e.Evidence, evidence) {
			t.Errorf("event %+v", e)
		}
		if !e.NextProbe.After(e.At) {
			t.Errorf("next probe at %v, event at %v", e.NextProbe, e.At)
		}
	}
}

// timed runs a test on a made network in made time, with a registry that probes
// a (healthy) and b each five seconds.
func timed(t *testing.T, test func(t *testing.T, n *network, r *Registry, seen events)) {
	synctest.Test(t, func(t *testing.T) {
		n, seen := newNetwork(), make(events, 1000)
		r := NewRegistry(Options{Dial: n.dial, Events: seen.add})
		defer r.Close()
		n.set("a:1", okay)
		n.set("b:1", okay)
		test(t, n, r, seen)
	})
}

func TestHealthFollowsProbes(t *testing.T) {
	timed(t, func(t *testing.T, n *network, r *Registry, seen events) {
		apply(t, r, checked(cluster("c", "a:1", "b:1")))
		seen.all()
		for _, step := range []struct {
			answer string
			rounds int
			want   []string
		}{
			{broken, 1, nil},
			{broken, 1, []string{"b:1 health changed healthy->unhealthy: 2 active probes failed: status 500"}},
			{okay, 1, []string{"b:1 health changed unhealthy->healthy: 1 active probe passed: status 200"}},
			{"", 2, []string{"b:1 health changed healthy->unhealthy: 2 active probes failed: connection refused"}},
			{"HTTP/1.1 204 No Content\r\n\r\n", 1, []string{"b:1 health changed unhealthy->healthy: 1 active probe passed: status 204"}},
			{"hang", 2, []string{"b:1 health changed healthy->unhealthy: 2 active probes failed: timeout after 2s"}},
			{"hang", 3, nil},
			{"HTTP/1.1 103 Early Hints\r\n\r\n" + okay, 1, []string{"b:1 health changed unhealthy->healthy: 1 active probe passed: status 200"}},
			{"HTTP/1.1 301 Moved\r\nLocation: http://a:1/\r\nContent-Length: 0\r\n\r\n", 2, []string{"b:1 health changed healthy->unhealthy: 2 active probes failed: status 301"}},
		} {
			n.set("b:1", step.answer)
			for end := n.count("b:1") + step.rounds; n.count("b:1") < end; {
				time.Sleep(100 * time.Millisecond) // of made time
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if diff := cmp.Diff(step.want, seen.told()); diff != "" {
				t.Fatalf("answer %.30q: %s", step.answer, diff)
			}
		}
	})
}

func TestProbeAsksAsConfigured(t *testing.T) {
	timed(t, func(t *testing.T, n *network, r *Registry, _ events) {
		config := checked(cluster("c", "a:1"))
		apply(t, r, config)
		synctest.Wait()
		if want := "GET /healthz a:1 headgate-health"; n.last != want {
			t.Errorf("asked %q, want %q", n.last, want)
		}
		named := *config.HealthCheck
		named.Host, named.Path = "users.example", "/live?deep=1"
		changed := *config
		changed.HealthCheck, changed.Identity = &named, "named"
		apply(t, r, &changed)
		synctest.Wait()
		if want := "GET /live?deep=1 users.example headgate-health"; n.last != want {
			t.Errorf("asked %q, want %q", n.last, want)
		}
	})
}

// Endpoints that are configured together are probed together once, and then at
// all times of the interval, from the first interval on.
func TestProbesAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		r := NewRegistry(Options{Dial: n.dial})
		defer r.Close()
		var addresses []string
		for i := range 1000 {
			addresses = append(addresses, fmt.Sprintf("s%d:1", i))
			n.set(addresses[i], okay)
		}
		apply(t, r, checked(cluster("c", addresses...)))
		time.Sleep(30 * time.Second)
		n.mu.Lock()
		defer n.mu.Unlock()
		seconds := map[int]int{}
		for _, times := range n.times {
			for _, at := range times[1:] {
				seconds[int(at/time.Second)]++
			}
		}
		for s := 1; s < 29; s++ { // 200 are due in each
			if seconds[s] < 60 || seconds[s] > 300 {
				t.Errorf("second %d: %d probes", s, seconds[s])
			}
		}
	})
}

func TestProbesKeepTheirInterval(t *testing.T) {
	timed(t, func(t *testing.T, n *network, r *Registry, _ events) {
		n.set("b:1", "hang") // the interval runs from start to start
		apply(t, r, checked(cluster("c", "a:1", "b:1")))
		time.Sleep(10 * time.Minute)
		n.mu.Lock()
		defer n.mu.Unlock()
		for address, times := range n.times {
			if len(times) < 109 || times[0] != 0 {
				t.Errorf("%s: %d probes, the first after %v", address, len(times), times[0])
			}
			distinct := map[time.Duration]bool{}
			for i := range times[1:] {
				wait := times[i+1] - times[i]
				least := 4500*time.Millisecond - health.Tick
				if i == 0 { // the second probe may come at any time
					least = 500 * time.Millisecond
				}
				if wait < least || wait > 5500*time.Millisecond {
					t.Errorf("%s: %v between probes", address, wait)
				}
				distinct[wait] = true
			}
			if len(distinct) < 15 { // of 21 ticks
				t.Errorf("%s: no jitter: %d intervals", address, len(distinct))
			}
		}
	})
}

// However many endpoints there are, so many probes run and no more.
func TestProbesAreBounded(t *testing.T) {
	timed(t, func(t *testing.T, n *network, r *Registry, _ events) {
		config := checked(cluster("c"))
		for i := range 5 * probeWorkers {
			address := fmt.Sprintf("s%d:1", i)
			n.set(address, "hang")
			config.Endpoints = append(config.Endpoints, snapshot.Endpoint{Address: address, Weight: 1})
		}
		g := r.Prepare([]*snapshot.Cluster{config})
		began := time.Now()
		must(t, g.Warm(context.Background()))
		if waited := time.Since(began); waited != config.HealthCheck.Timeout {
			t.Errorf("Warm took %v", waited)
		}
		r.Commit(g)
		time.Sleep(10*time.Second + 100*time.Millisecond)
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.most != probeWorkers {
			t.Errorf("%d probes at one time", n.most)
		}
		for address := range n.answers {
			if strings.HasPrefix(address, "s") && n.asked[address] == 0 {
				t.Fatalf("%s was not probed in five timeouts", address)
			}
		}
	})
}

func TestWarmIsBoundedByItsContext(t *testing.T) {
	timed(t, func(t *testing.T, n *network, r *Registry, _ events) {
		n.set("a:1", "hang")
		g := r.Prepare([]*snapshot.Cluster{checked(cluster("c", "a:1"))})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := g.Warm(ctx); err != context.DeadlineExceeded {
			t.Errorf("Warm: %v", err)
		}
		r.Abort(g)
	})
}

func TestProbeBodies(t *testing.T) {
	for _, test := range []struct {
		name, answer, want string
	}{
		{"until close", "HTTP/1.0 200 OK\r\n\r\nbody, then cut", "1 active probe passed: status 200"},
		{"cut short", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ncut", "1 active probe failed: status 200, then the body was cut short: unexpected EOF"},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "1 active probe passed: status 200"},
		{"endless", "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", 3*maxProbeBody), "1 active probe passed: status 200"},
		{"endless head", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", maxProbeHead), "1 active probe failed: the head is too long"},
		{"nothing", "cut", `1 active probe failed: malformed HTTP response "cut"`},
		{"not HTTP", "SSH-2.0-OpenSSH\r\n" + strings.Repeat("x", 100), `1 active probe failed: malformed HTTP response "SSH-2.0-OpenSSH"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			timed(t, func(t *testing.T, n *network, r *Registry, seen events) {
				n.set("a:1", test.answer)
				apply(t, r, checked(cluster("c", "a:1")))
				synctest.Wait()
				list := seen.all()
				if len(list) != 1 || list[0].Cause != test.want {
					t.Fatalf("events %+v", list)
				}
			})
		})
	}
}

func TestProbeOverUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	must(t, err)
	hosts := make(chan string, 10)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { hosts <- r.Host }))
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	seen := make(events, 10)
	c := only(t, Options{Events: seen.add}, checked(cluster("c", "unix:"+path)))
	if e := seen.next(t, HealthChanged); e.To != StateHealthy || <-hosts != "localhost" {
		t.Fatalf("event %+v", e)
	}
	conn, err := c.endpoints[0].Dial(0)
	must(t, err)
	conn.Discard()
}
