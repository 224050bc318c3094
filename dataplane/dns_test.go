package dataplane

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/upstream/resolve/dnstest"
)

// byName is a manifest with one cluster, whose endpoints are a port of a name.
func byName(name string, port int, more string) string {
	return fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0"}]
clusters:
  - name: c
    dns: {name: %s, port: %d, refresh: 100ms}
    %s
routes:
  - {name: c, forward: {backends: [{cluster: c}]}}
`, name, port, more)
}

func portOf(b *backend) int { return b.Addr().(*net.TCPAddr).Port }

// pair is two backends on one port of two addresses.
func pair(t *testing.T) (one, two *backend) {
	t.Helper()
	for range 20 {
		one = serve(t, "one")
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.2:%d", portOf(one)))
		if err != nil {
			continue
		}
		_ = l.Close()
		return one, serveAt(t, "two", l.Addr().String())
	}
	t.Fatal("no port is free on two addresses")
	return nil, nil
}

// degraded waits until what is said of the active snapshot is that, or nothing if
// cause is "".
func (g *gate) degraded(cause string) {
	g.t.Helper()
	until(g.t, "DEGRADED: "+cause, func() bool {
		list, _ := g.applier.Degradations()
		if cause == "" {
			return len(list) == 0
		}
		return len(list) == 1 && list[0].Resource.GetName() == "c" && strings.Contains(list[0].Reason, cause)
	})
}

// The A record changes; then DNS fails: requests go to the new address within the
// refresh interval, and the last good one is kept, without the loss of a request.
// It is kept when the data plane starts again while DNS is down, too.
func TestRecordsChangeAndDNSFails(t *testing.T) {
	one, two := pair(t)
	dns := dnstest.Serve(t)
	dns.Set("users.test. A", "users.test. 0 IN A 127.0.0.1")
	options := Options{StateDir: t.TempDir(), Resolvers: []string{dns.Address}}
	g := start(t, options)
	events := g.events.ReadNew()
	g.apply(byName("users.test", portOf(one), ""))
	c := dial(t, g.at("web"))
	if a := c.mustGet(t, "/"); a.header.Get("X-From") != "one" {
		t.Fatalf("%+v", a)
	}
	dns.Set("users.test. A", "users.test. 0 IN A 127.0.0.2")
	until(t, "the new address", func() bool {
		a := c.mustGet(t, "/")
		if a.status != 200 {
			t.Fatalf("%+v", a)
		}
		return a.header.Get("X-From") == "two"
	})
	e := await(t, events, func(e *controlv1.Event) bool { return e.GetDns() != nil }).GetDns()
	if !e.Healthy || e.Name != "users.test" || e.AddressCount != 1 || !strings.Contains(e.Cause, "gone: 127.0.0.1:") || e.NextLookup == nil {
		t.Errorf("%v", e)
	}
	until(t, "no connection to the old address", func() bool { return one.connections() == 0 })

	dns.Set("users.test. A") // there is no such name any more
	e = await(t, events, func(e *controlv1.Event) bool { return e.GetDns() != nil }).GetDns()
	if e.Healthy || e.AddressCount != 1 || !strings.Contains(e.Cause, "addresses") {
		t.Errorf("%v", e)
	}
	g.degraded("the last good addresses are kept (1)")
	if a := c.mustGet(t, "/"); a.header.Get("X-From") != "two" {
		t.Fatalf("%+v", a)
	}
	status := g.Status().Clusters[0]
	if len(status.Endpoints) != 1 || status.Endpoints[0].Address != two.address() || status.Dns.GetHealthy() || status.Dns.GetName() != "users.test" {
		t.Errorf("%v", status)
	}
	g.stop()

	again := start(t, options)
	if ok, err := again.Restore(t.Context()); !ok || err != nil {
		t.Fatalf("restored %v, %v", ok, err)
	}
	if a := dial(t, again.at("web")).mustGet(t, "/"); a.header.Get("X-From") != "two" {
		t.Errorf("after a restart: %+v", a)
	}
	again.degraded("the last good addresses are kept (1)")
	dns.Set("users.test. A", "users.test. 0 IN A 127.0.0.1")
	again.degraded("")
}

// A snapshot with a name that nobody knows becomes ACTIVE, and DEGRADED behind
// that; its cluster answers 503 with the reason until the name is known.
func TestNameUnknownAtFirst(t *testing.T) {
	b := serve(t, "b")
	dns := dnstest.Serve(t)
	g := start(t, Options{Control: "127.0.0.1:0", Resolvers: []string{dns.Address}})
	events := g.events.ReadNew()
	result := g.apply(byName("users.test", portOf(b), "circuitBreaker: {}"))
	c := dial(t, g.at("web"))
	a := c.mustGet(t, "/")
	if a.status != http.StatusServiceUnavailable || !strings.Contains(a.header.Get("Proxy-Status"), "dns_error") {
		t.Errorf("%+v", a)
	}
	var states []string
	e := await(t, events, func(e *controlv1.Event) bool {
		u := e.GetSnapshot().GetUpdate()
		if u != nil {
			states = append(states, strings.TrimPrefix(u.State.String(), "SNAPSHOT_STATE_"))
		}
		return u.GetState() == controlv1.SnapshotState_SNAPSHOT_STATE_DEGRADED
	})
	if got := strings.Join(states, " "); got != "RECEIVED VALIDATED ACTIVE DEGRADED" {
		t.Errorf("states %s", got)
	}
	if u := e.GetSnapshot().GetUpdate(); u.Snapshot.GetDigest() != result.Info.Digest || !strings.Contains(u.Degradations[0].Reason, "there is no such name (NXDOMAIN)") {
		t.Errorf("%v", u)
	}
	dns.Set("users.test. A", "users.test. 0 IN A 127.0.0.1")
	until(t, "the name is known", func() bool { return c.mustGet(t, "/").status == 200 })
	g.degraded("")
	if e := g.endpoint("c", b.address()); !e.HasCircuit || e.Requests == 0 {
		t.Errorf("%+v", e)
	}

	// A cluster that is listed from now on is not in trouble because of DNS.
	dns.Set("users.test. A")
	g.degraded("the last good addresses are kept (1)")
	g.apply(strings.Replace(byName("x", 1, ""), "dns: {name: x, port: 1, refresh: 100ms}", fmt.Sprintf("endpoints: [{address: %q}]", b.address()), 1))
	g.degraded("")
	if a := c.mustGet(t, "/"); a.status != 200 {
		t.Errorf("%+v", a)
	}
}

// Endpoints that DNS finds are counted by their addresses.
func TestMetricsOfFoundEndpoints(t *testing.T) {
	b := serve(t, "b")
	dns := dnstest.Serve(t)
	dns.Set("users.test. A", "users.test. 0 IN A 127.0.0.1")
	g := start(t, Options{Admin: "127.0.0.1:0", Resolvers: []string{dns.Address}})
	g.apply(byName("users.test", portOf(b), ""))
	dial(t, g.at("web")).mustGet(t, "/")
	text := scrape(t, g)
	for _, want := range []string{"headgate_upstream_active_requests{", "headgate_upstream_requests_total{"} {
		found := false
		for line := range strings.Lines(text) {
			found = found || strings.HasPrefix(line, want) && strings.Contains(line, b.address())
		}
		if !found {
			t.Errorf("no %s with %s in it", want, b.address())
		}
	}
}

func scrape(t *testing.T, g *gate) string {
	t.Helper()
	c := dial(t, g.AdminAddr())
	a := c.mustGet(t, "/metrics")
	if a.status != 200 {
		t.Fatalf("%+v", a)
	}
	return a.body
}
