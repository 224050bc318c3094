package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/dataplane/telemetry"
)

// racing is a manifest with two endpoints, the first of which has the first turn.
func racing(protocol, first, second, forward string) string {
	if protocol == "HTTP/2" {
		protocol = "http2: {}, "
	} else {
		protocol = ""
	}
	return manifest(
		fmt.Sprintf("clusters: [{name: main, %sendpoints: [{address: '%s'}, {address: '%s'}]}]", protocol, first, second),
		"routes: [{name: all, forward: {backends: [{cluster: main}], "+forward+"}}]",
	)
}

// overRaces runs a test over every pair of protocols, with two backends and a
// forward action.
func overRaces(t *testing.T, forward string, backends func(t *testing.T) (first, second http.HandlerFunc), run func(t *testing.T, client *visitor, g *gate)) {
	for _, w := range wires {
		t.Run(w.client+" to "+w.upstream, func(t *testing.T) {
			t.Parallel()
			first, second := backends(t)
			g := start(t, racing(w.upstream, serveOver(t, w.upstream, first), serveOver(t, w.upstream, second), forward))
			run(t, visitOver(t, w.client, g), g)
			g.settles()
		})
	}
}

// settles waits until nothing is in flight.
func (g *gate) settles() {
	g.t.Helper()
	left := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if left = g.inFlight(); left == "" {
			return
		}
	}
	g.t.Fatal("in flight still: " + left)
}

// inFlight says what is in flight, "": nothing.
func (g *gate) inFlight() (left string) {
	for _, c := range g.registry.Status() {
		if c.InFlight != 0 || c.Retries != 0 || c.Mirrors != 0 || c.Waiting != 0 || c.Awaiting != 0 {
			left += fmt.Sprintf("%s: %d requests, %d retries, %d mirrors, %d waiting, %d in the adaptive limit; ", c.Name, c.InFlight, c.Retries, c.Mirrors, c.Waiting, c.Awaiting)
		}
		for _, e := range c.Endpoints {
			if e.InFlight != 0 || e.Waiting != 0 {
				left += fmt.Sprintf("%s: %d attempts, %d waiting; ", e.Address, e.InFlight, e.Waiting)
			}
		}
	}
	return left
}

// stuck answers nothing, and tells when its request was cancelled.
func stuck() (h http.HandlerFunc, came, cancelled chan struct{}) {
	came, cancelled = make(chan struct{}, 1), make(chan struct{}, 1)
	return func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // net/http sees the end of a client after that
		came <- struct{}{}
		<-r.Context().Done()
		cancelled <- struct{}{}
	}, came, cancelled
}

func await(t testing.TB, what string, event <-chan struct{}) {
	t.Helper()
	select {
	case <-event:
	case <-time.After(patience):
		t.Fatal(what + " did not come about")
	}
}

// saying answers with a text and what it was asked.
func saying(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s", text, r.URL.Path, body)
	}
}

func outcomes(r *telemetry.Recent) string {
	var list []string
	for _, try := range r.Tries {
		text := try.Outcome
		if try.Hedge {
			text += " (hedge)"
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

// A second attempt elsewhere answers for the first, which is slow and is
// cancelled: its connection closes, or its stream is reset.
func TestHedgeAnswersForTheSlow(t *testing.T) {
	for _, w := range wires {
		t.Run(w.client+" to "+w.upstream, func(t *testing.T) {
			t.Parallel()
			slow, came, cancelled := stuck()
			fast := func(w http.ResponseWriter, r *http.Request) {
				await(t, "the first attempt", came)
				saying("fast")(w, r)
			}
			g := start(t, racing(w.upstream, serveOver(t, w.upstream, slow), serveOver(t, w.upstream, http.HandlerFunc(fast)), "hedge: {after: 0.005s}"))
			client := visitOver(t, w.client, g)
			response, err := client.Get(client.base + "/path")
			if err != nil {
				t.Fatal(err)
			}
			if body := whole(t, response); string(body) != "fast /path " {
				t.Errorf("%q", body)
			}
			await(t, "the cancellation of the loser", cancelled)
			g.settles()
			if r := g.recent(1)[0]; outcomes(&r) != "lost, 200 (hedge)" || r.Endpoint != r.Tries[1].Endpoint || r.Reason != "" {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A body that came with the head is sent whole by each attempt, whichever framing
// it has.
func TestHedgeSendsTheBodyAgain(t *testing.T) {
	for _, framing := range []string{"Content-Length: 4\r\n\r\nbody", "Transfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n"} {
		for _, protocol := range []string{"HTTP/1", "HTTP/2"} {
			slow, came, _ := stuck()
			fast := func(w http.ResponseWriter, r *http.Request) {
				await(t, "the first attempt", came)
				saying("fast")(w, r)
			}
			g := start(t, racing(protocol, serveOver(t, protocol, slow), serveOver(t, protocol, http.HandlerFunc(fast)), "hedge: {after: 0.005s}"))
			client := g.dial()
			client.send("PUT / HTTP/1.1\r\nHost: h\r\n" + framing)
			head := client.head()
			if body, err := client.read(len("fast / body")); body != "fast / body" || err != nil {
				t.Errorf("%s: %q %v after %q", protocol, body, err, head)
			}
			g.settles()
		}
	}
}

// The first attempt answers while the hedge is under way: the hedge is cancelled.
func TestHedgeLoses(t *testing.T) {
	for _, w := range wires {
		t.Run(w.client+" to "+w.upstream, func(t *testing.T) {
			t.Parallel()
			slow, came, cancelled := stuck()
			first := func(w http.ResponseWriter, r *http.Request) {
				await(t, "the hedge", came)
				saying("first")(w, r)
			}
			g := start(t, racing(w.upstream, serveOver(t, w.upstream, http.HandlerFunc(first)), serveOver(t, w.upstream, slow), "hedge: {after: 0.001s}"))
			client := visitOver(t, w.client, g)
			response, err := client.Get(client.base + "/")
			if err != nil {
				t.Fatal(err)
			}
			if body := whole(t, response); string(body) != "first / " {
				t.Errorf("%q", body)
			}
			await(t, "the cancellation of the hedge", cancelled)
			g.settles()
			if r := g.recent(1)[0]; outcomes(&r) != "200, lost (hedge)" || r.Endpoint != r.Tries[0].Endpoint {
				t.Errorf("%+v", r)
			}
		})
	}
}

// An answer that the route would have tried again is taken only if there is no
// better one.
func TestHedgeTakesTheBetterAnswer(t *testing.T) {
	for _, test := range []struct {
		name, forward, want string
		status              int
	}{
		{"the other is good", "hedge: {after: 0.001s}, retry: {attempts: 0, 'on': [5xx]}", "200, 503 (hedge)", 200},
		{"a retry is good", "hedge: {after: 0.001s}, retry: {attempts: 1, backoff: 0.001s, 'on': [5xx]}", "200, 503 (hedge)", 200},
	} {
		overRaces(t, test.forward, func(t *testing.T) (first, second http.HandlerFunc) {
			failed := make(chan struct{})
			return func(w http.ResponseWriter, r *http.Request) {
					await(t, "the answer of the hedge", failed)
					saying("good")(w, r)
				}, func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(http.StatusServiceUnavailable)
					defer close(failed)
				}
		}, func(t *testing.T, client *visitor, g *gate) {
			response, err := client.Get(client.base)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if r := g.recent(1)[0]; r.Status != test.status {
				t.Errorf("%s: %+v", test.name, r)
			}
		})
	}
}

// Where all answers are bad, and no retry is left, one of them is the answer,
// whole.
func TestHedgeRelaysTheLastBadAnswer(t *testing.T) {
	overRaces(t, "hedge: {after: 60s}, retry: {attempts: 1, backoff: 0.001s, 'on': [5xx]}", func(t *testing.T) (first, second http.HandlerFunc) {
		bad := func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusServiceUnavailable) }
		return bad, bad
	}, func(t *testing.T, client *visitor, g *gate) {
		response, err := client.Get(client.base)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if string(body) != "no\n" || err != nil || response.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%d %q %v", response.StatusCode, body, err)
		}
		if r := g.recent(1)[0]; r.Attempts != 2 || r.Status != 503 {
			t.Errorf("%+v", r)
		}
	})
}

// Only what may be sent twice is hedged, only where there is another endpoint, and
// only as far as the cluster lets retries be under way.
func TestHedgeIsHeldBack(t *testing.T) {
	const one = "clusters: [{name: main, endpoints: [{address: '%s'}]}]"
	const two = "clusters: [{name: main, endpoints: [{address: '%s'}, {address: 127.0.0.1:1}]}]"
	const busy = "clusters: [{name: main, endpoints: [{address: '%s'}, {address: 127.0.0.1:1}], limits: {maxRequests: 1}}]"
	for _, test := range []struct{ name, clusters, method, body string }{
		{"not idempotent", two, "POST", "x"},
		{"one endpoint", one, "GET", ""},
		{"maxRequests", busy, "GET", ""},
		{"a large body", two, "PUT", strings.Repeat("x", 1<<20)},
	} {
		t.Run(test.name, func(t *testing.T) {
			address := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(50 * time.Millisecond) // many times what the route waits
				saying("only")(w, r)
			}))
			g := start(t, manifest(fmt.Sprintf(test.clusters, address), "routes: [{name: all, forward: {backends: [{cluster: main}], hedge: {after: 0.001s, max: 5}}}]"))
			client := visit(t, g)
			request, _ := http.NewRequest(test.method, client.base+"/", strings.NewReader(test.body))
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			whole(t, response)
			g.settles()
			if r := g.recent(1)[0]; r.Attempts != 1 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A client that leaves takes all attempts with it.
func TestHedgeEndsWithTheClient(t *testing.T) {
	one, oneCame, oneCancelled := stuck()
	two, twoCame, twoCancelled := stuck()
	g := start(t, racing("HTTP/1", serve(t, one), serve(t, two), "hedge: {after: 0.001s}"))
	client := g.dial()
	client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	await(t, "the first attempt", oneCame)
	await(t, "the hedge", twoCame)
	client.close()
	await(t, "the cancellation of the first", oneCancelled)
	await(t, "the cancellation of the hedge", twoCancelled)
	g.settles()
	if r := g.recent(1)[0]; r.Status != 499 || outcomes(&r) != "lost, lost (hedge)" {
		t.Errorf("%+v", r)
	}
}
