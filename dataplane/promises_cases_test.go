package dataplane

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/control"
	"github.com/headgate/headgate/dataplane/upstream"
)

// These are faults that users met in other proxies, each told as what happens
// and what is right.

// The control stream is cut in the middle of a push, and the same snapshot is
// pushed again: it is applied once, and who reconnects is told what is active.
func TestPushIsCutAndRepeated(t *testing.T) {
	g := start(t, Options{Control: "127.0.0.1:0"})
	web := &configv1.Listener{Name: "web", Address: "127.0.0.1:0"}
	events := g.events.ReadNew()

	first := push(t, g)
	if first.current.Active != nil {
		t.Fatalf("%v is active before anything was pushed", first.current.Active)
	}
	first.begin("")
	first.listener(web)
	first.cut()

	second := push(t, g)
	if second.current.Active != nil {
		t.Fatalf("%v is active: it was never committed", second.current.Active)
	}
	second.begin("")
	second.listener(web)
	second.route(changing(1))
	second.commit()
	active := second.active()

	third := push(t, g)
	if got := third.current.Active; got.GetDigest() != active.Digest || got.GetGeneration() != 1 {
		t.Errorf("after a reconnect %v is active, not %v", got, active)
	}
	third.begin("")
	third.listener(web)
	third.route(changing(1))
	third.commit()
	u := third.update()
	if !u.Unchanged || u.Snapshot.GetGeneration() != 1 {
		t.Errorf("the same again: %v", u)
	}
	// One ACTIVE was news and one says that nothing changed.
	changed := 0
	for range 2 {
		e := await(t, events, func(e *controlv1.Event) bool {
			return e.GetSnapshot().GetUpdate().GetState() == controlv1.SnapshotState_SNAPSHOT_STATE_ACTIVE
		})
		if !e.GetSnapshot().GetUpdate().GetUnchanged() {
			changed++
		}
	}
	if changed != 1 {
		t.Errorf("applied %d times", changed)
	}
}

// A websocket runs through route A, and a snapshot adds route B: A's socket
// lives on, byte for byte. It does so too when route A and its cluster go.
func TestWebsocketOutlivesApplies(t *testing.T) {
	b := serve(t, "a")
	g := start(t, Options{})
	routeA := fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0"}]
clusters: [{name: a, endpoints: [{address: "%s"}]}]
routes:
  - {name: a, matches: [{path: {exact: /a}}], forward: {backends: [{cluster: a}]}}
`, b.address())
	g.apply(routeA)
	c := dial(t, g.at("web"))
	if err := c.websocket("/a"); err != nil {
		t.Fatal(err)
	}
	for i, manifest := range []string{
		routeA + "  - {name: b, matches: [{path: {exact: /b}}], respond: {status: 200}}\n",
		routeA,
		strings.Replace(routeA, "/a}", "/other}", 1),
		`{listeners: [{name: web, address: "127.0.0.1:0"}], routes: [{name: b, respond: {status: 200}}]}`,
	} {
		// Half of a message is under way while the snapshot changes.
		text := fmt.Sprintf("message %d", i)
		if err := c.send(text[:4]); err != nil {
			t.Fatal(err)
		}
		g.apply(manifest)
		if err := c.send(text[4:]); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(text))
		for n := range got {
			var err error
			if got[n], err = c.in.ReadByte(); err != nil {
				t.Fatalf("after %d applies: %v", i+1, err)
			}
		}
		if string(got) != text {
			t.Errorf("%q came back for %q", got, text)
		}
	}
}

// Many applies with a thousand sockets open: none is dropped. That memory stays
// flat, TestApplyCostsNothing and TestManyAppliesLeaveNothing hold.
func TestAppliesUnderAThousandSockets(t *testing.T) {
	sockets := 1000
	if testing.Short() {
		sockets = 100
	}
	fleet := newFleet(t)
	g := start(t, Options{})
	g.applyMessage(fleet.atRest())
	tr := newTraffic(t, g.at("web"), bar{sockets: sockets})
	defer tr.end()
	for i := range 30 {
		g.applyMessage(fleet.numbered(i))
	}
	for i, c := range tr.sockets {
		if !tr.echo(t, c, fmt.Sprintf("socket %d lives", i)) {
			return
		}
	}
}

// A server is known to be down, its probe interval is 30 s, and an unrelated
// snapshot is applied: it is still down, and neither a request nor a probe goes
// there.
func TestKnownToBeDownStaysDown(t *testing.T) {
	up, down := serve(t, "up"), serve(t, "down")
	down.probe.Store(http.StatusInternalServerError)
	g := start(t, Options{})
	manifest := fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0"}]
clusters:
  - name: c
    endpoints: [{address: "%s"}, {address: "%s"}]
    panicThreshold: 0
    healthCheck: {http: {path: /healthz}, interval: 600s, timeout: 60s, unhealthyThreshold: 1}
routes:
  - {name: c, matches: [{path: {exact: /c}}], forward: {backends: [{cluster: c}]}}
`, up.address(), down.address())
	events := g.events.ReadNew()
	g.apply(manifest)
	await(t, events, func(e *controlv1.Event) bool {
		h := e.GetEndpointHealth()
		return h.GetEndpoint() == down.address() && h.GetTo() == controlv1.HealthState_HEALTH_STATE_UNHEALTHY
	})
	probes := down.probes.Load()
	c := dial(t, g.at("web"))
	for i, change := range []string{
		"  - {name: unrelated, matches: [{path: {exact: /u}}], respond: {status: 200}}\n",
		"  - {name: other, matches: [{path: {exact: /o}}], respond: {status: 200}}\n",
		"telemetry: {recentRequests: 100}\n",
	} {
		g.apply(manifest + change)
		for range 6 {
			if a := c.mustGet(t, "/c"); a.header.Get("X-From") != "up" {
				t.Fatalf("after change %d: %+v", i, a)
			}
		}
		if e := g.endpoint("c", down.address()); e.Health != upstream.StateUnhealthy {
			t.Errorf("after change %d it is %s", i, e.Health)
		}
	}
	if down.requests.Load() != 0 || down.probes.Load() != probes {
		t.Errorf("it got %d requests and %d probes more", down.requests.Load(), down.probes.Load()-probes)
	}
}

// One bad route among a hundred: the whole snapshot is refused with the path of
// the fault, and the old one serves on.
func TestOneBadRouteOfAHundred(t *testing.T) {
	g := start(t, Options{StateDir: t.TempDir()})
	hundred := func(marker string) *configv1.Snapshot {
		s := &configv1.Snapshot{Listeners: []*configv1.Listener{{Name: "web", Address: "127.0.0.1:0"}}}
		for i := range 100 {
			s.Routes = append(s.Routes, &configv1.Route{
				Name:    fmt.Sprintf("r%d", i),
				Matches: []*configv1.Match{{Path: &configv1.PathMatch{Kind: &configv1.PathMatch_Exact{Exact: fmt.Sprintf("/%d", i)}}}},
				Action:  &configv1.Route_Respond{Respond: &configv1.Respond{Status: 200, Body: marker}},
			})
		}
		return s
	}
	g.applyMessage(hundred("old"))
	c := dial(t, g.at("web"))
	bad := hundred("new")
	bad.Routes[57] = forward("r57", "/57", "nobody")
	refusal := g.refused(control.Request{Snapshot: bad}, control.ReasonInvalid)
	if len(refusal.Violations) != 1 || refusal.Violations[0].Path != "routes[57].forward.backends[0].cluster" {
		t.Errorf("refused for %v", refusal.Violations)
	}
	for _, path := range []string{"/0", "/57", "/99"} {
		if a := c.mustGet(t, path); a.status != 200 || a.body != "old" {
			t.Errorf("%s after the refusal: %+v", path, a)
		}
	}
	if n := len(g.store.List()); n != 1 {
		t.Errorf("%d generations are on disk", n)
	}
}

// Many applies: goroutines and heap are back where they were. The event log is
// full before the first look, so nothing may grow any more.
func TestManyAppliesLeaveNothing(t *testing.T) {
	applies := 600
	switch {
	case os.Getenv(barsVariable) == "full":
		applies = 10_000
	case testing.Short():
		applies = 100
	}
	fleet := newFleet(t)
	g := start(t, Options{})
	rest := fleet.atRest()
	g.applyMessage(rest)
	var goroutines level
	goroutines.reached()
	for range 4096 {
		g.events.Publish(&controlv1.Event{Detail: &controlv1.Event_Snapshot{Snapshot: &controlv1.SnapshotEvent{
			Update: &controlv1.StateUpdate{Reason: strings.Repeat("about as long as those that come ", 32)},
		}}})
	}
	for i := range 20 {
		g.applyMessage(fleet.numbered(i))
	}
	g.settle(rest)
	until(t, "as few goroutines as before", goroutines.reached)
	heap := heapInUse()
	for i := range applies {
		g.applyMessage(fleet.numbered(i))
	}
	g.settle(rest)
	until(t, "as few goroutines as before", goroutines.reached)
	const bound = 2 << 20
	growth := heapInUse() - heap
	if growth > bound {
		t.Errorf("the heap grew by %d bytes in %d applies, from %d", growth, applies, heap)
	}
	t.Logf("%d applies: heap %d %+d bytes, %d goroutines", applies, heap, growth, goroutines.lowest)
}

// One live server and one dead one, and the live one gives a single 502: the
// next request still has somewhere to go.
func TestASingleFailureLeavesSomewhereToGo(t *testing.T) {
	live, dead := serve(t, "live"), serve(t, "dead")
	dead.end()
	g := start(t, Options{})
	g.apply(fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0"}]
clusters:
  - name: c
    endpoints: [{address: "%s"}, {address: "%s"}]
    outlierDetection: {consecutiveFailures: 1, maxEjectionPercent: 100}
routes:
  - {name: c, forward: {backends: [{cluster: c}]}}
`, live.address(), dead.address()))
	c := dial(t, g.at("web"))
	// Until the dead one is out of service.
	until(t, "the dead one is ejected", func() bool {
		if a := c.mustGet(t, "/"); a.status != 200 {
			t.Fatalf("%+v", a)
		}
		return g.endpoint("c", dead.address()).State == upstream.StateEjected
	})
	live.status.Store(http.StatusBadGateway)
	if a := c.mustGet(t, "/"); a.status != http.StatusBadGateway {
		t.Fatalf("%+v", a)
	}
	live.status.Store(http.StatusOK)
	for range 4 {
		if a := c.mustGet(t, "/"); a.status != 200 || a.header.Get("X-From") != "live" {
			t.Fatalf("after one 502: %+v", a)
		}
	}
}

// A pooled connection is used again only for the address that it was made for,
// and by the cluster that made it; and for that, an apply is no reason to make
// another.
func TestPooledConnectionKeepsItsAddress(t *testing.T) {
	first, second := serve(t, "first"), serve(t, "second")
	g := start(t, Options{})
	c := (*client)(nil)
	for i, to := range []*backend{first, first, second, first} {
		g.apply(fmt.Sprintf(`
version: "%d"
listeners: [{name: web, address: "127.0.0.1:0"}]
clusters:
  - {name: c, endpoints: [{address: "%s"}]}
  - {name: other, endpoints: [{address: "%s"}]}
routes:
  - {name: c, matches: [{path: {exact: /c}}], forward: {backends: [{cluster: c}]}}
  - {name: other, matches: [{path: {exact: /other}}], forward: {backends: [{cluster: other}]}}
  - {name: r%d, matches: [{path: {exact: /r}}], respond: {status: 200}}
`, i, to.address(), first.address(), i))
		if c == nil {
			c = dial(t, g.at("web"))
		}
		for range 3 {
			if a := c.mustGet(t, "/c"); a.header.Get("X-From") != to.name {
				t.Fatalf("snapshot %d: %+v", i, a)
			}
		}
		if i == 1 {
			if n := first.connections(); n != 1 {
				t.Errorf("%d connections for two snapshots of one cluster", n)
			}
			c.mustGet(t, "/other")
			if n := first.connections(); n != 2 {
				t.Errorf("%d connections of two clusters to one address", n)
			}
		}
	}
}

// Swaps between whole snapshots: what a request is told and what the backend is
// told come from one snapshot, whichever, while both writers go on.
func TestNoRequestSeesHalfOfASnapshot(t *testing.T) {
	fleet := newFleet(t)
	g := start(t, Options{})
	g.applyMessage(fleet.numbered(0))
	ctx, stop := context.WithCancel(context.Background())
	applied := make(chan error, 1)
	go func() {
		var err error
		for i := 1; ctx.Err() == nil && err == nil; i++ {
			_, err = g.Apply(context.Background(), control.Request{Snapshot: fleet.numbered(i), AllowShrink: true})
		}
		applied <- err
	}()
	c, seen := dial(t, g.at("web")), map[string]bool{}
	for len(seen) < 30 {
		a := c.mustGet(t, "/numbered")
		if a.header.Get("X-Marker") != a.header.Get("X-Seen") {
			t.Errorf("the backend saw snapshot %s, the client %s", a.header.Get("X-Seen"), a.header.Get("X-Marker"))
			break
		}
		seen[a.header.Get("X-Marker")] = true
	}
	stop()
	if err := <-applied; err != nil {
		t.Error(err)
	}
}
