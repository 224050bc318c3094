package dataplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"testing"
	"weak"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/control"
	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/upstream"
)

func numberedRequest(n int) control.Request {
	return control.Request{Snapshot: &configv1.Snapshot{
		Listeners: []*configv1.Listener{{Name: "web", Address: "127.0.0.1:0"}},
		Routes:    []*configv1.Route{changing(n)},
	}}
}

// Two writers: once the second has written under a higher term, the first, which
// believes to lead still, changes nothing, and no restart forgets that.
func TestTwoWritersWithTerms(t *testing.T) {
	dir := t.TempDir()
	g := start(t, Options{StateDir: dir})
	write := func(n int, term uint64) control.Request {
		r := numberedRequest(n)
		r.Term = term
		return r
	}
	for n, term := range []uint64{1, 1, 2} {
		if _, err := g.Apply(context.Background(), write(n, term)); err != nil {
			t.Fatal(err)
		}
	}
	g.refused(write(7, 1), control.ReasonStaleTerm)
	g.refused(numberedRequest(8), control.ReasonStaleTerm)
	// A term counts as soon as it is seen, whatever comes of the snapshot.
	invalid := control.Request{Snapshot: &configv1.Snapshot{Routes: []*configv1.Route{forward("r", "/", "nobody")}}, Term: 3}
	g.refused(invalid, control.ReasonInvalid)
	g.refused(write(9, 2), control.ReasonStaleTerm)
	g.stop()

	g = start(t, Options{StateDir: dir})
	if found, err := g.Restore(context.Background()); !found || err != nil {
		t.Fatalf("%v, %v", found, err)
	}
	if a := dial(t, g.at("web")).mustGet(t, "/number"); a.body != "2" {
		t.Errorf("after a restart: %+v", a)
	}
	g.refused(write(10, 2), control.ReasonStaleTerm)
	if _, err := g.Apply(context.Background(), write(11, 3)); err != nil {
		t.Error(err)
	}
	if info, _ := g.applier.Active(); info.Generation != 4 {
		t.Errorf("generation %d is the fourth activation", info.Generation)
	}
}

// A write on a base that is no longer active changes nothing; also when two
// race for the same base, of whom one wins.
func TestCompareAndSwap(t *testing.T) {
	g := start(t, Options{StateDir: t.TempDir()})
	base := g.applyMessage(numberedRequest(0).Snapshot).Info.Digest
	const writers = 8
	outcomes := make(chan error, writers)
	for n := range writers {
		go func() {
			r := numberedRequest(n + 1)
			r.BaseDigest = base
			_, err := g.Apply(context.Background(), r)
			outcomes <- err
		}()
	}
	won := 0
	for range writers {
		if err := <-outcomes; err == nil {
			won++
		}
	}
	if won != 1 {
		t.Errorf("%d writers replaced the same base", won)
	}
	stale := numberedRequest(100)
	stale.BaseDigest = base
	g.refused(stale, control.ReasonBaseDigest)
	if info, _ := g.applier.Active(); info.Generation != 2 {
		t.Errorf("generation %d after two activations", info.Generation)
	}
}

// weighted is a manifest with a cluster of which a has weight 3 and b has 1, and
// with something else that changes with n.
func weighted(n int, a, b *backend) string {
	return fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", timeouts: {idle: %ds}}]
clusters:
  - name: c
    endpoints: [{address: "%s", weight: 3}, {address: "%s"}]
    outlierDetection: {consecutiveFailures: 2, ejectionTime: 300s}
routes:
  - {name: c, matches: [{path: {prefix: /}}], forward: {backends: [{cluster: c}], retry: {attempts: 0}}}
  - {name: "r%d", matches: [{path: {exact: /r}}], respond: {status: 200}}
`, 100+n, a.address(), b.address(), n)
}

// The turn of smooth weighted round robin goes on over applies: of any 4 requests
// in a row 3 go to the heavier one, however many applies come between.
func TestTurnsGoOnOverApplies(t *testing.T) {
	a, b := serve(t, "a"), serve(t, "b")
	g := start(t, Options{})
	g.apply(weighted(0, a, b))
	c := dial(t, g.at("web"))
	order := ""
	for i := range 24 {
		order += c.mustGet(t, "/").header.Get("X-From")
		g.apply(weighted(i+1, a, b))
	}
	for i := 4; i < len(order); i += 4 {
		if order[i:i+4] != order[:4] {
			t.Fatalf("the turns are %s", order)
		}
	}
	if a.requests.Load() != 18 || b.requests.Load() != 6 {
		t.Errorf("%d and %d of 24", a.requests.Load(), b.requests.Load())
	}
}

// An ejected endpoint stays ejected over applies.
func TestEjectionOutlivesApplies(t *testing.T) {
	a, b := serve(t, "a"), serve(t, "b")
	g := start(t, Options{})
	g.apply(weighted(0, a, b))
	c := dial(t, g.at("web"))
	b.status.Store(http.StatusServiceUnavailable)
	until(t, "b is ejected", func() bool {
		c.mustGet(t, "/")
		return g.endpoint("c", b.address()).State == upstream.StateEjected
	})
	b.status.Store(http.StatusOK)
	seen := b.requests.Load()
	for i := range 5 {
		g.apply(weighted(i+1, a, b))
		for range 4 {
			if got := c.mustGet(t, "/"); got.header.Get("X-From") != "a" {
				t.Fatalf("after %d applies: %+v", i+1, got)
			}
		}
	}
	if b.requests.Load() != seen {
		t.Errorf("b got %d requests", b.requests.Load()-seen)
	}
}

// A request that is under way is counted through applies, and counted out by the
// snapshot that runs when it ends: a limit of requests does not leak.
func TestInFlightIsCountedOverApplies(t *testing.T) {
	b := serve(t, "b")
	g := start(t, Options{})
	manifest := func(n int) string {
		return fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", timeouts: {idle: %ds}}]
clusters: [{name: c, endpoints: [{address: "%s"}], limits: {maxRequests: 1}}]
routes: [{name: c, forward: {backends: [{cluster: c}]}}]
`, 100+n, b.address())
	}
	g.apply(manifest(0))
	slow, other := dial(t, g.at("web")), dial(t, g.at("web"))
	if err := slow.send("GET /hold HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-b.held
	for i := range 3 {
		g.apply(manifest(i + 1))
		if e := g.endpoint("c", b.address()); e.InFlight != 1 {
			t.Errorf("%d in flight", e.InFlight)
		}
		if a := other.mustGet(t, "/"); a.status != http.StatusServiceUnavailable {
			t.Errorf("over the limit: %+v", a)
		}
	}
	close(b.hold)
	if a, err := slow.receive(); err != nil || a.status != 200 {
		t.Fatalf("%+v, %v", a, err)
	}
	until(t, "the request is counted out", func() bool { return other.mustGet(t, "/").status == 200 })
	until(t, "none is in flight", func() bool { return g.endpoint("c", b.address()).InFlight == 0 })
}

// weakly is the active snapshot, not held.
func weakly(g *gate) weak.Pointer[snapshot.Snapshot] {
	_, active := g.applier.Active()
	return weak.Make(active)
}

// A snapshot that was replaced is let go of once nothing is served by it any
// more, also if it had a listener that is gone.
func TestReplacedSnapshotIsLetGo(t *testing.T) {
	b := serve(t, "b")
	g := start(t, Options{StateDir: t.TempDir()})
	g.apply(drainManifest(b, `- {name: old, address: "127.0.0.2:0"}`, "30s"))
	c := dial(t, g.at("old"))
	c.mustGet(t, "/")
	old := weakly(g)
	g.apply(drainManifest(b, "", "30s"))
	g.apply(drainManifest(b, "", "31s"))
	dial(t, g.at("web")).mustGet(t, "/")
	g.sockets.drains.Wait()
	until(t, "the old snapshot is let go of", func() bool {
		runtime.GC()
		return old.Value() == nil
	})
}

// A controller that comes while the last snapshot is being restored waits for
// that, and then has its own applied.
func TestPushWhileRestoring(t *testing.T) {
	b := serve(t, "b")
	dir := t.TempDir()
	manifest := fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0"}]
clusters: [{name: c, endpoints: [{address: "%s"}], healthCheck: {http: {path: /hold}, timeout: 60s}}]
routes: [{name: c, forward: {backends: [{cluster: c}]}}]
`, b.address())
	close(b.hold)
	g := start(t, Options{StateDir: dir})
	g.apply(manifest)
	<-b.held
	g.stop()

	b.hold = make(chan struct{})
	g = start(t, Options{StateDir: dir})
	restored := make(chan error, 1)
	go func() {
		_, err := g.Restore(context.Background())
		restored <- err
	}()
	<-b.held // it waits for its cluster to be warm
	events := g.events.ReadNew()
	for range 8 { // who gives up while he waits has not begun
		ctx, giveUp := context.WithCancel(context.Background())
		giveUp()
		if _, err := g.Apply(ctx, numberedRequest(6)); !errors.Is(err, context.Canceled) {
			t.Fatalf("given up with %v", err)
		}
	}
	if info, _ := g.applier.Active(); info != nil {
		t.Fatalf("%v is active while the last snapshot is being restored", info)
	}
	applied := make(chan error, 1)
	go func() {
		_, err := g.Apply(context.Background(), numberedRequest(7))
		applied <- err
	}()
	await(t, events, func(e *controlv1.Event) bool {
		return e.GetSnapshot().GetUpdate().GetState() == controlv1.SnapshotState_SNAPSHOT_STATE_RECEIVED
	})
	close(b.hold)
	if err := <-restored; err != nil {
		t.Error(err)
	}
	if err := <-applied; err != nil {
		t.Error(err)
	}
	if info, _ := g.applier.Active(); info.GetGeneration() != 2 {
		t.Errorf("generation %d runs, not the one that was pushed", info.GetGeneration())
	}
	if a := dial(t, g.at("web")).mustGet(t, "/number"); a.body != "7" {
		t.Errorf("%+v", a)
	}
}

// What was pushed before a restart has found its snapshot is not undone by it.
func TestRestoreAfterPush(t *testing.T) {
	dir := t.TempDir()
	g := start(t, Options{StateDir: dir})
	g.applyMessage(numberedRequest(1).Snapshot)
	g.stop()
	g = start(t, Options{StateDir: dir})
	g.applyMessage(numberedRequest(2).Snapshot)
	if found, err := g.Restore(context.Background()); !found || err != nil {
		t.Errorf("%v, %v", found, err)
	}
	if a := dial(t, g.at("web")).mustGet(t, "/number"); a.body != "2" {
		t.Errorf("%+v", a)
	}
}
