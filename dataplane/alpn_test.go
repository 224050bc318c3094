package dataplane

import (
	"crypto/tls"
	"fmt"
	"sync"
	"testing"
)

// Where a cluster over TLS names no protocol, each endpoint says what it speaks.
func TestALPNDecides(t *testing.T) {
	k := newKeyring(t)
	pair := k.Issue([]string{"127.0.0.1"}).TLS(t)
	both := serveSite(t, "tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}})
	old := serveSite(t, "tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	g := start(t, Options{Folder: k.folder})
	g.apply(fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0"}]
caBundles: [{name: ca, file: ca.pem}]
clusters:
- {name: both, endpoints: [{address: "%[1]s"}], tls: {caBundle: ca}, healthCheck: {http: {path: /}}}
- {name: old, endpoints: [{address: "%[2]s"}], tls: {caBundle: ca}, healthCheck: {http: {path: /}}}
- {name: first, endpoints: [{address: "%[1]s"}], tls: {caBundle: ca}, http1: {}}
routes:
- {name: both, matches: [{path: {prefix: /both}}], forward: {backends: [{cluster: both}]}}
- {name: old, matches: [{path: {prefix: /old}}], forward: {backends: [{cluster: old}]}}
- {name: first, matches: [{path: {prefix: /first}}], forward: {backends: [{cluster: first}]}}
`, both.address(), old.address()))
	for path, want := range map[string]string{"/both": "HTTP/2.0", "/old": "HTTP/1.1", "/first": "HTTP/1.1"} {
		var all sync.WaitGroup
		for range 4 {
			c := dial(t, g.at("web"))
			all.Go(func() {
				for range 10 {
					if a, err := c.get(path); err != nil || a.status != 200 || a.header.Get("X-Spoken") != want {
						t.Errorf("%s: %+v, %v", path, a, err)
						return
					}
				}
			})
		}
		all.Wait()
	}
	// What may become a tunnel takes HTTP/1.1.
	c := dial(t, g.at("web"))
	if err := c.send("GET /both HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if a, err := c.receive(); err != nil || a.header.Get("X-Spoken") != "HTTP/1.1" {
		t.Errorf("an upgrade: %+v, %v", a, err)
	}
	for _, name := range []string{"both", "old"} {
		address := map[string]string{"both": both.address(), "old": old.address()}[name]
		until(t, name+" is healthy", func() bool { return g.endpoint(name, address).Health.String() == "healthy" })
	}
}

// HTTP/2 is spoken over TLS where ALPN has said so, and nowhere else (RFC 9113
// section 3.2).
func TestPrefaceWithoutALPN(t *testing.T) {
	k := newKeyring(t)
	k.issue("site", "site.example")
	g := start(t, Options{Folder: k.folder})
	g.apply(secured)
	for _, offered := range [][]string{nil, {"http/1.1"}} {
		c := k.mustSecure(g.at("web"), func(c *tls.Config) { c.NextProtos = offered })
		if err := c.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
			t.Fatal(err)
		}
		if a, err := c.receive(); err != nil || a.status != 505 || !a.last {
			t.Errorf("%q: %+v, %v", offered, a, err)
		}
	}
}
