package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/headgate/headgate/dataplane/upstream/resolve/dnstest"
)

// startCluster runs the data plane with one cluster, in a zone and with a DNS
// server if they are given.
func startCluster(t *testing.T, cluster string, more ...string) *proxy {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	s := setting{Address: ownAddress(t)}
	conf := s.write(t, "routes.yaml", `
listeners: [{name: web, address: "{{.Address}}"}]
clusters: [{name: app, `+cluster+`}]
routes: [{name: app, forward: {backends: [{cluster: app}]}}]
`)
	args := append([]string{"--config", conf, "--control", "", "--admin", "", "--state-dir", t.TempDir()}, more...)
	p := &proxy{spawn(t, exec.Command(path, args...)), s.Address}
	t.Cleanup(func() { p.drained(t) })
	return p
}

// answers are those of n requests, by backend. None may fail.
func (p *proxy) answers(t *testing.T, n int) map[string]int {
	t.Helper()
	l := &line{address: p.address}
	defer l.close()
	by := map[string]int{}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i := range n {
		a := l.ask(ctx, http.MethodGet, shortPath, fmt.Sprint(i))
		if a.fault != nil {
			t.Fatal(a.fault)
		}
		by[a.from]++
	}
	return by
}

// The endpoints of the node's own zone take its requests as long as they live.
func TestOwnZone(t *testing.T) {
	near, far := startBackend(t, "near"), startBackend(t, "far")
	p := startCluster(t, fmt.Sprintf("endpoints: [{address: '%s', zone: b}, {address: '%s', zone: a}], outlierDetection: {maxEjectionPercent: 100}", far.address, near.address), "--label", "zone=a")
	p.ready(t, false)
	if by := p.answers(t, 40); by["near"] != 40 {
		t.Errorf("answers by backend: %v", by)
	}
	near.process.end(syscall.SIGKILL)
	if by := p.answers(t, 40); by["far"] != 40 {
		t.Errorf("answers by backend, with none in the own zone: %v", by)
	}
}

// Connections are opened before there is a request.
func TestEarlyConnections(t *testing.T) {
	l, err := net.Listen("tcp", ownAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := startCluster(t, fmt.Sprintf("endpoints: [{address: '%s'}], earlyConnections: 3", l.Addr()))
	for range 3 {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	until(t, "an active snapshot", func() bool { return strings.Contains(p.said.String(), "state=ACTIVE") })
}

// Every address of a name is an endpoint. Those of a family that is not reached get
// no requests, and an address that goes gets none any more.
func TestNamedCluster(t *testing.T) {
	one := startBackend(t, "one")
	_, port, err := net.SplitHostPort(one.address)
	if err != nil {
		t.Fatal(err)
	}
	other, _, _ := net.SplitHostPort(ownAddress(t))
	two := &backend{t: t, name: "two", address: net.JoinHostPort(other, port), orders: one.orders}
	two.start()
	first, _, _ := net.SplitHostPort(one.address)
	server := dnstest.Serve(t)
	server.Set("app.test. A", "app.test. 1 IN A "+first, "app.test. 1 IN A "+other)
	server.Set("app.test. AAAA", "app.test. 1 IN AAAA 100::1") // RFC 6666: nobody is there

	p := startCluster(t, fmt.Sprintf("dns: {name: app.test, port: %s, refresh: 1s}", port), "--resolver", server.Address)
	p.ready(t, false)
	if by := p.answers(t, 40); by["one"] != 20 || by["two"] != 20 {
		t.Errorf("answers by backend: %v", by)
	}
	server.Set("app.test. A", "app.test. 1 IN A "+other)
	until(t, "requests for the address that is left alone", func() bool { return p.answers(t, 2)["two"] == 2 })
}
