package dataplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"testing"
)

// drainManifest has two listeners, of which the second goes when it is left out.
func drainManifest(b *backend, extra, drain string) string {
	return fmt.Sprintf(`
listeners:
  - {name: web, address: "127.0.0.1:0", timeouts: {drain: %s}}
  %s
clusters: [{name: c, endpoints: [{address: "%s"}]}]
routes: [{name: c, forward: {backends: [{cluster: c}]}}]
`, drain, extra, b.address())
}

// holding starts a request that the backend does not answer before it is let.
func holding(t *testing.T, b *backend, a net.Addr) *client {
	t.Helper()
	c := dial(t, a)
	if err := c.send("GET /hold HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-b.held
	return c
}

// closed waits until the data plane has closed the connection.
func (c *client) closed(t *testing.T) {
	t.Helper()
	if _, err := c.in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("not closed but %v", err)
	}
}

// The first TERM: no connection is accepted any more, idle ones end, a request
// under way is answered, and then the process is done.
func TestDrainAnswersWhatIsUnderWay(t *testing.T) {
	b := serve(t, "b")
	g := start(t, Options{})
	g.apply(drainManifest(b, "", "60s"))
	a := g.at("web")
	idle := dial(t, a)
	idle.mustGet(t, "/")
	busy := holding(t, b, a)
	g.drain()
	idle.closed(t)
	if c, err := net.Dial("tcp", a.String()); err == nil {
		_ = c.Close()
		t.Error("a connection is accepted after the drain has begun")
	}
	if ready, why := g.readiness(); ready || why != "draining" {
		t.Errorf("ready: %v, %q", ready, why)
	}
	select {
	case err := <-g.ended:
		t.Fatalf("ended before the answer: %v", err)
	default:
	}
	close(b.hold)
	if got, err := busy.receive(); err != nil || got.status != 200 || !got.last {
		t.Errorf("the request under way got %+v, %v", got, err)
	}
	busy.closed(t)
	g.finish()
}

// A websocket is cut when the drain timeout is over.
func TestDrainCutsWebsocketsAfterTheTimeout(t *testing.T) {
	b := serve(t, "b")
	g := start(t, Options{})
	g.apply(drainManifest(b, "", "0.2s"))
	c := dial(t, g.at("web"))
	if err := c.websocket("/"); err != nil {
		t.Fatal(err)
	}
	g.drain()
	c.closed(t)
	g.finish()
}

// The second TERM ends a drain at once, also that of a listener that went with an
// earlier snapshot.
func TestHurryEndsAllDrains(t *testing.T) {
	b := serve(t, "b")
	g := start(t, Options{})
	g.apply(drainManifest(b, `- {name: old, address: "127.0.0.2:0", timeouts: {drain: 3600s}}`, "3600s"))
	var sockets []*client
	for _, name := range []string{"web", "old"} {
		c := dial(t, g.at(name))
		if err := c.websocket("/"); err != nil {
			t.Fatal(err)
		}
		sockets = append(sockets, c)
	}
	g.apply(drainManifest(b, "", "3600s"))
	g.drain()
	for _, c := range sockets {
		if err := c.echo([]byte("while it drains")); err != nil {
			t.Error(err)
		}
	}
	g.stop()
	for _, c := range sockets {
		c.closed(t)
	}
}

// A listener that leaves a snapshot drains: its address is free at once, what is
// under way is answered, and websockets live until its timeout.
func TestListenerThatGoesDrains(t *testing.T) {
	b := serve(t, "b")
	g := start(t, Options{})
	path := filepath.Join(t.TempDir(), "s")
	extra := fmt.Sprintf(`- {name: old, address: "unix:%s", timeouts: {drain: 3600s}}`, path)
	g.apply(drainManifest(b, extra, "30s"))
	web, old := g.at("web"), g.at("old")
	socket := dial(t, old)
	if err := socket.websocket("/"); err != nil {
		t.Fatal(err)
	}
	busy := holding(t, b, old)

	g.apply(drainManifest(b, "", "30s"))
	if _, err := connect(old); err == nil {
		t.Error("a connection is accepted over a listener that went")
	}
	if got := dial(t, web).mustGet(t, "/"); got.status != 200 {
		t.Errorf("the other listener: %+v", got)
	}
	// It comes back while the first one drains.
	g.apply(drainManifest(b, extra, "31s"))
	if got := dial(t, old).mustGet(t, "/"); got.status != 200 {
		t.Errorf("the same address again: %+v", got)
	}
	if err := socket.echo([]byte("still here")); err != nil {
		t.Error(err)
	}
	close(b.hold)
	if got, err := busy.receive(); err != nil || got.status != 200 {
		t.Errorf("the request under way got %+v, %v", got, err)
	}
	_ = socket.Close()
}

// Who is connected when a listener goes is served, accepted or not.
func TestListenerThatGoesServesWhoWaits(t *testing.T) {
	b := serve(t, "b")
	g := start(t, Options{})
	path := filepath.Join(t.TempDir(), "s")
	extra := fmt.Sprintf(`- {name: old, address: "unix:%s"}`, path)
	for i := range 30 {
		g.apply(drainManifest(b, extra, "30s"))
		var waiting []*client
		for range 8 {
			c := dial(t, g.at("old"))
			if err := c.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			waiting = append(waiting, c)
		}
		g.apply(drainManifest(b, "", "30s"))
		for _, c := range waiting {
			if got, err := c.receive(); err != nil || got.status != 200 {
				t.Fatalf("round %d: %+v, %v", i, got, err)
			}
		}
	}
}

// Two listeners whose ports the kernel chooses are two sockets.
func TestPortsChosenByTheKernel(t *testing.T) {
	g := start(t, Options{})
	g.apply(`
listeners: [{name: a, address: "127.0.0.1:0"}, {name: b, address: "127.0.0.1:0"}]
routes:
  - {name: a, listeners: [a], respond: {status: 200, body: a}}
  - {name: b, listeners: [b], respond: {status: 200, body: b}}
`)
	for _, name := range []string{"a", "b"} {
		if got := dial(t, g.at(name)).mustGet(t, "/"); got.body != name {
			t.Errorf("listener %s: %+v", name, got)
		}
	}
}

// A data plane that never served anything ends too.
func TestEndsWithoutASnapshot(t *testing.T) {
	g := start(t, Options{Control: "127.0.0.1:0", Admin: "127.0.0.1:0"})
	if found, err := g.Restore(context.Background()); found || err != nil {
		t.Errorf("%v, %v", found, err)
	}
	if ready, why := g.readiness(); ready || why == "" {
		t.Errorf("ready without a snapshot: %q", why)
	}
	g.finish()
}
