package dataplane

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/control"
)

// An address that is in use refuses the snapshot by the path of the field, and
// nothing is changed: no other listener of it stays bound, no cluster is made,
// and what ran runs on.
func TestListenerInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	b := serve(t, "b")
	g := start(t, Options{StateDir: t.TempDir()})
	g.apply(`
listeners: [{name: web, address: "127.0.0.1:0"}]
routes: [{name: r, respond: {status: 200, body: old}}]
`)
	c := dial(t, g.at("web"))
	free := filepath.Join(t.TempDir(), "s")
	refusal := g.refused(control.Request{Snapshot: parse(t, fmt.Sprintf(`
listeners:
  - {name: web, address: "127.0.0.1:0"}
  - {name: free, address: "unix:%s"}
  - {name: taken, address: "%s"}
clusters: [{name: c, endpoints: [{address: "%s"}], healthCheck: {http: {path: /healthz}}}]
routes: [{name: r, forward: {backends: [{cluster: c}]}}]
`, free, taken.Addr(), b.address()))}, control.ReasonNode)
	paths := make([]string, 0, 1)
	for _, v := range refusal.Violations {
		paths = append(paths, v.Path)
	}
	if !slices.Equal(paths, []string{"listeners[2].address"}) {
		t.Errorf("refused for %v: %v", paths, refusal)
	}
	if !strings.Contains(refusal.Error(), "in use") {
		t.Errorf("the cause is not said: %v", refusal)
	}
	if a := c.mustGet(t, "/"); a.body != "old" {
		t.Errorf("after the refusal: %+v", a)
	}
	if c, err := net.Dial("unix", free); err == nil {
		_ = c.Close()
		t.Error("another listener of the refused snapshot is bound")
	}
	if n := len(g.registry.Status()); n != 0 {
		t.Errorf("%d clusters of the refused snapshot", n)
	}
	if l := g.Status().Listeners; len(l) != 1 {
		t.Errorf("listeners after the refusal: %v", l)
	}
}

// The newest generation on disk is corrupt: the one before it runs, and that is
// said.
func TestCorruptGenerationFallsBack(t *testing.T) {
	for name, corrupt := range map[string]func([]byte) []byte{
		"a bit is turned": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"cut short":       func(b []byte) []byte { return b[:len(b)-7] },
		"empty":           func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			g := start(t, Options{StateDir: dir})
			g.applyMessage(numberedRequest(1).Snapshot)
			g.applyMessage(numberedRequest(2).Snapshot)
			g.stop()
			newest := filepath.Join(dir, "generations", "2.pb")
			data, err := os.ReadFile(newest)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(newest, corrupt(data), 0o600); err != nil {
				t.Fatal(err)
			}

			g = start(t, Options{StateDir: dir})
			events := g.events.ReadFrom(1, g.events.Instance())
			if found, err := g.Restore(context.Background()); !found || err != nil {
				t.Fatalf("%v, %v", found, err)
			}
			if a := dial(t, g.at("web")).mustGet(t, "/number"); a.body != "1" {
				t.Errorf("after a restart: %+v", a)
			}
			e := await(t, events, func(e *controlv1.Event) bool { return e.GetStore() != nil })
			if e.GetStore().Generation != 2 || e.GetStore().Cause == "" {
				t.Errorf("it is said as %v", e)
			}
			// Its number is not used again.
			if n := g.applyMessage(numberedRequest(3).Snapshot).Info.Generation; n != 3 {
				t.Errorf("the next generation is %d", n)
			}
		})
	}
}

// Two data planes do not share a state directory.
func TestStateDirectoryIsLocked(t *testing.T) {
	dir := t.TempDir()
	g := start(t, Options{StateDir: dir})
	g.applyMessage(numberedRequest(1).Snapshot)
	second, err := New(context.Background(), Options{StateDir: dir})
	if err == nil {
		second.close(context.Background())
		t.Fatal("a second data plane has the directory too")
	}
	if !strings.Contains(err.Error(), dir) {
		t.Errorf("the error does not name the directory: %v", err)
	}
	g.applyMessage(numberedRequest(2).Snapshot)
	g.stop()
	third := start(t, Options{StateDir: dir})
	if found, err := third.Restore(context.Background()); !found || err != nil {
		t.Errorf("after the first has ended: %v, %v", found, err)
	}
}

// The control API is on loopback, or somebody must be able to say who calls.
func TestControlAddressNeedsCredentials(t *testing.T) {
	s, err := New(context.Background(), Options{Control: "0.0.0.0:0"})
	if err == nil {
		s.close(context.Background())
		t.Fatal("it listens on every address without credentials")
	}
}
