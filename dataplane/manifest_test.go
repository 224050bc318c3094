package dataplane

import (
	"errors"
	"strings"
	"testing"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// A manifest that is refused is an event and in the status, whatever is pushed
// meanwhile, until it is good again.
func TestManifestRefused(t *testing.T) {
	g := start(t, Options{})
	const manifest = `{listeners: [{name: web, address: "127.0.0.1:0"}], routes: [{name: all, respond: {body: %}}]}`
	g.apply(strings.Replace(manifest, "%", "one", 1))
	events := g.events.ReadNew()
	g.ManifestRefused("routes.yaml", errors.New("routes.yaml:4:1: no such field\nroutes.yaml:5:1: nor this\nroutes.yaml:6:1: nor that"))
	u := await(t, events, func(e *controlv1.Event) bool { return e.GetSnapshot() != nil }).GetSnapshot().Update
	const reason = "the manifest is refused, what ran before runs on: routes.yaml:4:1: no such field (and 2 more)"
	if d := u.Degradations; u.State != controlv1.SnapshotState_SNAPSHOT_STATE_DEGRADED || len(d) != 1 || d[0].Reason != reason || d[0].Resource.Name != "routes.yaml" {
		t.Errorf("event: %v", u)
	}
	g.apply(strings.Replace(manifest, "%", "two", 1))
	status := g.Status()
	g.applier.FillStatus(status.Node)
	if d := status.Node.Degradations; len(d) != 1 || d[0].Reason != reason {
		t.Errorf("status after a push: %v", d)
	}
	g.ManifestTaken("routes.yaml")
	status = g.Status()
	g.applier.FillStatus(status.Node)
	if d := status.Node.Degradations; len(d) != 0 {
		t.Errorf("status when it is good again: %v", d)
	}
	g.ManifestRefused("routes.yaml", errors.New(strings.Repeat("x", 10_000)))
	if list, _ := g.applier.Degradations(); len(list[0].Reason) > 2*maxRefusal {
		t.Errorf("a reason of %d bytes", len(list[0].Reason))
	}
}
