package dataplane

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
)

// barsVariable set to "full" runs the bar as it is promised: 1,000 applies under
// 2,000 requests a second. Without it there are fewer of both, so that the test
// fits a small machine that does other things too.
const barsVariable = "HEADGATE_BARS"

// bar is how hard TestApplyCostsNothing tries.
type bar struct {
	applies, sockets, clients int
	rate                      int // requests a second, all clients together
}

func theBar() bar {
	switch {
	case os.Getenv(barsVariable) == "full":
		return bar{applies: 1000, sockets: 100, clients: 20, rate: 2000}
	case testing.Short():
		return bar{applies: 40, sockets: 20, clients: 5, rate: 200}
	}
	return bar{applies: 150, sockets: 100, clients: 10, rate: 500}
}

// maxGrowth bounds what the heap may grow by between two moments of rest with
// the same snapshot active, in bytes. The event log keeps 4096 events, three or
// so of each apply; it is what grows until it is full.
const maxGrowth = 6 << 20

// TestApplyCostsNothing applies many snapshots, each different from the one
// before in clusters, routes, weights, timeouts and listeners, while requests
// and websockets run. Nothing fails, no answer is made of two snapshots, and in
// the end there are as many goroutines as in the beginning and no more memory.
func TestApplyCostsNothing(t *testing.T) {
	bar := theBar()
	fleet := newFleet(t)
	g := start(t, Options{StateDir: t.TempDir()})
	rest := fleet.atRest()
	g.applyMessage(rest)

	traffic := newTraffic(t, g.at("web"), bar)
	defer traffic.end()
	var goroutines level
	goroutines.reached()
	// What is made once and kept is made now.
	g.applyMessage(fleet.numbered(0))
	traffic.run(t, func() {
		for i := range 20 {
			g.applyMessage(fleet.numbered(i))
		}
	})
	g.settle(rest)
	until(t, "as few goroutines as before", goroutines.reached)
	heap := heapInUse()

	g.applyMessage(fleet.numbered(0))
	began := time.Now()
	traffic.run(t, func() {
		for i := range bar.applies {
			g.applyMessage(fleet.numbered(i))
			if i%25 == 0 {
				fleet.ask(t, i)
			}
		}
	})
	took := time.Since(began)
	g.settle(rest)
	until(t, "as few goroutines as before", goroutines.reached)
	growth := heapInUse() - heap
	if growth > maxGrowth {
		t.Errorf("the heap grew by %d bytes in %d applies, from %d", growth, bar.applies, heap)
	}
	t.Logf("%d applies in %v under %d requests (%.0f/s) and %d echoes of %d websockets: heap %d %+d bytes, %d goroutines",
		bar.applies, took.Round(time.Millisecond), traffic.answered.Load(), float64(traffic.answered.Load())/took.Seconds(),
		traffic.echoed.Load(), bar.sockets, heap, growth, goroutines.lowest)
}

// settle applies a snapshot and waits until what others needed is gone.
func (g *gate) settle(rest *configv1.Snapshot) {
	g.t.Helper()
	g.applyMessage(rest)
	g.sockets.drains.Wait()
}

// level is the fewest goroutines that were seen. The first look may find some that
// are about to end, of what was there before.
type level struct{ lowest int }

// reached reports whether there are no more than that.
func (l *level) reached() bool {
	n := runtime.NumGoroutine()
	if l.lowest == 0 || n < l.lowest {
		l.lowest = n
	}
	return n == l.lowest
}

func heapInUse() int64 {
	var m runtime.MemStats
	for range 3 { // finalizers and pools take two rounds
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// fleet is the backends, and the snapshots that are about them.
type fleet struct {
	dir      string // of unix sockets
	backends []*backend
	sockets  *backend
}

func newFleet(t *testing.T) *fleet {
	f := &fleet{dir: t.TempDir(), sockets: serve(t, "sockets")}
	for i := range 4 {
		f.backends = append(f.backends, serve(t, fmt.Sprint(i)))
	}
	return f
}

// atRest keeps no connection to a backend but those of the websockets.
func (f *fleet) atRest() *configv1.Snapshot {
	return &configv1.Snapshot{
		Listeners: []*configv1.Listener{{Name: "web", Address: "127.0.0.1:0"}},
		Clusters:  []*configv1.Cluster{cluster("sockets", f.sockets.address())},
		Routes:    []*configv1.Route{forward("sockets", "/socket", "sockets")},
		Telemetry: &configv1.Telemetry{RecentRequests: new(uint32(100))},
	}
}

// numbered is snapshot i. The number is in what the backend is told and in what
// the client is told, by the same route.
func (f *fleet) numbered(i int) *configv1.Snapshot {
	s := f.atRest()
	s.Listeners[0].Timeouts = &configv1.ListenerTimeouts{Header: seconds(10 + i%7), Idle: seconds(100 + i%11)}
	if n := f.extra(i); n != "" {
		s.Listeners = append(s.Listeners, &configv1.Listener{Name: "extra", Address: n})
	}
	a, b := f.backends[i%4].address(), f.backends[(i+1)%4].address()
	kept := cluster("kept", a, b)
	kept.Endpoints[0].Weight = new(uint32(1 + i%5))
	kept.Timeouts = &configv1.ClusterTimeouts{Connect: seconds(3 + i%3)}
	kept.HealthCheck = &configv1.HealthCheck{
		Probe:    &configv1.HealthCheck_Http{Http: &configv1.HttpProbe{Path: "/healthz"}},
		Interval: seconds(1 + i%2),
	}
	passing := cluster(fmt.Sprintf("passing-%d", i%3), b)
	s.Clusters = append(s.Clusters, kept, passing)
	r := forward("numbered", "/numbered", kept.Name, passing.Name)
	r.GetForward().Backends[0].Weight = new(uint32(1 + i%4))
	r.GetForward().Timeouts = &configv1.ForwardTimeouts{FirstByte: seconds(30 + i%5)}
	marker := []*configv1.Header{{Name: "X-Marker", Value: fmt.Sprint(i)}}
	r.RequestHeaders = &configv1.HeaderOperations{Set: marker}
	r.ResponseHeaders = &configv1.HeaderOperations{Set: marker}
	s.Routes = append(s.Routes, r)
	for j := range i % 5 {
		s.Routes = append(s.Routes, forward(fmt.Sprintf("more-%d", j), fmt.Sprintf("/more/%d/%d", i, j), kept.Name))
	}
	return s
}

// extra is the address of a second listener that comes, goes and changes its
// address; "" is none.
func (f *fleet) extra(i int) string {
	if i%3 == 2 {
		return ""
	}
	return "unix:" + filepath.Join(f.dir, fmt.Sprint(i%2))
}

// ask makes a request over the second listener, if there is one.
func (f *fleet) ask(t *testing.T, i int) {
	t.Helper()
	address := f.extra(i)
	if address == "" {
		return
	}
	c, err := connect(&net.UnixAddr{Net: "unix", Name: address[len("unix:"):]})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if a := c.mustGet(t, "/numbered"); a.header.Get("X-Marker") != fmt.Sprint(i) {
		t.Errorf("snapshot %d is active, and the answer is %v", i, a)
	}
}

// traffic is clients and websockets that go on for as long as they are let.
type traffic struct {
	bar      bar
	clients  []*client
	sockets  []*client
	answered atomic.Int64
	echoed   atomic.Int64
}

func newTraffic(t *testing.T, a net.Addr, bar bar) *traffic {
	tr := &traffic{bar: bar}
	for range bar.clients {
		c := dial(t, a)
		c.mustGet(t, "/nowhere")
		tr.clients = append(tr.clients, c)
	}
	for i := range bar.sockets {
		c := dial(t, a)
		if err := c.websocket("/socket"); err != nil {
			t.Fatalf("websocket %d: %v", i, err)
		}
		tr.echo(t, c, "hello")
		tr.sockets = append(tr.sockets, c)
	}
	return tr
}

func (tr *traffic) end() {
	for _, c := range append(tr.clients, tr.sockets...) {
		_ = c.Close()
	}
}

// run has everybody busy while do runs, and reports what fails.
func (tr *traffic) run(t *testing.T, do func()) {
	t.Helper()
	tr.answered.Store(0)
	tr.echoed.Store(0)
	ctx, stop := context.WithCancel(context.Background())
	var busy sync.WaitGroup
	for _, c := range tr.clients {
		busy.Go(func() {
			every(ctx, time.Second*time.Duration(tr.bar.clients)/time.Duration(tr.bar.rate), func() bool { return tr.request(t, c) })
		})
	}
	for i, c := range tr.sockets {
		n := 0
		busy.Go(func() {
			every(ctx, 200*time.Millisecond, func() bool {
				n++
				return tr.echo(t, c, fmt.Sprintf("%d of socket %d", n, i))
			})
		})
	}
	do()
	stop()
	busy.Wait()
}

// every does something at a steady pace until ctx ends or it has failed. What
// was late is caught up with.
func every(ctx context.Context, pace time.Duration, do func() bool) {
	next := time.Now()
	for ctx.Err() == nil && do() {
		next = next.Add(pace)
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(next)):
		}
	}
}

func (tr *traffic) request(t *testing.T, c *client) bool {
	a, err := c.get("/numbered")
	switch {
	case err != nil:
		t.Errorf("request failed: %v", err)
		return false
	case a.status != 200 || a.last:
		t.Errorf("answer %+v", a)
		return false
	case a.header.Get("X-Marker") != a.header.Get("X-Seen"):
		t.Errorf("the backend saw snapshot %s, the client %s", a.header.Get("X-Seen"), a.header.Get("X-Marker"))
		return false
	}
	tr.answered.Add(1)
	return true
}

func (tr *traffic) echo(t *testing.T, c *client, text string) bool {
	if err := c.echo([]byte(text)); err != nil {
		t.Errorf("websocket: %v", err)
		return false
	}
	tr.echoed.Add(1)
	return true
}
