package dataplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/certificate/acme/pebble"
	"github.com/headgate/headgate/dataplane/control"
)

// port is that of an address.
func port(a net.Addr) int { return a.(*net.TCPAddr).Port }

// shop is a manifest of one listener over TLS, on a port that is bound already,
// whose certificate an authority gives.
func shop(listener, directory, more string) string {
	return fmt.Sprintf(`
listeners: [{name: web, address: "%s", tls: {certificates: [shop]}}]
certificates: [{name: shop, acme: {domains: [shop.example, www.shop.example], email: ops@shop.example, directory: "%s", caBundle: authority}}]
caBundles: [{name: authority, file: pebble.pem}]
routes: [{name: all, respond: {body: here}}%s]
`, listener, directory, more)
}

// freePort is an address of loopback for a listener that must be known before an
// authority that asks it is started.
func freePort(t *testing.T) net.Addr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr()
}

// authority starts Pebble and keeps its root in a folder.
func authority(t *testing.T, folder string, o pebble.Options) *pebble.Server {
	t.Helper()
	p := pebble.Start(t, o)
	if err := os.WriteFile(filepath.Join(folder, "pebble.pem"), []byte(p.RootPEM), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// certificateEvents waits for as many events about certificates.
func certificateEvents(t *testing.T, r *control.EventReader, n int) (list []*controlv1.CertificateEvent) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for len(list) < n {
		events, err := r.Next(ctx, 1)
		if err != nil {
			t.Fatalf("after %v: %v", list, err)
		}
		if c := events[0].GetCertificate(); c != nil {
			list = append(list, c)
		}
	}
	return list
}

// shown connects for a domain and returns the certificate that it was shown. A
// nil pool accepts any.
func shown(t *testing.T, a net.Addr, domain string, roots *x509.CertPool) (*tls.Conn, *x509.Certificate) {
	t.Helper()
	c, err := tls.Dial("tcp", a.String(), &tls.Config{ServerName: domain, RootCAs: roots, InsecureSkipVerify: roots == nil})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, c.ConnectionState().PeerCertificates[0]
}

// A certificate is obtained from a real authority over the listener that shows
// it: the snapshot is active at once and degraded until then, and connections
// that were made before live on. It is the same after unrelated applies, and
// after a restart without the authority; and its keys come out nowhere.
func TestACME(t *testing.T) {
	folder, state, at := t.TempDir(), t.TempDir(), freePort(t)
	p := authority(t, folder, pebble.Options{TLSPort: port(at), HTTPPort: 1})
	g := start(t, Options{Folder: folder, StateDir: state})
	events := g.events.ReadNew()
	g.apply(shop(at.String(), p.Directory, ""))
	early, standIn := shown(t, at, "shop.example", nil)

	got := certificateEvents(t, events, 2)
	if e := got[0]; e.Healthy || e.Expires != nil || !strings.HasPrefix(e.Cause, "is being asked for at "+p.Directory) {
		t.Errorf("at first: %v", e)
	}
	if e := got[1]; !e.Healthy || e.Expires == nil || !strings.HasPrefix(e.Cause, "was obtained from "+p.Directory) {
		t.Errorf("then: %v", e)
	}
	until(t, "nothing is degraded", func() bool { list, _ := g.applier.Degradations(); return len(list) == 0 })
	roots := p.Roots()
	_, leaf := shown(t, at, "shop.example", roots)
	if _, www := shown(t, at, "www.shop.example", roots); !www.Equal(leaf) || leaf.Equal(standIn) {
		t.Error("the two names have certificates of their own, or the stand-in's")
	}
	if _, err := fmt.Fprintf(early, "GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n"); err != nil {
		t.Error(err)
	}
	if n, err := early.Read(make([]byte, 1)); n != 1 {
		t.Errorf("a connection from before: %v", err)
	}

	g.apply(shop(at.String(), p.Directory, ", {name: more, matches: [{path: {exact: /more}}], respond: {body: more}}"))
	if _, same := shown(t, at, "shop.example", roots); !same.Equal(leaf) {
		t.Error("an unrelated apply changed the certificate")
	}
	secrets := keysIn(t, filepath.Join(state, "acme"))
	if len(secrets) != 2 {
		t.Fatalf("%d keys are kept, not that of the account and that of the certificate", len(secrets))
	}
	_, active := g.applier.Active()
	text, err := protojson.Marshal(active.Source)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range secrets {
		if strings.Contains(string(text)+string(g.configJSON()), key) {
			t.Error("a key comes back out")
		}
	}
	g.stop()

	again := start(t, Options{Folder: folder, StateDir: state})
	events = again.events.ReadNew()
	if found, err := again.Restore(context.Background()); err != nil || !found {
		t.Fatal(found, err)
	}
	if _, same := shown(t, at, "shop.example", roots); !same.Equal(leaf) {
		t.Error("a restart changed the certificate")
	}
	again.apply(`{listeners: [{name: web, address: "127.0.0.1:0"}], routes: [{name: all, respond: {}}]}`)
	if list, _ := events.Ready(1000); strings.Contains(fmt.Sprint(list), "DEGRADED") {
		t.Errorf("degraded after a restart: %v", list)
	}
	if n := p.Issued(); n != 1 {
		t.Errorf("%d certificates were issued", n)
	}
}

// keysIn lists the base64 of the private keys in a folder, which its owner alone
// can read.
func keysIn(t *testing.T, folder string) (keys []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := d.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
		if d.IsDir() {
			return nil
		}
		text, err := os.ReadFile(path)
		plain := strings.ReplaceAll(string(text), `\n`, "\n")
		if _, key, ok := strings.Cut(plain, "-----BEGIN PRIVATE KEY-----\n"); ok {
			first, _, _ := strings.Cut(key, "\n")
			keys = append(keys, first)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// An authority that asks by HTTP is answered before every route, for what it was
// told to ask and for nothing else.
func TestACMEOverHTTP(t *testing.T) {
	folder, at := t.TempDir(), freePort(t)
	p := authority(t, folder, pebble.Options{TLSPort: 1, HTTPPort: port(at)})
	g := start(t, Options{Folder: folder})
	events := g.events.ReadNew()
	g.apply(fmt.Sprintf(`
listeners: [{name: web, address: "%s"}]
certificates: [{name: me, acme: {domains: [me.example], directory: "%s", caBundle: authority}}]
caBundles: [{name: authority, file: pebble.pem}]
clusters: [{name: up, endpoints: [{address: "127.0.0.1:1"}], tls: {clientCertificate: me}}]
routes:
- {name: all, redirect: {status: 301, scheme: https}}
- {name: up, matches: [{path: {exact: /up}}], forward: {backends: [{cluster: up}]}}
`, at, p.Directory))
	got := certificateEvents(t, events, 2)
	if !got[1].Healthy {
		t.Fatal(got)
	}
	if a := dial(t, at).mustGet(t, "/.well-known/acme-challenge/unknown"); a.status != 301 {
		t.Errorf("a token that is none: %+v", a)
	}
}

// What an authority refuses is said with its reason, and asked for again when
// somebody says so, for one who may have mended it.
func TestACMERefused(t *testing.T) {
	folder, at := t.TempDir(), freePort(t)
	p := authority(t, folder, pebble.Options{TLSPort: port(at), HTTPPort: 1, Refused: []string{"shop.example"}})
	g := start(t, Options{Folder: folder})
	events := g.events.ReadNew()
	g.apply(shop(at.String(), p.Directory, ""))
	e := certificateEvents(t, events, 2)[1]
	if e.Healthy || !strings.Contains(e.Cause, "rejectedIdentifier") || !strings.Contains(e.Cause, "the next attempt is at") {
		t.Errorf("refused: %v", e)
	}
	list, _ := g.applier.Degradations()
	if len(list) != 1 || list[0].GetResource().GetName() != "shop" {
		t.Errorf("degraded: %v", list)
	}
	if err := g.Reopen(); err != nil {
		t.Fatal(err)
	}
	until(t, "it is asked for again", func() bool { return p.Asked() > 1 })

	// The same certificate from an authority that knows no better.
	other := authority(t, folder, pebble.Options{TLSPort: port(at), HTTPPort: 1})
	g.apply(shop(at.String(), other.Directory, ""))
	until(t, "another authority has given it", func() bool { list, _ := g.applier.Degradations(); return len(list) == 0 })
	shown(t, at, "shop.example", other.Roots())
}
