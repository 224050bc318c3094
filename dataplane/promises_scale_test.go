package dataplane

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"

	"github.com/headgate/headgate/dataplane/control"
)

// large is 10,000 routes to as many clusters, each with the number in its path
// and in a response header. Nobody answers at the endpoint.
func large(number int) *configv1.Snapshot {
	const size = 10_000
	s := &configv1.Snapshot{Listeners: []*configv1.Listener{{Name: "web", Address: "127.0.0.1:0"}}}
	for i := range size - 1 {
		c := cluster(fmt.Sprintf("c%d", i), "127.0.0.1:9")
		r := forward(fmt.Sprintf("r%d", i), fmt.Sprintf("/v1/%d", i), c.Name)
		r.Hosts = []string{fmt.Sprintf("h%d.example.com", i%100)}
		s.Clusters = append(s.Clusters, c)
		s.Routes = append(s.Routes, r)
	}
	s.Clusters = append(s.Clusters, cluster("last", "127.0.0.1:9"))
	s.Routes = append(s.Routes, changing(number))
	return s
}

// changing is the one route that changes.
func changing(number int) *configv1.Route {
	return &configv1.Route{
		Name:    "number",
		Matches: []*configv1.Match{{Path: &configv1.PathMatch{Kind: &configv1.PathMatch_Exact{Exact: "/number"}}}},
		Action:  &configv1.Route_Respond{Respond: &configv1.Respond{Status: 200, Body: fmt.Sprint(number)}},
	}
}

// BenchmarkApply10000 is the time from Apply to ACTIVE of 10,000 routes and as
// many clusters, the first that a data plane gets, with its state on disk. The
// bar is 2 s.
func BenchmarkApply10000(b *testing.B) {
	var watch stopwatch
	for b.Loop() {
		b.StopTimer()
		g := start(b, Options{StateDir: b.TempDir()})
		s := large(0)
		b.StartTimer()
		watch.start()
		g.applyMessage(s)
		watch.stop()
		b.StopTimer()
		g.stop()
		b.StartTimer()
	}
	watch.report(b)
}

// BenchmarkOneRouteOf10000 is the time from Apply to the first request that is
// answered by a route that has changed among 10,000, on a connection that was
// there before. The bar is 50 ms. A whole snapshot comes, decoded already.
func BenchmarkOneRouteOf10000(b *testing.B) {
	g := start(b, Options{StateDir: b.TempDir()})
	g.applyMessage(large(-1))
	c := dial(b, g.at("web"))
	var watch stopwatch
	number := 0
	for b.Loop() {
		number++
		b.StopTimer()
		s := large(number)
		b.StartTimer()
		watch.start()
		if _, err := g.Apply(context.Background(), control.Request{Snapshot: s}); err != nil {
			b.Fatal(err)
		}
		if a := c.mustGet(b, "/number"); a.body != fmt.Sprint(number) {
			b.Fatalf("%q, not %d", a.body, number)
		}
		watch.stop()
	}
	watch.report(b)
}

// BenchmarkOneMatchOf10000 is the same where what a route matches has changed, so
// that the route table is made anew.
func BenchmarkOneMatchOf10000(b *testing.B) {
	g := start(b, Options{StateDir: b.TempDir()})
	g.applyMessage(large(-1))
	c := dial(b, g.at("web"))
	var watch stopwatch
	number := 0
	for b.Loop() {
		number++
		b.StopTimer()
		s, path := large(0), fmt.Sprintf("/number%d", number)
		s.Routes[len(s.Routes)-1].Matches[0].Path = &configv1.PathMatch{Kind: &configv1.PathMatch_Exact{Exact: path}}
		b.StartTimer()
		watch.start()
		if _, err := g.Apply(context.Background(), control.Request{Snapshot: s}); err != nil {
			b.Fatal(err)
		}
		if a := c.mustGet(b, path); a.body != "0" {
			b.Fatalf("%q, not 0", a.body)
		}
		watch.stop()
	}
	watch.report(b)
}

// stopwatch measures operations one by one: the clock, and what the process used
// of all cores, which says more on a machine that others use too.
type stopwatch struct {
	began     time.Time
	used      time.Duration
	took      []time.Duration
	processor time.Duration
}

func (w *stopwatch) start() { w.began, w.used = time.Now(), processorTime() }

func (w *stopwatch) stop() {
	w.took = append(w.took, time.Since(w.began))
	w.processor += processorTime() - w.used
}

func (w *stopwatch) report(b *testing.B) {
	slices.Sort(w.took)
	milliseconds := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
	b.ReportMetric(milliseconds(w.took[0]), "shortest-ms")
	b.ReportMetric(milliseconds(w.took[len(w.took)/2]), "median-ms")
	b.ReportMetric(milliseconds(w.took[len(w.took)-1]), "longest-ms")
	b.ReportMetric(milliseconds(w.processor)/float64(len(w.took)), "cpu-ms/op")
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPatchOneRouteOf10000 is the same when the route alone is pushed over
// the control API, from the first message to the answer.
func BenchmarkPatchOneRouteOf10000(b *testing.B) {
	g := start(b, Options{StateDir: b.TempDir(), Control: "127.0.0.1:0"})
	active := g.applyMessage(large(-1)).Info
	p := push(b, g)
	c := dial(b, g.at("web"))
	var watch stopwatch
	number := 0
	for b.Loop() {
		number++
		watch.start()
		p.begin(active.Digest)
		p.route(changing(number))
		p.commit()
		active = p.active()
		if a := c.mustGet(b, "/number"); a.body != fmt.Sprint(number) {
			b.Fatalf("%q, not %d", a.body, number)
		}
		watch.stop()
	}
	watch.report(b)
}
