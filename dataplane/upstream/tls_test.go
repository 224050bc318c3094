package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/headgate/headgate/dataplane/certificate"
	"github.com/headgate/headgate/dataplane/certificate/testca"
	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/socket"
	"github.com/headgate/headgate/dataplane/upstream/pool"
)

// keys are an authority that is also a bundle, "ca", and certificates by name.
type keys struct {
	*testca.CA
	store   *certificate.Store
	set     *certificate.Set
	sources []certificate.Source
}

func newKeys(t testing.TB) *keys {
	t.Helper()
	k := &keys{CA: testca.New(t, "authority"), store: certificate.NewStore(certificate.Options{})}
	t.Cleanup(k.store.Close)
	k.commit(t)
	return k
}

func (k *keys) commit(t testing.TB) {
	t.Helper()
	set, faults := k.store.Prepare(k.sources, []certificate.BundleSource{{Name: "ca", Text: certificate.Text{PEM: k.PEM}}})
	for _, f := range faults {
		t.Fatal(f)
	}
	k.store.Commit(set)
	k.set = set
}

// client trusts the authority.
func (k *keys) client(name string) *certificate.Client {
	return k.set.NewClient(certificate.ClientOptions{ServerName: name, Roots: k.set.Bundle("ca"), Protocols: []string{"http/1.1"}})
}

// serveTLS is serve over TLS for a name.
func (k *keys) serveTLS(t testing.TB, names ...string) *server {
	t.Helper()
	plain := serve(t)
	s := &server{Server: httptest.NewUnstartedServer(plain.Config.Handler)}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{k.Issue(names).TLS(t)}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// applySecure is apply where every cluster is spoken to over TLS.
func applySecure(t testing.TB, r *Registry, client *certificate.Client, clusters ...*snapshot.Cluster) *Generation {
	t.Helper()
	g := r.PrepareSecure(clusters, func(*snapshot.Cluster) *certificate.Client { return client })
	if err := g.Warm(context.Background()); err != nil {
		t.Fatal(err)
	}
	r.Commit(g)
	return g
}

func TestDialTLS(t *testing.T) {
	k := newKeys(t)
	s := k.serveTLS(t, "a.example", "127.0.0.1")
	for name, want := range map[string]certificate.Fault{"a.example": certificate.NoFault, "": certificate.NoFault, "b.example": certificate.BadCertificate} {
		c := applySecure(t, start(t, Options{}), k.client(name), cluster("c", s.address())).Cluster(0)
		conn, err := c.endpoints[0].Dial(0)
		var refused *ConnectError
		switch {
		case want == certificate.NoFault && err != nil:
			t.Errorf("%q: %v", name, err)
		case want != certificate.NoFault && (!errors.As(err, &refused) || refused.TLS() != want):
			t.Errorf("%q: %v", name, err)
		}
		if conn != nil {
			if over, ok := conn.Net().(*tls.Conn); !ok || over.ConnectionState().NegotiatedProtocol != "http/1.1" {
				t.Errorf("%q: not over TLS, or without ALPN", name)
			}
			conn.Discard()
		}
		if _, open := c.endpoints[0].pool.Counts(); open != 0 {
			t.Errorf("%q: %d connections are left", name, open)
		}
	}
}

// The connect timeout is that of TCP and TLS together.
func TestDialTLSTimeout(t *testing.T) {
	k := newKeys(t)
	config := cluster("c", accepting(t))
	config.ConnectTimeout = 20 * time.Millisecond
	c := applySecure(t, start(t, Options{}), k.client("a.example"), config).Cluster(0)
	if _, err := c.endpoints[0].Dial(0); err != ErrConnectTimeout {
		t.Fatalf("error %v", err)
	}
	if _, err := c.endpoints[0].Dial(socket.Now() + 1); err != ErrConnectTimeout {
		t.Fatalf("error %v", err)
	}
}

// An endpoint is the same as long as it is spoken to in the same way.
func TestApplyKeepsEndpointsByTLS(t *testing.T) {
	k := newKeys(t)
	s := k.serveTLS(t, "a.example", "b.example")
	r := start(t, Options{})
	config := cluster("c", s.address())
	first := applySecure(t, r, k.client("a.example"), config).Cluster(0)
	conn, err := first.endpoints[0].Dial(0)
	must(t, err)
	conn.Release(0)

	if again := applySecure(t, r, k.client("a.example"), config).Cluster(0); again != first {
		t.Error("equal TLS makes another cluster")
	}
	limited := *config
	limited.Identity, limited.MaxRequests = "limited", 5
	second := applySecure(t, r, k.client("a.example"), &limited).Cluster(0)
	if second.endpoints[0] != first.endpoints[0] || second.secure != first.secure || second.endpoints[0].Idle(0) != conn {
		t.Error("equal TLS makes another endpoint")
	}
	conn.Release(0)
	third := applySecure(t, r, k.client("b.example"), &limited).Cluster(0)
	if third.endpoints[0] == first.endpoints[0] || third.endpoints[0].Idle(0) != nil {
		t.Error("other TLS, and the same endpoint")
	}
	if _, open := first.endpoints[0].pool.Counts(); open != 0 {
		t.Error("a connection is left that cannot be used again")
	}
	clear := apply(t, r, &limited).Cluster(0)
	if clear.endpoints[0] == third.endpoints[0] || clear.endpoints[0].secure != nil {
		t.Error("clear text, and the endpoint of TLS")
	}
}

// Connections that were verified by what counts no more are not used again, nor
// given to who waits for one.
func TestOutdatedConnections(t *testing.T) {
	k := newKeys(t)
	roots := t.TempDir() + "/ca.pem"
	write := func(text string) { must(t, os.WriteFile(roots, []byte(text), 0o600)) }
	write(k.PEM)
	set, faults := k.store.Prepare(nil, []certificate.BundleSource{{Name: "file", Text: certificate.Text{File: roots}}})
	if len(faults) > 0 {
		t.Fatal(faults[0])
	}
	k.store.Commit(set)
	client := set.NewClient(certificate.ClientOptions{ServerName: "a.example", Roots: set.Bundle("file")})
	config := cluster("c", k.serveTLS(t, "a.example").address())
	config.MaxConnections, config.MaxPendingRequests = 1, 1
	e := applySecure(t, start(t, Options{}), client, config).Cluster(0).endpoints[0]
	old, err := e.Dial(0)
	must(t, err)
	old.Release(0)
	if e.Idle(0) != old {
		t.Fatal("it is not used again")
	}
	type result struct {
		conn *pool.Conn
		err  error
	}
	waited := make(chan result)
	go func() {
		conn, err := e.Dial(0)
		waited <- result{conn, err}
	}()
	for _, waiting := e.group.connections.Counts(); waiting == 0; _, waiting = e.group.connections.Counts() {
	}
	write(k.PEM + testca.New(t, "other").PEM)
	k.store.Reload()
	old.Release(0)
	fresh := <-waited
	must(t, fresh.err)
	if fresh.conn == old || fresh.conn.Reused {
		t.Error("who waited got the old one")
	}
	fresh.conn.Release(0)
	write(k.PEM)
	k.store.Reload()
	if e.Idle(0) != nil {
		t.Error("an outdated one is idle")
	}
	if _, open := e.pool.Counts(); open != 0 {
		t.Errorf("%d connections are left", open)
	}
}

// What a server sends behind its answer, and TLS has read ahead, is no answer to
// the next request.
func TestLeftoverBytesOverTLS(t *testing.T) {
	k := newKeys(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	config := &tls.Config{Certificates: []tls.Certificate{k.Issue([]string{"a.example"}).TLS(t)}, SessionTicketsDisabled: true}
	sent := make(chan error, 1)
	go func() {
		raw, err := l.Accept()
		if err != nil {
			sent <- err
			return
		}
		defer raw.Close()
		far := tls.Server(&gathering{Conn: raw}, config)
		err = far.Handshake()
		for _, text := range []string{"an answer", "another"} {
			_, e := io.WriteString(far, text)
			err = errors.Join(err, e)
		}
		far.NetConn().(*gathering).flush()
		sent <- err
		_, _ = io.Copy(io.Discard, far)
	}()
	e := applySecure(t, start(t, Options{}), k.client("a.example"), cluster("c", l.Addr().String())).Cluster(0).endpoints[0]
	conn, err := e.Dial(0)
	must(t, err)
	must(t, <-sent)
	must(t, conn.Fill(0, 0))
	if string(conn.Buffered()) != "an answer" {
		t.Fatalf("%q", conn.Buffered())
	}
	conn.Consume(len(conn.Buffered()))
	conn.Release(0)
	if e.Idle(0) != nil {
		t.Error("the connection is used again, with bytes on it")
	}
}

// gathering keeps short writes back until they are flushed: what TLS makes of
// two lines leaves in one piece.
type gathering struct {
	net.Conn
	kept []byte
}

func (g *gathering) Write(p []byte) (int, error) {
	if len(p) > 64 { // the handshake
		return g.Conn.Write(p)
	}
	g.kept = append(g.kept, p...)
	return len(p), nil
}

func (g *gathering) flush() { _, _ = g.Conn.Write(g.kept) }

// Probes of each kind are made over TLS, and say what it failed of.
func TestProbesOverTLS(t *testing.T) {
	k := newKeys(t)
	web := k.serveTLS(t, "a.example")
	calls, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	rpc := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{k.Issue([]string{"a.example"}).TLS(t)}})))
	grpc_health_v1.RegisterHealthServer(rpc, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- rpc.Serve(calls) }()
	defer func() { rpc.Stop(); must(t, <-served) }()
	for _, test := range []struct {
		name, address, server string
		probe                 snapshot.Probe
		healthy               bool
	}{
		{"HTTP", web.address(), "a.example", snapshot.ProbeHTTP, true},
		{"TCP", web.address(), "a.example", snapshot.ProbeTCP, true},
		{"gRPC", calls.Addr().String(), "a.example", snapshot.ProbeGRPC, true},
		{"HTTP, other name", web.address(), "b.example", snapshot.ProbeHTTP, false},
		{"TCP, other name", web.address(), "b.example", snapshot.ProbeTCP, false},
		{"gRPC, other name", calls.Addr().String(), "b.example", snapshot.ProbeGRPC, false},
		{"TCP, no TLS", serve(t).address(), "a.example", snapshot.ProbeTCP, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			heard := make(events, 10)
			config := checked(cluster("c", test.address))
			config.HealthCheck.Probe, config.HealthCheck.UnhealthyThreshold = test.probe, 1
			r := start(t, Options{Events: heard.add})
			applySecure(t, r, k.client(test.server), config)
			e := heard.next(t, HealthChanged)
			if (e.To == StateHealthy) != test.healthy || !test.healthy && !strings.Contains(e.Cause, "TLS ") {
				t.Errorf("%v: %s", e.To, e.Cause)
			}
		})
	}
}
