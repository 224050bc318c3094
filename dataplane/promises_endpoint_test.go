package dataplane

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// drains is a client of DrainService.
func drains(t *testing.T, g *gate) controlv1.DrainServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(g.ControlAddr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return controlv1.NewDrainServiceClient(conn)
}

// A drained endpoint answers what it has begun and gets nothing more: over an
// apply, and over a restart. It is said in the status, the events and the
// metrics.
func TestDrainedByHand(t *testing.T) {
	a, b := serve(t, "a"), serve(t, "b")
	dir := t.TempDir()
	g := start(t, Options{Control: "127.0.0.1:0", Admin: "127.0.0.1:0", StateDir: dir})
	g.apply(weighted(0, a, b))
	seen := g.events.ReadNew()
	held, result := dial(t, g.at("web")), make(chan answer, 1)
	go func() {
		got, _ := held.get("/hold")
		result <- got
	}()
	<-a.held // the first turn is a's
	client := drains(t, g)
	m, err := client.Drain(context.Background(), &controlv1.DrainRequest{Cluster: "c", Endpoint: a.address(), Writer: "mia", Reason: "new disk"})
	if err != nil || m.Endpoint.GetRequestsInFlight() != 1 || m.Endpoint.GetDrain().GetReason() != "new disk" {
		t.Fatalf("%v, %v", m, err)
	}
	await(t, seen, func(e *controlv1.Event) bool {
		d := e.GetDrain()
		return d.GetDrained() && d.GetEndpoint() == a.address() && d.GetWriter() == "mia" && d.GetCause() == "new disk"
	})
	onlyB := func(g *gate) {
		t.Helper()
		c := dial(t, g.at("web"))
		for range 20 {
			if got := c.mustGet(t, "/"); got.header.Get("X-From") != "b" {
				t.Fatalf("%+v", got)
			}
		}
	}
	onlyB(g)
	g.apply(weighted(1, a, b))
	onlyB(g)
	close(a.hold)
	if got := <-result; got.status != 200 || got.header.Get("X-From") != "a" {
		t.Errorf("what was in flight: %+v", got)
	}
	want := `headgate_upstream_drained{headgate_cluster="c",headgate_endpoint="` + a.address() + `"} 1`
	if text := metrics(t, g); !strings.Contains(text, want) {
		t.Errorf("no %s in the metrics", want)
	}
	g.stop()

	g = start(t, Options{Control: "127.0.0.1:0", StateDir: dir})
	if found, err := g.Restore(context.Background()); !found || err != nil {
		t.Fatalf("%v, %v", found, err)
	}
	onlyB(g)
	if list := g.Status().Node.Drained; len(list) != 1 || list[0].Drain.Writer != "mia" || list[0].Drain.Since == nil {
		t.Errorf("drained after a restart: %v", list)
	}
	if _, err := drains(t, g).Undrain(context.Background(), &controlv1.UndrainRequest{Cluster: "c", Endpoint: a.address()}); err != nil {
		t.Fatal(err)
	}
	c := dial(t, g.at("web"))
	until(t, "a request goes to what was put back", func() bool { return c.mustGet(t, "/").header.Get("X-From") == "a" })
}

// metrics is what the admin pages show to a scraper.
func metrics(t *testing.T, g *gate) string {
	t.Helper()
	response, err := http.Get("http://" + g.AdminAddr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
