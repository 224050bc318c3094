package dataplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/quic-go/quic-go"
	quichttp "github.com/quic-go/quic-go/http3"

	"github.com/headgate/headgate/dataplane/certificate/testca"
	"github.com/headgate/headgate/dataplane/control"
	"github.com/headgate/headgate/dataplane/http3"
)

// quicClient is a client of HTTP/3 by quic-go, of one connection.
type quicClient struct {
	*quichttp.ClientConn
	t    testing.TB
	conn *quic.Conn
	base string
}

// overQUIC connects by HTTP/3 for site.example.
func (k *keyring) overQUIC(a net.Addr, change ...func(*tls.Config)) (*quicClient, error) {
	k.t.Helper()
	config := &tls.Config{RootCAs: k.Pool(), ServerName: "site.example", NextProtos: []string{http3.Protocol}}
	for _, c := range change {
		c(config)
	}
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	transport := &quic.Transport{Conn: udp}
	k.t.Cleanup(func() {
		_ = transport.Close()
		_ = udp.Close()
	})
	to := &net.UDPAddr{IP: a.(*net.TCPAddr).IP, Port: a.(*net.TCPAddr).Port}
	conn, err := transport.Dial(context.Background(), to, config, &quic.Config{})
	if err != nil {
		return nil, err
	}
	k.t.Cleanup(func() { _ = conn.CloseWithError(0x100, "") })
	c := &quicClient{ClientConn: new(quichttp.Transport).NewClientConn(conn), t: k.t, conn: conn}
	c.base = fmt.Sprintf("https://site.example:%d", to.Port)
	return c, nil
}

func (k *keyring) mustQUIC(a net.Addr, change ...func(*tls.Config)) *quicClient {
	k.t.Helper()
	c, err := k.overQUIC(a, change...)
	if err != nil {
		k.t.Fatal(err)
	}
	return c
}

// shown is the certificate that the data plane showed.
func (c *quicClient) shown() *x509.Certificate {
	return c.conn.ConnectionState().TLS.PeerCertificates[0]
}

func (c *quicClient) get(path string) (*http.Response, string, error) {
	req, err := http.NewRequest(http.MethodGet, c.base+path, http.NoBody)
	if err != nil {
		return nil, "", err
	}
	resp, err := c.RoundTrip(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

// expect holds that a request is answered with a body.
func (c *quicClient) expect(path, body string) *http.Response {
	c.t.Helper()
	resp, got, err := c.get(path)
	if err != nil || resp.StatusCode != http.StatusOK || got != body {
		c.t.Fatalf("%s: %v, %q, %v", path, resp, got, err)
	}
	return resp
}

// quicManifest is a listener with HTTP/3, if only on says so, in front of a backend.
func quicManifest(on bool, more, backend string) string {
	word := ""
	if on {
		word = "http3: {}, "
	}
	return fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", %s%s tls: {certificates: [site]}}]
certificates: [{name: site, certificateFile: site.crt, privateKeyFile: site.key}]
clusters: [{name: up, endpoints: [{address: "%s"}]}]
routes:
- {name: all, forward: {backends: [{cluster: up}]}}
- {name: own, matches: [{path: {exact: /own}}], respond: {body: own}}
- {name: quiet, matches: [{path: {exact: /quiet}}], respond: {body: quiet}, responseHeaders: {remove: [Alt-Svc]}}
`, word, more, backend)
}

// heldSite is a backend that answers /held when it is let go.
type heldSite struct {
	asked, leave chan struct{}
}

func (h *heldSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Alt-Svc", `h3=":1"`)
	if r.URL.Path == "/held" {
		h.asked <- struct{}{}
		<-h.leave
	}
	fmt.Fprintf(w, "site %s", r.Header.Get("X-Forwarded-Proto"))
}

func newHeldSite(t testing.TB) (h *heldSite, address string) {
	h = &heldSite{asked: make(chan struct{}, 1), leave: make(chan struct{})}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return h, s.Listener.Addr().String()
}

// hold has a request wait at the backend. What is returned waits for the answer.
func (c *quicClient) hold(h *heldSite) (answered func()) {
	var asking sync.WaitGroup
	asking.Go(func() {
		if resp, body, err := c.get("/held"); err != nil || resp.StatusCode != http.StatusOK || body != "site https" {
			c.t.Errorf("held: %v, %q, %v", resp, body, err)
		}
	})
	<-h.asked
	return asking.Wait
}

// HTTP/3 on the port of TCP, told of by the answers of HTTP/1 and HTTP/2 alone.
func TestHTTP3(t *testing.T) {
	k := newKeyring(t)
	k.issue("site", "site.example")
	_, address := newHeldSite(t)
	g := start(t, Options{Folder: k.folder})
	log := filepath.Join(t.TempDir(), "access.log")
	g.apply(quicManifest(true, "", address) + "telemetry: {accessLog: {file: " + log + "}}\n")
	at := g.at("web")
	want := fmt.Sprintf(`h3=":%d"; ma=86400`, at.(*net.TCPAddr).Port)

	c := k.mustQUIC(at)
	for path, body := range map[string]string{"/": "site https", "/own": "own"} {
		if resp := c.expect(path, body); resp.ProtoMajor != 3 || resp.Header.Get("Alt-Svc") != "" {
			t.Errorf("%s over HTTP/3: %v", path, resp)
		}
	}
	for _, protocols := range [][]string{nil, {"h2"}} {
		client := &http.Client{Transport: &http.Transport{
			DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
				c, err := k.secure(at, func(c *tls.Config) { c.NextProtos = protocols })
				if err != nil {
					return nil, err
				}
				return c.Conn, nil
			},
			ForceAttemptHTTP2: true,
		}}
		for path, want := range map[string]string{"/": want, "/own": want, "/quiet": ""} {
			resp, err := client.Get("https://site.example" + path)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if got := strings.Join(resp.Header.Values("Alt-Svc"), "|"); got != want {
				t.Errorf("%s over %s: Alt-Svc %q, not %q", path, resp.Proto, got, want)
			}
		}
		client.CloseIdleConnections()
	}
	g.finish()
	lines, err := os.ReadFile(log)
	if n := strings.Count(string(lines), `"protocol":"HTTP/3"`); err != nil || n != 2 {
		t.Errorf("%d requests of HTTP/3 in the access log, %v\n%s", n, err, lines)
	}
}

// HTTP/3 is turned off, and on again while a request of before goes on. That one is
// answered, and TCP does not notice.
func TestHTTP3OffAndOn(t *testing.T) {
	k := newKeyring(t)
	k.issue("site", "site.example")
	h, address := newHeldSite(t)
	g := start(t, Options{Folder: k.folder})
	g.apply(quicManifest(false, "", address))
	at := g.at("web")
	tcp := k.mustSecure(at)
	told := func(want bool) {
		t.Helper()
		if got := tcp.mustGet(t, "/").header.Get("Alt-Svc"); strings.HasSuffix(got, "ma=86400") != want {
			t.Errorf("Alt-Svc %q", got)
		}
	}
	told(false)
	g.apply(quicManifest(true, "", address))
	told(true)
	old := k.mustQUIC(at)
	answered := old.hold(h)
	g.apply(quicManifest(false, "", address))
	told(false)
	if n := g.udpSockets(); n != 1 {
		t.Errorf("%d UDP sockets while a request goes on", n)
	}
	g.apply(quicManifest(true, "", address))
	told(true)
	next := k.mustQUIC(at)
	next.expect("/", "site https")
	close(h.leave)
	answered()
	<-old.Context().Done() // it was told to go
	next.expect("/", "site https")
	g.apply(quicManifest(false, "", address))
	<-next.Context().Done()
	until(t, "the UDP socket is closed", func() bool { return g.udpSockets() == 0 })
	told(false)
}

func (g *gate) udpSockets() int {
	g.sockets.mu.Lock()
	defer g.sockets.mu.Unlock()
	return len(g.sockets.udp)
}

// An apply that leaves the listener as it is leaves its connections as they are.
func TestHTTP3OverApplies(t *testing.T) {
	k := newKeyring(t)
	k.issue("site", "site.example")
	h, address := newHeldSite(t)
	g := start(t, Options{Folder: k.folder})
	g.apply(quicManifest(true, "", address))
	c := k.mustQUIC(g.at("web"))
	answered := c.hold(h)
	for i := range 20 {
		g.apply(quicManifest(true, "", address) + fmt.Sprintf("- {name: more, matches: [{path: {exact: /more}}], respond: {body: \"%d\"}}\n", i))
		c.expect("/more", fmt.Sprint(i))
	}
	close(h.leave)
	answered()
}

// A new certificate is shown to those who come, and those who are there go on.
func TestHTTP3CertificateReload(t *testing.T) {
	k := newKeyring(t)
	before := k.issue("site", "site.example").TLS(t).Leaf
	_, address := newHeldSite(t)
	g := start(t, Options{Folder: k.folder})
	g.apply(quicManifest(true, "", address))
	c := k.mustQUIC(g.at("web"))
	if !c.shown().Equal(before) {
		t.Error("another certificate is shown")
	}
	fresh := k.issue("site", "site.example").TLS(t).Leaf
	if err := g.Reopen(); err != nil {
		t.Fatal(err)
	}
	if c := k.mustQUIC(g.at("web")); !c.shown().Equal(fresh) {
		t.Error("the certificate is the old one after a HUP")
	}
	c.expect("/", "site https")
}

// Certificates of clients are asked for as over TCP.
func TestHTTP3ClientCertificate(t *testing.T) {
	k := newKeyring(t)
	k.issue("site", "site.example")
	_, address := newHeldSite(t)
	g := start(t, Options{Folder: k.folder})
	g.apply(strings.Replace(quicManifest(true, "", address), "certificates: [site]}}",
		"certificates: [site], clientAuth: {caBundle: ca}}}", 1) + "caBundles: [{name: ca, file: ca.pem}]\n")
	with := func(c testca.Pair) func(*tls.Config) {
		return func(config *tls.Config) { config.Certificates = []tls.Certificate{c.TLS(t)} }
	}
	k.mustQUIC(g.at("web"), with(k.Issue([]string{"staff"}))).expect("/", "site https")
	for name, change := range map[string]func(*tls.Config){
		"none":    func(*tls.Config) {},
		"another": with(testca.New(t, "another").Issue([]string{"staff"})),
	} {
		if c, err := k.overQUIC(g.at("web"), change); err == nil {
			<-c.Context().Done() // the client believes to be in before it is looked at
			if _, _, err := c.get("/"); err == nil {
				t.Errorf("%s: was let in", name)
			}
		}
	}
}

// A data plane that stops answers what it has begun.
func TestHTTP3Drain(t *testing.T) {
	k := newKeyring(t)
	k.issue("site", "site.example")
	h, address := newHeldSite(t)
	g := start(t, Options{Folder: k.folder})
	g.apply(quicManifest(true, "", address))
	c := k.mustQUIC(g.at("web"))
	answered := c.hold(h)
	g.drain()
	until(t, "it drains", func() bool { return g.draining.Load() })
	close(h.leave)
	answered()
	<-c.Context().Done()
	g.finish()
}

// The grace of a drain is over: what is left is cut.
func TestHTTP3Cut(t *testing.T) {
	k := newKeyring(t)
	k.issue("site", "site.example")
	h, address := newHeldSite(t)
	defer close(h.leave)
	g := start(t, Options{Folder: k.folder})
	g.apply(quicManifest(true, "", address))
	c := k.mustQUIC(g.at("web"))
	var asking sync.WaitGroup
	asking.Go(func() {
		if _, body, err := c.get("/held"); err == nil {
			t.Errorf("was answered with %q", body)
		}
	})
	<-h.asked
	g.stop()
	asking.Wait()
}

// TCP and QUIC share the connections that a listener may have.
func TestHTTP3ConnectionLimit(t *testing.T) {
	k := newKeyring(t)
	k.issue("site", "site.example")
	_, address := newHeldSite(t)
	g := start(t, Options{Folder: k.folder})
	g.apply(quicManifest(true, "limits: {maxConnections: 2}, ", address))
	tcp, c := k.mustSecure(g.at("web")), k.mustQUIC(g.at("web"))
	tcp.mustGet(t, "/")
	c.expect("/", "site https")
	if n := g.Status().GetListeners()[0].GetConnections(); n != 2 {
		t.Errorf("%d connections are shown", n)
	}
	if _, err := k.overQUIC(g.at("web")); err == nil {
		t.Error("a third connection was let in")
	}
	_ = tcp.Close()
	until(t, "there is room again", func() bool { open, _ := g.bound("web").Counts(); return open == 1 })
	k.mustQUIC(g.at("web")).expect("/", "site https")
}

// A port that is taken is said to be, and nothing stays bound. The address is one
// at which nobody else gets ports from the kernel, so that of TCP is free.
func TestHTTP3PortTaken(t *testing.T) {
	k := newKeyring(t)
	k.issue("site", "site.example")
	_, address := newHeldSite(t)
	taken, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 77)})
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	g := start(t, Options{Folder: k.folder})
	manifest := strings.Replace(quicManifest(true, "", address), "127.0.0.1:0", taken.LocalAddr().String(), 1)
	refusal := g.refused(control.Request{Snapshot: parse(t, manifest)}, control.ReasonNode)
	if len(refusal.Violations) != 1 || refusal.Violations[0].Path != "listeners[0].http3" {
		t.Errorf("%+v", refusal)
	}
	l, err := net.Listen("tcp", taken.LocalAddr().String())
	if err != nil {
		t.Fatalf("the port stays bound for TCP: %v", err)
	}
	_ = l.Close()
}

// Handshakes of QUIC that come to nothing are counted, by what they came to.
func TestHTTP3FailedHandshakes(t *testing.T) {
	k := newKeyring(t)
	k.issue("site", "site.example")
	_, address := newHeldSite(t)
	g := start(t, Options{Folder: k.folder, Admin: "127.0.0.1:0"})
	g.apply(strings.Replace(quicManifest(true, "", address), "certificates: [site]}}",
		"certificates: [site], clientAuth: {caBundle: ca}}}", 1) + "caBundles: [{name: ca, file: ca.pem}]\n")
	member := k.Issue([]string{"staff"})
	with := func(c testca.Pair) func(*tls.Config) {
		pair := c.TLS(t)
		return func(config *tls.Config) {
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
	}
	for reason, change := range map[string]func(*tls.Config){
		"tls_certificate_error": with(testca.New(t, "another").Issue([]string{"staff"})),
		"tls_protocol_error":    func(c *tls.Config) { c.NextProtos = []string{"hq"} },
		"tls_alert_received": func(c *tls.Config) {
			with(member)(c)
			c.ServerName = "other.example"
		},
	} {
		if c, err := k.overQUIC(g.at("web"), change); err == nil {
			<-c.Context().Done()
		}
		want := fmt.Sprintf(`headgate_listener_refused_total{error_type=%q,headgate_listener="web"} 1`, reason)
		until(t, want, func() bool { return strings.Contains(g.metrics(), want) })
	}
}

// A port with HTTP/3 does not move from one host to all: that is refused, and what
// ran serves on by both protocols.
func TestHTTP3DoesNotMove(t *testing.T) {
	k := newKeyring(t)
	k.issue("site", "site.example")
	_, address := newHeldSite(t)
	g := start(t, Options{Folder: k.folder})
	one := freePort(t).String()
	at := func(a string) string {
		return strings.Replace(quicManifest(true, "", address), "127.0.0.1:0", a, 1)
	}
	g.apply(at(one))
	_, port, _ := net.SplitHostPort(one)
	r := g.refused(control.Request{Snapshot: parse(t, at("0.0.0.0:"+port))}, control.ReasonNode)
	if len(r.Violations) != 1 || r.Violations[0].Path != "listeners[0].http3" {
		t.Errorf("refused: %v", r)
	}
	k.mustQUIC(g.at("web")).expect("/own", "own")
	if a := k.mustSecure(g.at("web")).mustGet(t, "/own"); a.body != "own" {
		t.Error(a)
	}
}
