package upstream

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/dataplane/certificate"
	"github.com/headgate/headgate/dataplane/snapshot"
)

// chooser is a server over TLS that agrees to the protocols it is set to.
type chooser struct {
	*httptest.Server
	protocols   atomic.Pointer[[]string]
	connections atomic.Int64
}

func newChooser(t testing.TB, k *keys, protocols ...string) *chooser {
	t.Helper()
	c := &chooser{Server: httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))}
	c.protocols.Store(&protocols)
	pair := k.Issue([]string{"127.0.0.1"}).TLS(t)
	c.EnableHTTP2, c.Config.ErrorLog = true, log.New(io.Discard, "", 0)
	c.TLS = &tls.Config{
		Certificates: []tls.Certificate{pair},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c.connections.Add(1)
			return &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: *c.protocols.Load()}, nil
		},
	}
	c.StartTLS()
	t.Cleanup(c.Close)
	return c
}

// either is an endpoint with which ALPN decides.
func either(t testing.TB, k *keys, c *chooser) *Endpoint {
	t.Helper()
	client := k.set.NewClient(certificate.ClientOptions{Roots: k.set.Bundle("ca"), Protocols: []string{"h2", "http/1.1"}})
	config := cluster("c", c.Listener.Addr().String())
	config.ALPN = true
	g := applySecure(t, start(t, Options{Shards: 2}), client, config)
	return g.Cluster(0).endpoints[0]
}

// spoken is the protocol that Connect came to; the way is given back.
func (e *Endpoint) spoken(t testing.TB, shard int) string {
	t.Helper()
	s, c, _, err := e.Connect(shard, nil, 0, false)
	switch {
	case err != nil:
		t.Fatal(err)
	case s != nil:
		s.Finish()
		return "h2"
	}
	c.Spare(shard)
	return "http/1.1"
}

// Each endpoint is spoken to as it agrees, over one connection where that will
// do, and otherwise when it changes its mind.
func TestALPNDecides(t *testing.T) {
	k := newKeys(t)
	for _, test := range []struct {
		protocols []string
		want      string
	}{
		{[]string{"h2", "http/1.1"}, "h2"}, {[]string{"http/1.1"}, "http/1.1"}, {[]string{"h2"}, "h2"}, {nil, "http/1.1"},
	} {
		c := newChooser(t, k, test.protocols...)
		e := either(t, k, c)
		for range 3 {
			if got := e.spoken(t, 0); got != test.want {
				t.Errorf("of %q: %s", test.protocols, got)
			}
		}
		if n := c.connections.Load(); n != 1 {
			t.Errorf("of %q: %d connections", test.protocols, n)
		}
	}
}

// An endpoint may change its mind with each connection.
func TestALPNChanges(t *testing.T) {
	k := newKeys(t)
	c := newChooser(t, k, "h2", "http/1.1")
	e := either(t, k, c)
	if got := e.spoken(t, 0); got != "h2" {
		t.Errorf("at first: %s", got)
	}
	c.protocols.Store(&[]string{"http/1.1"})
	if got := e.spoken(t, 1); got != "http/1.1" {
		t.Errorf("without HTTP/2: %s", got)
	}
	c.protocols.Store(&[]string{"h2", "http/1.1"})
	e.Idle(1).Discard()
	if got := e.spoken(t, 1); got != "h2" {
		t.Errorf("with HTTP/2 again: %s", got)
	}
	// A request that takes HTTP/1.1 gets it all the same.
	conn, err := e.DialHTTP1(nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Discard()
	if got := spokenOver(conn.Net()); got != "http/1.1" {
		t.Errorf("agreed on %q", got)
	}
}

// Requests that come at once find out together.
func TestALPNAtOnce(t *testing.T) {
	k := newKeys(t)
	for _, first := range []string{"h2", "http/1.1"} {
		e := either(t, k, newChooser(t, k, first))
		var all sync.WaitGroup
		var wrong atomic.Int64
		for range 50 {
			all.Go(func() {
				s, c, _, err := e.Connect(0, nil, 0, false)
				switch {
				case err != nil || (s != nil) != (first == "h2"):
					wrong.Add(1)
				case s != nil:
					s.Finish()
				default:
					c.Spare(0)
				}
			})
		}
		all.Wait()
		if n := wrong.Load(); n > 0 {
			t.Errorf("%d of 50 did not come to %s", n, first)
		}
	}
}

// A probe asks in the protocol that the endpoint agrees to.
func TestProbeByALPN(t *testing.T) {
	k := newKeys(t)
	for _, protocols := range [][]string{{"h2"}, {"http/1.1"}, {"h2", "http/1.1"}} {
		e := either(t, k, newChooser(t, k, protocols...))
		check := &snapshot.HealthCheck{Path: "/", ExpectedStatuses: []snapshot.StatusRange{{First: 200, Last: 299}}, Timeout: 20 * time.Second}
		if ok, result := e.group.registry.ask(e, check); !ok {
			t.Errorf("of %q: %s", protocols, result)
		}
	}
}
