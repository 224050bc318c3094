package certificate

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/dataplane/certificate/acme"
	"github.com/headgate/headgate/dataplane/certificate/acme/pebble"
	"github.com/headgate/headgate/dataplane/certificate/testca"
)

// shop is a certificate that an authority gives to the TLS listener of a test.
func shop(p *pebble.Server) Source {
	return Source{Name: "shop", ACME: &ACME{
		Domains: []string{"shop.example"}, Directory: p.Directory, Bundle: "authority", Used: true, ALPN: true,
	}}
}

// A certificate is renewed when its time has come, over a listener that asks
// clients for certificates, and whoever is connected stays.
func TestRenewal(t *testing.T) {
	ca, c, events := testca.New(t, "clients"), &clock{now: time.Now()}, make(heard, 10)
	store := open(t, Options{Issued: t.TempDir(), Events: func(e Event) { events <- e }, Now: c.read})
	var server atomic.Pointer[Server]
	address := servingBy(t, func() *tls.Config { return server.Load().Config() })
	_, port, _ := net.SplitHostPort(address)
	p := pebble.Start(t, pebble.Options{TLSPort: number(t, port), HTTPPort: 1})
	roots := []BundleSource{{Name: "authority", Text: Text{PEM: p.RootPEM}}, inlineRoots("clients", ca)}
	set, faults := store.Prepare([]Source{shop(p)}, roots)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	server.Store(set.NewServer(ServerOptions{Certificates: []*Certificate{set.Certificate("shop")}, Clients: set.Bundle("clients")}))
	store.Commit(set)
	obtained := func() *tls.Certificate {
		t.Helper()
		for {
			if e := events.next(t); e.Obtained {
				if !e.Healthy || !e.Expires.Equal(set.Certificate("shop").Current().Leaf.NotAfter) {
					t.Errorf("%+v", e)
				}
				return set.Certificate("shop").Current()
			}
		}
	}
	first := obtained()

	me := ca.Issue([]string{"me"}).TLS(t)
	config := &tls.Config{RootCAs: p.Roots(), ServerName: "shop.example", Certificates: []tls.Certificate{me}}
	early, err := tls.Dial("tcp", address, config)
	if err != nil {
		t.Fatal(err)
	}
	defer early.Close()
	store.Reload()
	if n := p.Asked(); n != 1 {
		t.Errorf("%d orders before the time has come", n)
	}
	c.pass(60*24*time.Hour + time.Hour)
	store.Reload()
	second := obtained()
	if first.Leaf.Equal(second.Leaf) || p.Issued() != 2 {
		t.Errorf("%d were issued", p.Issued())
	}
	if err := echo(early); err != nil {
		t.Errorf("who was connected: %v", err)
	}
	if kept, err := store.kept.LoadCertificate(set.Certificate("shop").issued.name); err != nil || !kept.Leaf.Equal(second.Leaf) {
		t.Errorf("the new one is not kept: %v", err)
	}
	// Nobody wants it any more, so nobody renews it.
	commit(t, store, nil, roots)
	c.pass(365 * 24 * time.Hour)
	store.Reload()
	if n := p.Asked(); n != 2 {
		t.Errorf("%d orders for what is gone", n)
	}
}

// A renewal that fails leaves the certificate in use, and is said.
func TestRenewalFails(t *testing.T) {
	ca, c, events := testca.New(t, "authority"), &clock{now: time.Now()}, make(heard, 10)
	dir := t.TempDir()
	a := &ACME{Domains: []string{"a.example"}, Directory: "https://127.0.0.1:1/dir", Used: true, ALPN: true}
	pair, name := ca.Issue([]string{"a.example"}, testca.Expires(c.read().Add(40*24*time.Hour))), acme.CertificateName(a.Directory, a.Domains)
	if err := acme.NewStorage(dir).SaveCertificate(name, []byte(pair.Cert), []byte(pair.Key)); err != nil {
		t.Fatal(err)
	}
	store := open(t, Options{Issued: dir, Events: func(e Event) { events <- e }, Now: c.read})
	set := commit(t, store, []Source{{Name: "a", ACME: a}}, nil)
	store.Reload()
	if len(events) > 0 {
		t.Fatalf("of a good one: %+v", <-events)
	}
	c.pass(30 * 24 * time.Hour)
	store.Reload()
	e := events.next(t)
	if e.Healthy || !strings.HasPrefix(e.Cause, "cannot be obtained from https://127.0.0.1:1/dir: ") || !strings.Contains(e.Cause, "the one from before is used") {
		t.Errorf("%+v", e)
	}
	if !set.Certificate("a").Current().Leaf.Equal(pair.TLS(t).Leaf) {
		t.Error("something else is used")
	}
	c.pass(11 * 24 * time.Hour)
	store.Reload()
	if e := events.next(t); e.Healthy || !strings.HasPrefix(e.Cause, "expired on ") || !strings.Contains(e.Cause, ", and cannot be obtained from ") {
		t.Errorf("%+v", e)
	}
}

// What nobody could answer for is not asked for, and asked for when somebody
// can; what nobody uses is not spoken of.
func TestUnanswerable(t *testing.T) {
	events := make(heard, 10)
	store := open(t, Options{Events: func(e Event) { events <- e }})
	source := func(used, alpn bool) []Source {
		return []Source{{Name: "a", ACME: &ACME{Domains: []string{"a.example"}, Directory: "https://127.0.0.1:1/dir", Used: used, ALPN: alpn}}}
	}
	commit(t, store, source(false, false), nil)
	store.Reload()
	if len(events) > 0 {
		t.Fatalf("of what nobody uses: %+v", <-events)
	}
	commit(t, store, source(true, false), nil)
	if e := events.next(t); e.Healthy || !strings.HasPrefix(e.Cause, "is being asked for at https://127.0.0.1:1/dir; until it is there, a stand-in") {
		t.Errorf("%+v", e)
	}
	if e := events.next(t); e.Healthy || !strings.Contains(e.Cause, acme.ErrNoChallenge.Error()) {
		t.Errorf("%+v", e)
	}
	commit(t, store, source(true, true), nil)
	if e := events.next(t); e.Healthy || !strings.Contains(e.Cause, "connection refused") {
		t.Errorf("%+v", e)
	}
	commit(t, store, source(false, false), nil)
	if e := events.next(t); !e.Healthy {
		t.Errorf("%+v", e)
	}
}

// An attempt ends with the store, and with the wish for it.
func TestAttemptEnds(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	reached := make(chan net.Conn, 10)
	go func() {
		for {
			c, err := silent.Accept()
			if err != nil {
				close(reached)
				return
			}
			reached <- c
		}
	}()
	defer func() {
		for c := range reached {
			_ = c.Close()
		}
	}()
	defer silent.Close()
	store := open(t, Options{})
	want := []Source{{Name: "a", ACME: &ACME{Domains: []string{"a.example"}, Directory: "https://" + silent.Addr().String(), Used: true, ALPN: true}}}
	for range 2 {
		commit(t, store, want, nil)
		c := <-reached
		commit(t, store, nil, nil)
		if _, err := c.Read(make([]byte, 4096)); err == nil {
			_, err = c.Read(make([]byte, 4096)) // after the client's hello
			if err == nil || errors.Is(err, net.ErrClosed) {
				t.Errorf("the attempt goes on: %v", err)
			}
		}
		_ = c.Close()
	}
	commit(t, store, want, nil)
	c := <-reached
	defer c.Close()
	store.Close() // hangs if the attempt does
}
