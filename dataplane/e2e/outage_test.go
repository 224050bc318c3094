package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"
)

// An outage is one way for a backend to fail, and its end.
type outage struct {
	name   string
	strike func(*backend)
	mend   func(*backend)
}

func misbehaviour(w way) outage {
	return outage{string(w), func(b *backend) { b.treat(w) }, func(b *backend) { b.treat(wayWell) }}
}

var outages = []outage{
	{"kill", func(b *backend) { b.process.end(syscall.SIGKILL) }, (*backend).start},
	misbehaviour(wayReset),
	misbehaviour(wayHalfClose),
	{"pause", func(b *backend) { b.signal(syscall.SIGSTOP) }, func(b *backend) { b.signal(syscall.SIGCONT) }},
	misbehaviour(waySlow),
}

// scale is how much is done. HEADGATE_BARS=full is the size of the promise.
type scale struct {
	clients int           // requests at a time
	cycles  int           // of all outages
	answers int64         // from one change to the next
	pause   time.Duration // of a client between two requests
}

func theScale() scale {
	if os.Getenv("HEADGATE_BARS") == "full" {
		return scale{clients: 64, cycles: 3, answers: 500}
	}
	return scale{clients: 16, cycles: 1, answers: 200, pause: time.Millisecond}
}

// course is one run: a proxy, three backends and the load.
type course struct {
	*testing.T
	scale    scale
	backends []*backend // the first lives through everything
	load     *load
}

// streams is how many requests share a connection of HTTP/2.
const streams = 8

func startCourse(t *testing.T, client2, upstream2 bool, retry string, start func(testing.TB, setting) *proxy, failing ...string) *course {
	t.Helper()
	c := &course{T: t, scale: theScale()}
	s := setting{Address: ownAddress(t), HTTP2: upstream2, Client2: client2, Retry: retry}
	for _, name := range append([]string{"well"}, failing...) {
		b := startBackend(t, name)
		c.backends = append(c.backends, b)
		s.Backends = append(s.Backends, b.address)
	}
	p := start(t, s)
	connections, each := c.scale.clients, 1
	if client2 {
		connections, each = c.scale.clients/streams, streams
	}
	c.load = startLoad(t, p.address, client2, connections, each, c.scale.pause)
	return c
}

// run has every outage, each on one backend and then on another too, and waits
// for their recovery after each.
func (c *course) run(list []outage) {
	for range c.scale.cycles {
		for _, o := range list {
			c.recovered()
			c.load.under.Store(o.name)
			for _, b := range c.backends[1:] {
				o.strike(b)
				c.load.more(c, c.scale.answers)
			}
			for _, b := range c.backends[1:] {
				o.mend(b)
			}
			c.load.more(c, c.scale.answers)
		}
	}
	c.recovered()
	c.load.end()
}

// recovered waits until all backends take their part, and have for a while.
func (c *course) recovered() {
	c.Helper()
	defer c.load.more(c, c.scale.answers)
	for _, b := range c.backends {
		before := c.load.from(b.name)
		until(c, "an answer of backend "+b.name, func() bool { return c.load.from(b.name) > before })
	}
}

// twice is how many orders were carried out more than once.
func (c *course) twice() int {
	times := map[string]int{}
	for _, b := range c.backends {
		b.carriedOut(times)
	}
	n := 0
	for _, k := range times {
		if k > 1 {
			n++
		}
	}
	return n
}

// reasons lists what failed, and why.
func (c *course) reasons() string {
	var lines []string
	for kind, n := range c.load.lost {
		lines = append(lines, fmt.Sprintf("  %s: %d lost, order %v, being answered %v: %s", kind.under, n, kind.order, kind.headed, kind.reason))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// report is the table of both proxies.
type report struct {
	mu   sync.Mutex
	rows []string
}

func (r *report) add(name string, c *course) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, under := range append(names(outages), "") {
		s := c.load.sum(under)
		answered := ""
		if under == "" {
			under, answered = "all", fmt.Sprint(s.answered)
		}
		row := fmt.Sprintf("%s\t%s\t%s\t%d\t%d\t%d\t", name, under, answered, s.failed, s.headed, s.ordersLost)
		if under == "all" {
			row += fmt.Sprint(c.twice())
		}
		r.rows = append(r.rows, row)
	}
}

func names(list []outage) []string {
	var all []string
	for _, o := range list {
		all = append(all, o.name)
	}
	return all
}

func (r *report) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "proxy\toutage\tanswered\tfailed\tbeing answered\torders lost\torders twice")
	for _, row := range r.rows {
		fmt.Fprintln(w, row)
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}

// everyWire is whether HTTP/2 is spoken on either side of the proxy.
var everyWire = []struct {
	name             string
	client, upstream bool
}{
	{"h1-h1", false, false},
	{"h2-h1", true, false},
	{"h1-h2", false, true},
	{"h2-h2", true, true},
}

// TestOneHealthyBackendIsEnough has two of three backends fail in every way,
// under load. No idempotent request fails but those whose answer the client had
// begun to get, and no order is carried out twice. nginx goes through the same;
// its numbers stand beside ours.
func TestOneHealthyBackendIsEnough(t *testing.T) {
	var r report
	t.Run("wires", func(t *testing.T) {
		for _, w := range everyWire {
			t.Run("headgate-"+w.name, func(t *testing.T) {
				t.Parallel()
				c := startCourse(t, w.client, w.upstream, everyBackend, startHeadgate, "first", "second")
				c.run(outages)
				r.add("headgate "+w.name, c)
				c.hold()
			})
			if w.upstream {
				continue // nginx speaks HTTP/1 to them alone
			}
			t.Run("nginx-"+w.name, func(t *testing.T) {
				t.Parallel()
				c := startCourse(t, w.client, w.upstream, "", startNginx, "first", "second")
				c.run(outages)
				r.add("nginx "+w.name, c)
				c.Logf("nginx:\n%s", c.reasons())
			})
		}
	})
	t.Logf("idempotent requests that failed, those of them that were being answered, and orders:\n%s", &r)
}

// TestByDefaultTheBudgetIsTheLimit has one of two backends end connections in
// every way, with no policy set. Retries are then few: a request may fail because
// their budget is spent, which the answer says, and for no other reason.
func TestByDefaultTheBudgetIsTheLimit(t *testing.T) {
	for _, w := range everyWire {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			c := startCourse(t, w.client, w.upstream, "", startHeadgate, "other")
			c.run(outages[:3])
			for kind, n := range c.load.lost {
				if !kind.order && !kind.headed && !strings.Contains(kind.reason, "retry budget is spent") {
					c.Errorf("%s: %d idempotent requests failed: %s", kind.under, n, kind.reason)
				}
			}
			if n := c.twice(); n > 0 {
				c.Errorf("%d orders were carried out twice", n)
			}
			c.Logf("%d answered:\n%s", c.load.answered.Load(), c.reasons())
		})
	}
}

// hold fails the test if the promise was broken.
func (c *course) hold() {
	c.Helper()
	if n := c.load.sum("").failed; n > 0 {
		c.Errorf("%d idempotent requests failed that were not being answered:\n%s", n, c.reasons())
	}
	if n := c.twice(); n > 0 {
		c.Errorf("%d orders were carried out twice", n)
	}
}

// TestWithoutRetriesRequestsFail shows that the outages are felt: without
// retries the load loses requests.
func TestWithoutRetriesRequestsFail(t *testing.T) {
	c := startCourse(t, false, false, "{attempts: 0}", startHeadgate, "first", "second")
	c.recovered()
	c.load.under.Store("kill")
	for _, b := range c.backends[1:] {
		b.process.end(syscall.SIGKILL)
	}
	until(t, "a failure", func() bool { return c.load.sum("").failed > 0 })
	c.load.end()
}
