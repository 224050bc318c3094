package upstream

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// hour is a made hour of two clusters with the same endpoints, one of which has
// circuit breakers. Each gets a request about once a second.
type hour struct {
	*network
	registry *Registry
	clusters []*Cluster
	seen     events
	began    time.Time
	state    map[string]string // of the endpoints
}

// conditions say what a probe hears, and how long a request takes and how it
// ends, for each state of an endpoint.
var conditions = map[string]struct {
	probe   string
	took    time.Duration
	outcome Outcome
}{
	"well":      {okay, 10 * time.Millisecond, Success},
	"slow":      {"hang", 701 * time.Millisecond, Timeout},
	"dead":      {"", time.Millisecond, ConnectFailure},
	"failing":   {"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", 10 * time.Millisecond, ServerError},
	"deceptive": {okay, 10 * time.Millisecond, ServerError}, // probes do not see what is wrong
}

// The script is followed word for word: each "run" is followed by the events of
// that time.
func TestHour(t *testing.T) {
	script, err := os.ReadFile("testdata/hour.txt")
	must(t, err)
	var out strings.Builder
	synctest.Test(t, func(t *testing.T) {
		h := newHour(t)
		defer h.registry.Close()
		for line := range strings.Lines(string(script)) {
			if !strings.HasPrefix(line, "  ") {
				out.WriteString(line)
				h.do(t, strings.Fields(line), &out)
			}
		}
		for _, c := range h.clusters {
			for _, e := range c.endpoints {
				if n := e.InFlight(); n != 0 {
					t.Errorf("%s: %d in flight", e.Address(), n)
				}
			}
		}
	})
	if diff := cmp.Diff(string(script), out.String()); diff != "" {
		if os.Getenv("REWRITE") != "" {
			must(t, os.WriteFile("testdata/hour.txt", []byte(out.String()), 0o644))
		}
		t.Error(diff)
	}
}

func newHour(t *testing.T) *hour {
	h := &hour{network: newNetwork(), seen: make(events, 10_000), began: time.Now(), state: map[string]string{}}
	h.registry = NewRegistry(Options{Dial: h.dial, Events: h.seen.add})
	h.registry.jitter = func() float64 { return 0.5 } // or no two hours would be alike
	addresses := []string{"one", "two", "three", "four", "five"}
	for _, a := range addresses {
		h.turn(a, "well")
	}
	plain, guarded := checked(cluster("plain", addresses...)), checked(cluster("guarded", addresses...))
	guarded.CircuitBreaker = &snapshot.CircuitBreaker{ConsecutiveFailures: 3, OpenFor: 23 * time.Second, HalfOpenRequests: 2}
	g := apply(t, h.registry, plain, guarded)
	h.clusters = []*Cluster{g.Cluster(0), g.Cluster(1)}
	return h
}

// turn changes what an endpoint is like.
func (h *hour) turn(address, state string) {
	h.state[address] = state
	h.set(address, conditions[state].probe)
}

func (h *hour) do(t *testing.T, words []string, out *strings.Builder) {
	switch {
	case len(words) == 0 || words[0] == "#":
	case words[0] == "run":
		d, err := time.ParseDuration(words[1])
		must(t, err)
		h.run(t, d)
		for _, line := range h.report() {
			out.WriteString("  " + line + "\n")
		}
	case conditions[words[1]].took == 0:
		t.Fatalf("no such state: %v", words)
	default:
		h.turn(words[0], words[1])
	}
}

// run lets requests come until an end that is a multiple of seconds.
func (h *hour) run(t *testing.T, d time.Duration) {
	end := time.Now().Add(d)
	for time.Now().Add(time.Second).Before(end) {
		for _, c := range h.clusters {
			h.request(t, c)
		}
		time.Sleep(997 * time.Millisecond)
	}
	time.Sleep(time.Until(end))
	synctest.Wait()
}

func (h *hour) request(t *testing.T, c *Cluster) {
	e, ticket, why := c.Start(&Pick{})
	if why != 0 {
		t.Fatalf("no endpoint: %v", why)
	}
	is := conditions[h.state[e.Address()]]
	time.Sleep(is.took)
	e.End(ticket, is.outcome, int64(is.took))
}

// report is what has happened since, in order of time.
func (h *hour) report() (lines []string) {
	list := h.seen.all()
	slices.SortStableFunc(list, func(a, b Event) int {
		if !a.At.Equal(b.At) {
			return a.At.Compare(b.At)
		}
		return strings.Compare(a.Cluster+a.Endpoint, b.Cluster+b.Endpoint)
	})
	for _, e := range list {
		what := fmt.Sprintf("%v, %v -> %v", e.Kind, e.From, e.To)
		if e.Kind == CircuitChanged {
			what = fmt.Sprintf("circuit %v -> %v", e.CircuitFrom, e.CircuitTo)
		}
		lines = append(lines, fmt.Sprintf("%-9v %-7s %-5s %s: %s", e.At.Sub(h.began).Round(100*time.Millisecond), e.Cluster, e.Endpoint, what, e.Cause))
	}
	return lines
}
