package dataplane

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
)

// arrival is a way in which clients come.
type arrival struct {
	listener, before string
	secure           bool
	version          uint16
	shows            []tls.Certificate
}

// come connects.
func (k *keyring) come(g *gate, a arrival) *client {
	k.t.Helper()
	c := dial(k.t, g.at(a.listener))
	if err := c.send(a.before); err != nil {
		k.t.Fatal(err)
	}
	if a.secure {
		k.over(c, func(o *tls.Config) { o.MaxVersion, o.Certificates = a.version, a.shows })
	}
	return c
}

// over goes on over TLS.
func (k *keyring) over(c *client, change func(*tls.Config)) {
	k.t.Helper()
	config := &tls.Config{RootCAs: k.Pool(), ServerName: "site.example"}
	change(config)
	secure := tls.Client(c.Conn, config)
	if err := secure.Handshake(); err != nil {
		k.t.Fatal(err)
	}
	c.Conn, c.in = secure, bufio.NewReader(secure)
}

// TestRestsWithoutGoroutines: in whatever way clients of HTTP/1 have come, their idle
// connections hold no goroutine.
func TestRestsWithoutGoroutines(t *testing.T) {
	const conns = 60
	k := newKeyring(t)
	k.issue("site", "site.example")
	member := []tls.Certificate{k.Issue([]string{"member"}).TLS(t)}
	g := start(t, Options{Folder: k.folder})
	g.apply(fmt.Sprintf(`
listeners:
- {name: clear, address: "127.0.0.1:0"}
- {name: tls, address: "127.0.0.1:0", tls: {certificates: [site]}}
- {name: members, address: "127.0.0.1:0", tls: {certificates: [site], clientAuth: {caBundle: ca}}}
- {name: behind, address: "127.0.0.1:0", trustedProxies: [127.0.0.0/8], proxyProtocol: {}}
- {name: behind-tls, address: "127.0.0.1:0", trustedProxies: [127.0.0.0/8], proxyProtocol: {}, tls: {certificates: [site]}}
- {name: unix, address: "unix:%s/a", tls: {certificates: [site]}}
certificates: [{name: site, certificateFile: site.crt, privateKeyFile: site.key}]
caBundles: [{name: ca, file: ca.pem}]
routes: [{name: all, respond: {body: here}}]
`, short(t)))
	proxied := "PROXY TCP4 192.0.2.1 10.0.0.1 8080 443\r\n"
	for _, a := range []arrival{
		{listener: "clear"},
		{listener: "tls", secure: true},
		{listener: "tls", secure: true, version: tls.VersionTLS12},
		{listener: "members", secure: true, shows: member},
		{listener: "behind", before: proxied},
		{listener: "behind-tls", before: proxied, secure: true},
		{listener: "unix", secure: true},
	} {
		t.Run(fmt.Sprintf("%s %x", a.listener, a.version), func(t *testing.T) {
			before := runtime.NumGoroutine()
			var all []*client
			for range conns {
				c := k.come(g, a)
				c.mustGet(t, "/")
				all = append(all, c)
			}
			until(t, "no goroutine for each", func() bool { return runtime.NumGoroutine()-before < conns/4 })
			for _, c := range all { // and each is served on
				if got := c.mustGet(t, "/"); got.body != "here" {
					t.Fatalf("%+v", got)
				}
				_ = c.Close()
			}
			until(t, "all are counted out", func() bool { open, _ := g.bound(a.listener).Counts(); return open == 0 })
		})
	}
}

// TestTLSLimit: connections over TLS that end make room for others.
func TestTLSLimit(t *testing.T) {
	k := newKeyring(t)
	k.issue("site", "site.example")
	g := start(t, Options{Folder: k.folder})
	g.apply(strings.Replace(secured, `:0", tls`, `:0", limits: {maxConnections: 2}, tls`, 1))
	first, second := k.mustSecure(g.at("web")), k.mustSecure(g.at("web"))
	second.mustGet(t, "/")
	for range 5 {
		third := dial(t, g.at("web"))
		come := make(chan error, 1)
		go func() { come <- tls.Client(third.Conn, &tls.Config{InsecureSkipVerify: true}).Handshake() }()
		if open, _ := g.bound("web").Counts(); open != 2 {
			t.Errorf("%d connections are open", open)
		}
		select {
		case err := <-come:
			t.Fatalf("the third has come in: %v", err)
		default:
		}
		first.mustGet(t, "/")
		_ = first.Close()
		if err := <-come; err != nil {
			t.Fatal(err)
		}
		_ = third.Close()
		first = k.mustSecure(g.at("web"))
	}
}

// TestSlowOverTLS: a client is sent away in time that sends nothing, the beginning of a
// record, or the beginning of a head.
func TestSlowOverTLS(t *testing.T) {
	k := newKeyring(t)
	k.issue("site", "site.example")
	g := start(t, Options{Folder: k.folder})
	g.apply(strings.Replace(secured, `:0", tls`, `:0", timeouts: {idle: 1s, header: 60s}, tls`, 1))
	const head = "GET / HTTP/1.1\r\nHost: a\r\n"
	for _, test := range []struct {
		name string
		send func(c *client, wire *corked) error
	}{
		{"nothing", func(*client, *corked) error { return nil }},
		{"after a request", func(c *client, _ *corked) error { _, err := c.get("/"); return err }},
		{"part of a record", func(c *client, wire *corked) error {
			wire.cork = true
			if err := c.send(head + "\r\n"); err != nil {
				return err
			}
			wire.kept = wire.kept[:len(wire.kept)-1]
			return wire.letGo()
		}},
		{"part of a record after a request", func(c *client, wire *corked) error {
			if _, err := c.get("/"); err != nil {
				return err
			}
			wire.cork = true
			if err := c.send(head + "\r\n"); err != nil {
				return err
			}
			wire.kept = wire.kept[:3]
			return wire.letGo()
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := dial(t, g.at("web"))
			wire := &corked{Conn: c.Conn}
			c.Conn = wire
			k.over(c, func(*tls.Config) {})
			if err := test.send(c, wire); err != nil {
				t.Fatal(err)
			}
			if rest, err := io.ReadAll(c.in); len(rest) > 0 || err != nil {
				t.Errorf("%q, %v", rest, err)
			}
		})
	}
	g.apply(strings.Replace(secured, `:0", tls`, `:0", timeouts: {header: 2s}, tls`, 1))
	c := k.mustSecure(g.at("web"))
	for _, b := range []byte(head) { // each a record
		if err := c.send(string(b)); err != nil {
			t.Fatal(err)
		}
	}
	if a, err := c.receive(); err != nil || a.status != 408 || !a.last {
		t.Errorf("part of a head: %+v, %v", a, err)
	}
}

// TestDrainOfMany: connections over TLS that rest end at once at a drain, one that has
// sent the beginning of a record too; a request that is under way is answered before.
func TestDrainOfMany(t *testing.T) {
	k := newKeyring(t)
	k.issue("site", "site.example")
	b := serve(t, "b")
	g := start(t, Options{Folder: k.folder})
	g.apply(fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", tls: {certificates: [site]}}]
certificates: [{name: site, certificateFile: site.crt, privateKeyFile: site.key}]
clusters: [{name: c, endpoints: [{address: "%s"}]}]
routes: [{name: c, forward: {backends: [{cluster: c}]}}]
`, b.address()))
	busy := k.mustSecure(g.at("web"))
	if err := busy.send("GET /hold HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-b.held
	var all []*client
	for i := range 20 {
		c := dial(t, g.at("web"))
		wire := &corked{Conn: c.Conn}
		c.Conn = wire
		k.over(c, func(*tls.Config) {})
		c.mustGet(t, "/")
		if i%2 == 0 {
			wire.cork = true
			if err := c.send("GET / HTTP/1.1\r\n"); err != nil {
				t.Fatal(err)
			}
			wire.kept = wire.kept[:8]
			if err := wire.letGo(); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, c)
	}
	g.drain()
	for i, c := range all {
		if rest, err := io.ReadAll(c.in); len(rest) > 0 || err != nil && i%2 != 0 {
			t.Errorf("%d: %q, %v", i, rest, err)
		}
	}
	close(b.hold)
	if a, err := busy.receive(); err != nil || a.status != 200 || !a.last {
		t.Errorf("the one under way: %+v, %v", a, err)
	}
}
