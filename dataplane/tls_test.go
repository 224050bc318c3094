package dataplane

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/certificate"
	"github.com/headgate/headgate/dataplane/certificate/testca"
	"github.com/headgate/headgate/dataplane/control"
)

// Every kind of listener to every kind of upstream: TCP and unix sockets, in
// clear and over TLS.
func TestTLSOnEitherSide(t *testing.T) {
	k, dir := newKeyring(t), short(t)
	k.issue("site", "site.example", "127.0.0.1")
	pair := k.Issue([]string{"up.example", "127.0.0.1"}).TLS(t)
	over := func() *tls.Config { return &tls.Config{Certificates: []tls.Certificate{pair}} }
	g := start(t, Options{Folder: k.folder})
	g.apply(fmt.Sprintf(`
listeners:
- {name: tcp, address: "127.0.0.1:0"}
- {name: tcp-tls, address: "127.0.0.1:0", tls: {certificates: [site]}}
- {name: unix, address: "unix:%[1]s/a"}
- {name: unix-tls, address: "unix:%[1]s/b", tls: {certificates: [site]}}
certificates: [{name: site, certificateFile: site.crt, privateKeyFile: site.key}]
caBundles: [{name: ca, file: ca.pem}]
clusters:
- {name: tcp, endpoints: [{address: "%[2]s"}]}
- {name: tcp-tls, endpoints: [{address: "%[3]s"}], tls: {caBundle: ca}}
- {name: unix, endpoints: [{address: "%[4]s"}]}
- {name: unix-tls, endpoints: [{address: "%[5]s"}], tls: {caBundle: ca, serverName: up.example}}
routes:
- {name: tcp, matches: [{path: {prefix: /tcp}}], forward: {backends: [{cluster: tcp}]}}
- {name: tcp-tls, matches: [{path: {prefix: /tcp-tls}}], forward: {backends: [{cluster: tcp-tls}]}}
- {name: unix, matches: [{path: {prefix: /unix}}], forward: {backends: [{cluster: unix}]}}
- {name: unix-tls, matches: [{path: {prefix: /unix-tls}}], forward: {backends: [{cluster: unix-tls}]}}
- {name: home, matches: [{path: {prefix: /home}}], redirect: {host: new.example}}
`, dir,
		serveSite(t, "tcp", "127.0.0.1:0", nil).address(), serveSite(t, "tcp", "127.0.0.1:0", over()).address(),
		serveSite(t, "unix", filepath.Join(dir, "c"), nil).address(), serveSite(t, "unix", filepath.Join(dir, "d"), over()).address()))
	large := strings.Repeat("headgate", 64<<10)
	for _, name := range []string{"tcp", "tcp-tls", "unix", "unix-tls"} {
		proto, connect := "http", func() *client { return dial(t, g.at(name)) }
		if strings.HasSuffix(name, "-tls") {
			proto, connect = "https", func() *client { return k.mustSecure(g.at(name)) }
		}
		c := connect()
		for _, to := range []string{"/tcp", "/tcp-tls", "/unix", "/unix-tls"} {
			a := c.mustGet(t, to)
			if a.status != 200 || a.body != "site" || a.header.Get("X-Proto") != proto {
				t.Errorf("%s to %s: %+v", name, to, a)
			}
			if err := c.send(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", to, len(large), large)); err != nil {
				t.Fatal(err)
			}
			if a, err := c.receive(); err != nil || a.body != large+"site" {
				t.Errorf("%s to %s: %d bytes came back, %v", name, to, len(a.body), err)
			}
		}
		if a := c.mustGet(t, "/home"); a.header.Get("Location") != proto+"://new.example/home" {
			t.Errorf("%s: redirected to %s", name, a.header.Get("Location"))
		}
		over := dial(t, g.at(name)).Conn
		if proto == "https" {
			over = k.mustSecure(g.at(name), func(c *tls.Config) { c.NextProtos = []string{"h2"} }).Conn
		}
		client := streamsOver(t, over)
		for _, to := range []string{"/tcp", "/tcp-tls", "/unix", "/unix-tls"} {
			if a := getOver(t, client, proto, to); a.status != 200 || a.body != "site" || a.header.Get("X-Proto") != proto {
				t.Errorf("%s to %s over HTTP/2: %+v", name, to, a)
			}
		}
	}
}

// streamsOver is a client of HTTP/2 by net/http over a connection that is there.
func streamsOver(t *testing.T, c net.Conn) *http.Transport {
	t.Helper()
	there := func(context.Context, string, string) (net.Conn, error) { return c, nil }
	client := &http.Transport{DialContext: there, DialTLSContext: there, Protocols: new(http.Protocols)}
	client.Protocols.SetHTTP2(true)
	client.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func getOver(t *testing.T, client *http.Transport, scheme, path string) answer {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, scheme+"://site.example"+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.ProtoMajor != 2 {
		t.Errorf("%s, %v", resp.Proto, err)
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: string(body)}
}

// secured is a manifest of one listener over TLS, whose every request is
// answered.
const secured = `
listeners: [{name: web, address: "127.0.0.1:0", tls: {certificates: [site]}}]
certificates: [{name: site, certificateFile: site.crt, privateKeyFile: site.key}]
routes: [{name: all, respond: {body: here}}]
`

// A new certificate is shown to those who come, and those who are there are not
// disturbed.
func TestCertificateReload(t *testing.T) {
	k := newKeyring(t)
	k.issue("site", "site.example")
	g := start(t, Options{Folder: k.folder})
	g.apply(secured)
	at := g.at("web")
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var busy, ready sync.WaitGroup
	faults := make(chan error, 50)
	for range 50 {
		c := k.mustSecure(at)
		ready.Add(1)
		busy.Go(func() {
			once := sync.OnceFunc(ready.Done)
			defer once()
			for ctx.Err() == nil {
				if a, err := c.get("/"); err != nil || a.body != "here" {
					faults <- errors.Join(err, errors.New("got "+a.body))
					return
				}
				once()
			}
		})
	}
	ready.Wait()
	fresh := k.issue("site", "site.example").TLS(t).Leaf
	until(t, "the new certificate is shown", func() bool {
		c := k.mustSecure(at)
		defer c.Close()
		return c.state().PeerCertificates[0].Equal(fresh)
	})
	// The same by HUP, which does not return before it is so.
	again := k.issue("site", "site.example").TLS(t).Leaf
	if err := g.Reopen(); err != nil {
		t.Fatal(err)
	}
	if c := k.mustSecure(at); !c.state().PeerCertificates[0].Equal(again) {
		t.Error("the certificate is the old one after a HUP")
	}
	stop()
	busy.Wait()
	close(faults)
	for err := range faults {
		t.Error(err)
	}
}

// A certificate that was broken is said to be, and the last good one is shown.
func TestBrokenCertificateDegrades(t *testing.T) {
	k := newKeyring(t)
	good := k.issue("site", "site.example")
	g := start(t, Options{Folder: k.folder})
	events := g.events.ReadNew()
	g.apply(secured)
	k.put("site.crt", "junk")
	e := await(t, events, func(e *controlv1.Event) bool { return e.GetCertificate() != nil }).GetCertificate()
	if e.Healthy || e.Certificate != "site" || !strings.Contains(e.Cause, "holds no certificate") || e.Expires == nil {
		t.Errorf("%v", e)
	}
	u := await(t, events, func(e *controlv1.Event) bool { return e.GetSnapshot() != nil }).GetSnapshot().Update
	if u.State != controlv1.SnapshotState_SNAPSHOT_STATE_DEGRADED || len(u.Degradations) != 1 || u.Degradations[0].Resource.Name != "site" {
		t.Errorf("%v", u)
	}
	if a := k.mustSecure(g.at("web")).mustGet(t, "/"); a.body != "here" {
		t.Errorf("%+v", a)
	}
	k.put("site.crt", good.Cert)
	if e := await(t, events, func(e *controlv1.Event) bool { return e.GetCertificate() != nil }).GetCertificate(); !e.Healthy {
		t.Errorf("%v", e)
	}
	u = await(t, events, func(e *controlv1.Event) bool { return e.GetSnapshot() != nil }).GetSnapshot().Update
	if len(u.Degradations) != 0 {
		t.Errorf("%v", u)
	}
}

// What is not there is refused by its field, and nothing changes.
func TestMissingCertificateIsRejected(t *testing.T) {
	k := newKeyring(t)
	k.issue("site", "site.example")
	g := start(t, Options{Folder: k.folder})
	g.apply(secured)
	refusal := g.refused(control.Request{Snapshot: parse(t, `
listeners: [{name: web, address: "127.0.0.1:0", tls: {certificates: [site], clientAuth: {caBundle: staff}}}]
certificates: [{name: site, certificateFile: site.crt, privateKeyFile: elsewhere.key}]
caBundles: [{name: staff, file: nowhere.pem}]
routes: [{name: all, respond: {body: there}}]
`)}, control.ReasonNode)
	var paths []string
	for _, v := range refusal.Violations {
		paths = append(paths, v.Path)
	}
	if got := strings.Join(paths, " "); got != "certificates[0].privateKeyFile caBundles[0].file" {
		t.Errorf("refused for %s: %v", got, refusal)
	}
	if a := k.mustSecure(g.at("web")).mustGet(t, "/"); a.body != "here" {
		t.Errorf("%+v", a)
	}
}

// Sessions go on after an apply, unless the rules about clients have changed.
func TestResumptionOverApplies(t *testing.T) {
	k := newKeyring(t)
	k.issue("site", "site.example")
	g := start(t, Options{Folder: k.folder})
	g.apply(secured)
	member := k.Issue([]string{"member"}).TLS(t)
	cache := tls.NewLRUClientSessionCache(1)
	visit := func() bool {
		t.Helper()
		c := k.mustSecure(g.at("web"), func(o *tls.Config) {
			o.ClientSessionCache, o.Certificates = cache, []tls.Certificate{member}
		})
		defer c.Close()
		if a := c.mustGet(t, "/"); a.status != 200 {
			t.Fatalf("%+v", a)
		}
		return c.state().DidResume
	}
	visit()
	g.apply(strings.Replace(secured, "here", "there", 1))
	if !visit() {
		t.Error("no session was resumed after an apply")
	}
	g.apply(strings.Replace(secured, "[site]}", "[site], clientAuth: {caBundle: ca}}", 1) + "caBundles: [{name: ca, file: ca.pem}]")
	if visit() {
		t.Error("a session was resumed that began when nobody was asked")
	}
	if !visit() {
		t.Error("no session was resumed where clients are asked")
	}
	g.apply(strings.Replace(secured, "[site]}", "[site], clientAuth: {caBundle: ca}}", 1) +
		"caBundles: [{name: ca, pem: " + fmt.Sprintf("%q", k.PEM+testca.New(t, "other").PEM) + "}]")
	if visit() {
		t.Error("a session was resumed that other authorities had let in")
	}
}

// Clients are asked for certificates, and are told why they may not come in.
func TestClientCertificates(t *testing.T) {
	k := newKeyring(t)
	k.issue("site", "site.example")
	g := start(t, Options{Folder: k.folder})
	member, stranger := k.Issue([]string{"member"}).TLS(t), testca.New(t, "other").Issue([]string{"stranger"}).TLS(t)
	for _, optional := range []bool{false, true} {
		g.apply(fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", tls: {certificates: [site], clientAuth: {caBundle: ca, optional: %v}}}]
certificates: [{name: site, certificateFile: site.crt, privateKeyFile: site.key}]
caBundles: [{name: ca, file: ca.pem}]
routes: [{name: all, respond: {body: here}}]
`, optional))
		for _, test := range []struct {
			name  string
			shows []tls.Certificate
			ok    bool
		}{{"member", []tls.Certificate{member}, true}, {"stranger", []tls.Certificate{stranger}, false}, {"nobody", nil, optional}} {
			for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
				c, err := k.secure(g.at("web"), func(o *tls.Config) {
					o.MaxVersion = version
					o.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
						return &append(test.shows, tls.Certificate{})[0], nil
					}
				})
				if err == nil {
					_, err = c.get("/")
					_ = c.Close()
				}
				if (err == nil) != test.ok || err != nil && certificate.FaultOf(err) != certificate.Alert {
					t.Errorf("%s, optional %v, %x: %v", test.name, optional, version, err)
				}
			}
		}
	}
}

// Whom the data plane does not believe, and what it says of it.
func TestUpstreamTLSFailures(t *testing.T) {
	k, other := newKeyring(t), testca.New(t, "other")
	k.issue("member", "member")
	good := k.Issue([]string{"up.example"}).TLS(t)
	only := func(c tls.Certificate) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{c}} }
	asking := only(good)
	asking.ClientAuth, asking.ClientCAs = tls.RequireAndVerifyClientCert, k.Pool()
	asking12 := asking.Clone()
	asking12.MaxVersion = tls.VersionTLS12
	old := only(good)
	old.MaxVersion = tls.VersionTLS11
	g := start(t, Options{Folder: k.folder})
	for _, test := range []struct {
		name   string
		site   *tls.Config // nil: it speaks no TLS
		tls    string
		status int
		reason string
		says   string
	}{
		{"good", only(good), "caBundle: ca, serverName: up.example", 200, "", ""},
		{"other authority", only(other.Issue([]string{"up.example"}).TLS(t)), "caBundle: ca, serverName: up.example", 502, "tls_certificate_error", "certificate signed by unknown authority"},
		{"roots of the system", only(good), "serverName: up.example", 502, "tls_certificate_error", "certificate signed by unknown authority"},
		{"other name", only(good), "caBundle: ca, serverName: x.example", 502, "tls_certificate_error", "certificate is valid for up.example, not x.example"},
		{"address", only(good), "caBundle: ca", 502, "tls_certificate_error", "doesn't contain any IP SANs"},
		{"expired", only(k.Issue([]string{"up.example"}, expired()).TLS(t)), "caBundle: ca, serverName: up.example", 502, "tls_certificate_error", "certificate has expired"},
		{"expired, not verified", only(k.Issue([]string{"up.example"}, expired()).TLS(t)), "insecureSkipVerify: true", 200, "", ""},
		{"no TLS", nil, "caBundle: ca, serverName: up.example", 502, "tls_protocol_error", "first record does not look like a TLS handshake"},
		{"old TLS", old, "caBundle: ca, serverName: up.example", 502, "tls_alert_received", "protocol version not supported"},
		{"member", asking, "caBundle: ca, serverName: up.example, clientCertificate: member", 200, "", ""},
		{"member, TLS 1.2", asking12, "caBundle: ca, serverName: up.example, clientCertificate: member", 200, "", ""},
		{"nobody", asking, "caBundle: ca, serverName: up.example", 502, "tls_alert_received", "certificate required"},
		{"nobody, TLS 1.2", asking12, "caBundle: ca, serverName: up.example", 502, "tls_alert_received", "handshake failure"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serveSite(t, "tcp", "127.0.0.1:0", test.site)
			g.apply(fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0"}]
certificates: [{name: member, certificateFile: member.crt, privateKeyFile: member.key}]
caBundles: [{name: ca, file: ca.pem}]
clusters: [{name: up, endpoints: [{address: "%s"}], tls: {%s}}]
routes: [{name: all, forward: {backends: [{cluster: up}]}}]
`, s.address(), test.tls))
			a := dial(t, g.at("web")).mustGet(t, "/")
			said := a.header.Get("Proxy-Status")
			if a.status != test.status || !strings.Contains(said, test.reason) || !strings.Contains(said, test.says) {
				t.Errorf("%d, %q", a.status, said)
			}
			if strings.HasPrefix(test.name, "member") && a.header.Get("X-Peer") != "member" {
				t.Errorf("the upstream saw %q", a.header.Get("X-Peer"))
			}
		})
	}
}

// Case 23: a pooled connection is used again only if address, scheme, SNI,
// client certificate and verification are the same.
func TestCase23TLS(t *testing.T) {
	k := newKeyring(t)
	k.issue("one", "one")
	k.issue("two", "two")
	k.put("also.pem", k.PEM+testca.New(t, "other").PEM)
	s := serveSite(t, "tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{k.Issue([]string{"a.example", "b.example", "127.0.0.1"}).TLS(t)},
		ClientAuth:   tls.RequestClientCert,
	})
	g := start(t, Options{Folder: k.folder})
	apply := func(section, more string) {
		t.Helper()
		g.apply(fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0"}]
certificates: [{name: one, certificateFile: one.crt, privateKeyFile: one.key}, {name: two, certificateFile: two.crt, privateKeyFile: two.key}]
caBundles: [{name: ca, file: ca.pem}, {name: also, file: also.pem}]
clusters: [{name: up, endpoints: [{address: "%s"}], tls: {%s}%s}]
routes: [{name: all, forward: {backends: [{cluster: up}]}}]
`, s.address(), section, more))
	}
	// One client throughout: when its next request is read, the connection of
	// the one before is back in the pool.
	var c *client
	visit := func() answer {
		t.Helper()
		if c == nil {
			c = dial(t, g.at("web"))
		}
		a := c.mustGet(t, "/")
		if a.status != 200 {
			t.Fatalf("%+v", a)
		}
		return a
	}
	conns := 0
	for _, test := range []struct {
		name, section, more string
		fresh               bool
	}{
		{"first", "caBundle: ca", "", true},
		{"again", "caBundle: ca", "", false},
		{"limits changed", "caBundle: ca", ", limits: {maxConnections: 10}", false},
		{"SNI", "caBundle: ca, serverName: a.example", "", true},
		{"other SNI", "caBundle: ca, serverName: b.example", "", true},
		{"client certificate", "caBundle: ca, serverName: b.example, clientCertificate: one", "", true},
		{"other client certificate", "caBundle: ca, serverName: b.example, clientCertificate: two", "", true},
		{"other authorities", "caBundle: also, serverName: b.example, clientCertificate: two", "", true},
		{"no verification", "insecureSkipVerify: true, serverName: b.example, clientCertificate: two", "", true},
		{"verification again", "caBundle: also, serverName: b.example, clientCertificate: two", "", true},
		{"nothing", "caBundle: also, serverName: b.example, clientCertificate: two", "", false},
	} {
		apply(test.section, test.more)
		visit()
		visit()
		if n := s.connections(); (n == conns+1) != test.fresh || n > conns+1 {
			t.Errorf("%s: %d connections after %d", test.name, n, conns)
		}
		conns = s.connections()
	}
	// The same where only what is on disk has changed.
	k.issue("two", "three")
	if err := g.Reopen(); err != nil {
		t.Fatal(err)
	}
	if a := visit(); a.header.Get("X-Peer") != "three" || s.connections() != conns+1 {
		t.Errorf("%q over %d connections after %d", a.header.Get("X-Peer"), s.connections(), conns)
	}
	k.put("also.pem", k.PEM)
	if err := g.Reopen(); err != nil {
		t.Fatal(err)
	}
	if visit(); s.connections() != conns+2 {
		t.Errorf("%d connections with other authorities", s.connections()-conns)
	}
}

// The same over HTTP/2, where requests share a connection.
func TestCase23HTTP2(t *testing.T) {
	k := newKeyring(t)
	k.issue("one", "one")
	s := serveSite(t, "tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{k.Issue([]string{"a.example", "b.example"}).TLS(t)},
		ClientAuth:   tls.RequestClientCert, NextProtos: []string{"h2"},
	})
	g := start(t, Options{Folder: k.folder})
	apply := func(name string) {
		t.Helper()
		g.apply(fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0"}]
certificates: [{name: one, certificateFile: one.crt, privateKeyFile: one.key}]
caBundles: [{name: ca, file: ca.pem}]
clusters: [{name: up, endpoints: [{address: "%s"}], http2: {}, tls: {caBundle: ca, serverName: %s, clientCertificate: one}}]
routes: [{name: all, forward: {backends: [{cluster: up}]}}]
`, s.address(), name))
	}
	apply("a.example")
	c := dial(t, g.at("web"))
	visit := func(peer string, connections int) {
		t.Helper()
		if a := c.mustGet(t, "/"); a.status != 200 || a.header.Get("X-Peer") != peer || s.connections() != connections {
			t.Errorf("%d connections, want %d: %+v", s.connections(), connections, a)
		}
	}
	visit("one", 1)
	visit("one", 1)
	apply("b.example")
	visit("one", 2)
	k.issue("one", "two")
	if err := g.Reopen(); err != nil {
		t.Fatal(err)
	}
	visit("two", 3)
	visit("two", 3)
}

// The same where the way to speak changes, and the address does not: what was opened in
// clear is no connection over TLS, and what speaks HTTP/1.1 carries no streams.
func TestCase23Scheme(t *testing.T) {
	k := newKeyring(t)
	s := serveSite(t, "tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{k.Issue([]string{"127.0.0.1"}).TLS(t)}, NextProtos: []string{"h2", "http/1.1"},
	})
	relay := newEitherWay(t, s.address(), serveSite(t, "tcp", "127.0.0.1:0", nil).address())
	g := start(t, Options{Folder: k.folder})
	var c *client
	for i, way := range []struct{ fields, spoken, proto string }{
		{"", "HTTP/1.1", "clear"},
		{"tls: {caBundle: ca}, http1: {}", "HTTP/1.1", "TLS"},
		{"tls: {caBundle: ca}, http2: {}", "HTTP/2.0", "TLS"},
		{"tls: {caBundle: ca}, http1: {}", "HTTP/1.1", "TLS"},
		{"", "HTTP/1.1", "clear"},
	} {
		g.apply(fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0"}]
caBundles: [{name: ca, file: ca.pem}]
clusters: [{name: up, endpoints: [{address: "%s"}], %s}]
routes: [{name: all, forward: {backends: [{cluster: up}]}}]
`, relay.address, way.fields))
		if c == nil {
			c = dial(t, g.at("web"))
		}
		for range 2 {
			if a := c.mustGet(t, "/"); a.status != 200 || a.header.Get("X-Spoken") != way.spoken || (a.header.Get("X-Over-Tls") != "") != (way.proto == "TLS") {
				t.Errorf("%d, %s: %+v", i, way.fields, a)
			}
		}
		if n := int(relay.accepted.Load()); n != i+1 {
			t.Errorf("%d connections after way %d", n, i)
		}
	}
}

// eitherWay is one address behind which one server speaks TLS and another does not:
// the first byte of a connection decides.
type eitherWay struct {
	address  string
	accepted atomic.Int32
}

func newEitherWay(t *testing.T, secure, clear string) *eitherWay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &eitherWay{address: l.Addr().String()}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			e.accepted.Add(1)
			running.Go(func() {
				defer c.Close()
				in := bufio.NewReader(c)
				to := clear
				if first, err := in.Peek(1); err != nil {
					return
				} else if first[0] == 22 { // a handshake (RFC 8446 section 5.1)
					to = secure
				}
				up, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer up.Close()
				running.Go(func() {
					_, _ = io.Copy(c, up)
					_ = c.Close()
				})
				_, _ = in.WriteTo(up)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
	return e
}

// Probes speak TLS as requests do.
func TestProbesOverTLS(t *testing.T) {
	k := newKeyring(t)
	good := serveSite(t, "tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{k.Issue([]string{"up.example"}).TLS(t)}})
	bad := serveSite(t, "tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{k.Issue([]string{"x.example"}).TLS(t)}})
	g := start(t, Options{Folder: k.folder})
	events := g.events.ReadNew()
	g.apply(fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0"}]
caBundles: [{name: ca, file: ca.pem}]
clusters: [{name: up, endpoints: [{address: "%s"}, {address: "%s"}], panicThreshold: 0, healthCheck: {http: {}, unhealthyThreshold: 1}, tls: {caBundle: ca, serverName: up.example}}]
routes: [{name: all, forward: {backends: [{cluster: up}]}}]
`, good.address(), bad.address()))
	e := await(t, events, func(e *controlv1.Event) bool {
		return e.GetEndpointHealth().GetEndpoint() == bad.address()
	}).GetEndpointHealth()
	if e.To != controlv1.HealthState_HEALTH_STATE_UNHEALTHY || !strings.Contains(e.Cause, "certificate is valid for x.example, not up.example") {
		t.Errorf("%v", e)
	}
	c := dial(t, g.at("web"))
	for range 4 {
		if a := c.mustGet(t, "/"); a.status != 200 || a.header.Get("X-Sni") != "up.example" {
			t.Errorf("%+v", a)
		}
	}
}

// Whom a connection is for, as a trusted proxy says, and others may not.
func TestProxyProtocol(t *testing.T) {
	k := newKeyring(t)
	k.issue("site", "site.example")
	s := serveSite(t, "tcp", "127.0.0.1:0", nil)
	g := start(t, Options{Folder: k.folder})
	g.apply(fmt.Sprintf(`
listeners:
- {name: trusted, address: "127.0.0.1:0", trustedProxies: [127.0.0.0/8, 10.0.0.0/8], proxyProtocol: {}}
- {name: others, address: "127.0.0.1:0", trustedProxies: [10.0.0.0/8], proxyProtocol: {}}
- {name: tls, address: "127.0.0.1:0", trustedProxies: [127.0.0.0/8], proxyProtocol: {}, tls: {certificates: [site]}}
- {name: unix, address: "unix:%s/a", proxyProtocol: {}}
certificates: [{name: site, certificateFile: site.crt, privateKeyFile: site.key}]
clusters: [{name: up, endpoints: [{address: "%s"}]}]
routes: [{name: all, forward: {backends: [{cluster: up}]}}]
`, short(t), s.address()))
	v1 := "PROXY TCP4 192.0.2.1 10.0.0.1 8080 443\r\n"
	v2 := func(command, family byte, rest string) string {
		return string(binary.BigEndian.AppendUint16([]byte{'\r', '\n', '\r', '\n', 0, '\r', '\n', 'Q', 'U', 'I', 'T', '\n', command, family}, uint16(len(rest)))) + rest
	}
	addresses := "\xc0\x00\x02\x07\x0a\x00\x00\x01\x1f\x90\x01\xbb"
	request := "GET / HTTP/1.1\r\nHost: a\r\n"
	for _, test := range []struct{ name, listener, before, fields, want string }{
		{"v1", "trusted", v1, "", "192.0.2.1"},
		{"v2", "trusted", v2(0x21, 0x11, addresses), "", "192.0.2.7"},
		{"v2 with TLVs", "trusted", v2(0x21, 0x11, addresses+"\x04\x00\x01x"), "", "192.0.2.7"},
		{"v2 local", "trusted", v2(0x20, 0x00, ""), "", "127.0.0.1"},
		{"v1 unknown", "trusted", "PROXY UNKNOWN\r\n", "", "127.0.0.1"},
		{"over unix", "unix", v1, "", "192.0.2.1"},
		{"over unix, unknown", "unix", "PROXY UNKNOWN\r\n", "", ""},
		// It is the client that must be trusted to be believed further.
		{"chain of the client", "trusted", v1, "X-Forwarded-For: 203.0.113.9\r\n", "203.0.113.9, 192.0.2.1"},
		{"others in clear", "others", "", "", "127.0.0.1"},
	} {
		c := dial(t, g.at(test.listener))
		if err := c.send(test.before + request + test.fields + "\r\n"); err != nil {
			t.Fatal(err)
		}
		a, err := c.receive()
		if err != nil || a.status != 200 || a.header.Get("X-For") != test.want {
			t.Errorf("%s: %d, %q, %v", test.name, a.status, a.header.Get("X-For"), err)
		}
		if again := c.mustGet(t, "/"); again.header.Get("X-For") == "" && test.want != "" {
			t.Errorf("%s: the second request is of nobody", test.name)
		}
	}
	// A line that is written byte by byte, with a request behind it.
	slow := dial(t, g.at("trusted"))
	for _, b := range []byte(v1 + request) {
		if err := slow.send(string(b)); err != nil {
			t.Fatal(err)
		}
	}
	if a := slow.mustGetRest(t); a.header.Get("X-For") != "192.0.2.1" {
		t.Errorf("byte by byte: %+v", a)
	}
	// Then TLS.
	c := dial(t, g.at("tls"))
	if err := c.send(v1); err != nil {
		t.Fatal(err)
	}
	over := tls.Client(c.Conn, &tls.Config{RootCAs: k.Pool(), ServerName: "site.example"})
	if _, err := io.WriteString(over, request+"\r\n"); err != nil {
		t.Fatal(err)
	}
	c.in.Reset(over)
	if a, err := c.receive(); err != nil || a.header.Get("X-For") != "192.0.2.1" || a.header.Get("X-Proto") != "https" {
		t.Errorf("over TLS: %+v, %v", a, err)
	}
	// Then HTTP/2, in clear.
	c = dial(t, g.at("trusted"))
	if err := c.send(v1); err != nil {
		t.Fatal(err)
	}
	client := streamsOver(t, c.Conn)
	if a := getOver(t, client, "http", "/"); a.status != 200 || a.header.Get("X-For") != "192.0.2.1" {
		t.Errorf("over HTTP/2: %+v", a)
	}
	// Who must send a line and does not is turned away; whose line is not
	// believed has sent no request.
	c = dial(t, g.at("trusted"))
	if err := c.send(request + "\r\n"); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(c.in); len(rest) > 0 {
		t.Errorf("without a line: %q, %v", rest, err)
	}
	c = dial(t, g.at("others"))
	if err := c.send(v1 + request + "\r\n"); err != nil {
		t.Fatal(err)
	}
	if a, err := c.receive(); err != nil || a.status != http.StatusBadRequest {
		t.Errorf("a line that is not believed: %+v, %v", a, err)
	}
}

// mustGetRest ends a request that was begun and reads its answer.
func (c *client) mustGetRest(t testing.TB) answer {
	t.Helper()
	if err := c.send("\r\n"); err != nil {
		t.Fatal(err)
	}
	a, err := c.receive()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Who connects and says nothing is turned away in time, and counted.
func TestHandshakeTimeout(t *testing.T) {
	k := newKeyring(t)
	k.issue("site", "site.example")
	g := start(t, Options{Folder: k.folder})
	g.apply(strings.Replace(secured, `:0", tls`, `:0", timeouts: {header: 0.05s}, tls`, 1))
	silent := dial(t, g.at("web"))
	if rest, err := io.ReadAll(silent.in); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	g.apply(secured) // the usual time, so that no slow machine runs out of it
	clear := dial(t, g.at("web"))
	if err := clear.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(clear.in); strings.HasPrefix(string(rest), "HTTP/") {
		t.Errorf("%q, %v", rest, err)
	}
	counts := &g.bound("web").counts
	if counts.Timeouts.Load() != 1 || counts.Failed[certificate.BadProtocol].Load() != 1 {
		t.Errorf("%d timeouts, %d in clear", counts.Timeouts.Load(), counts.Failed[certificate.BadProtocol].Load())
	}
}

func (g *gate) bound(name string) *boundSocket {
	g.sockets.mu.Lock()
	defer g.sockets.mu.Unlock()
	for _, b := range g.sockets.bound {
		if b.config.Name == name {
			return b
		}
	}
	return nil
}

// corked keeps back what is written until it is let go, so that it leaves in one
// piece.
type corked struct {
	net.Conn
	cork bool
	kept []byte
}

func (c *corked) Write(p []byte) (int, error) {
	if !c.cork {
		return c.Conn.Write(p)
	}
	c.kept = append(c.kept, p...)
	return len(p), nil
}

func (c *corked) letGo() error {
	c.cork = false
	_, err := c.Conn.Write(c.kept)
	return err
}

// A request that comes with the end of its handshake is served, though the drain
// came before both.
func TestDrainServesWhatCameWithTheHandshake(t *testing.T) {
	k := newKeyring(t)
	k.issue("site", "site.example")
	g := start(t, Options{Folder: k.folder})
	g.apply(secured)
	c := dial(t, g.at("web"))
	until(t, "it is accepted", func() bool { open, _ := g.bound("web").Counts(); return open == 1 })
	g.drain()
	until(t, "the listener drains", func() bool { return g.draining.Load() })
	wire := &corked{Conn: c.Conn}
	over := tls.Client(wire, &tls.Config{RootCAs: k.Pool(), ServerName: "site.example", VerifyConnection: func(tls.ConnectionState) error {
		wire.cork = true // what follows is the client's last word in the handshake
		return nil
	}})
	if _, err := io.WriteString(over, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := wire.letGo(); err != nil {
		t.Fatal(err)
	}
	c.in.Reset(over)
	if a, err := c.receive(); err != nil || a.body != "here" || !a.last {
		t.Errorf("%+v, %v", a, err)
	}
}

// What an upstream cuts does not look finished to a client, in whatever way its
// end is told.
func TestCutOverTLS(t *testing.T) {
	k := newKeyring(t)
	k.issue("site", "site.example")
	config := &tls.Config{Certificates: []tls.Certificate{k.Issue([]string{"up.example"}).TLS(t)}}
	g := start(t, Options{Folder: k.folder})
	for _, test := range []struct {
		name, head string
		goodbye    bool // the upstream ends TLS as it should
		whole      bool
	}{
		{"length", "Content-Length: 100\r\n\r\n", true, false},
		{"chunked", "Transfer-Encoding: chunked\r\n\r\n64\r\n", true, false},
		{"until the end", "\r\n", true, true},
		{"until the end, cut", "\r\n", false, false},
	} {
		l, err := tls.Listen("tcp", "127.0.0.1:0", config)
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{})
		go func() {
			defer close(served)
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(c))
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n"+test.head+"a piece")
			if test.goodbye {
				_ = c.Close()
			} else {
				_ = c.(*tls.Conn).NetConn().Close()
			}
		}()
		g.apply(fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", tls: {certificates: [site]}}]
certificates: [{name: site, certificateFile: site.crt, privateKeyFile: site.key}]
caBundles: [{name: ca, file: ca.pem}]
clusters: [{name: up, endpoints: [{address: "%s"}], tls: {caBundle: ca, serverName: up.example}}]
routes: [{name: all, forward: {backends: [{cluster: up}]}}]
`, l.Addr()))
		// To HTTP/1.0, what is of no length ends with the connection.
		c := k.mustSecure(g.at("web"))
		if err := c.send("GET / HTTP/1.0\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		a, err := c.receive()
		if (err == nil) != test.whole || test.whole && a.body != "a piece" {
			t.Errorf("%s: %q, %v", test.name, a.body, err)
		}
		_ = l.Close()
		<-served
	}
}

// A drain while a client is in its handshake, and while its connection rests.
func TestDrainOverTLS(t *testing.T) {
	k := newKeyring(t)
	k.issue("site", "site.example")
	g := start(t, Options{Folder: k.folder})
	g.apply(secured)
	resting := k.mustSecure(g.at("web"))
	resting.mustGet(t, "/")
	silent := dial(t, g.at("web"))
	until(t, "both are accepted", func() bool { open, _ := g.bound("web").Counts(); return open == 2 })
	g.drain()
	if rest, err := io.ReadAll(resting.in); len(rest) > 0 || err != nil {
		t.Errorf("the one that rests: %q, %v", rest, err)
	}
	g.hurry()
	if rest, err := io.ReadAll(silent.in); len(rest) > 0 {
		t.Errorf("the one in its handshake: %q, %v", rest, err)
	}
	g.stop()
}
