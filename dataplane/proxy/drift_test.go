package proxy_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/dataplane/upstream"
)

// moody does what the path says, and something else where that is "/any".
func moody(w http.ResponseWriter, r *http.Request) {
	moods := []string{"/ok", "/slow", "/reset", "/half", "/503", "/late", "/early", "/interim"}
	mood := r.URL.Path
	if mood == "/any" {
		mood = moods[rand.IntN(len(moods))]
	}
	switch mood {
	case "/slow":
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-r.Context().Done():
		case <-time.After(20 * time.Millisecond):
		}
	case "/reset":
		panic(http.ErrAbortHandler)
	case "/half":
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, "half")
		panic(http.ErrAbortHandler)
	case "/503":
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	case "/late":
		_, _ = io.WriteString(w, strings.Repeat("x", 100<<10))
		time.Sleep(time.Millisecond)
		_, _ = io.WriteString(w, "the end")
	case "/early":
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	case "/interim":
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.Copy(w, r.Body)
	default:
		_, _ = io.Copy(w, r.Body)
	}
}

// trialsFor is after how long a trial that never ends is given up by the circuit of
// one of the clusters. No trial takes as long here, so one that is under way
// afterwards was lost.
const trialsFor = 400 * time.Millisecond

// drifting is routes that take every way out of an exchange.
func drifting(http1, http2, sockets, refused string) string {
	cluster := func(name, protocol, address, openFor, limits string) string {
		return fmt.Sprintf("- {name: %s, %s endpoints: [{address: '%s'}, {address: '%s', weight: 1}], circuitBreaker: {consecutiveFailures: 3, openFor: %s}, limits: {%s}}\n", name, protocol, address, refused, openFor, limits)
	}
	route := func(prefix, forward, more string) string {
		return fmt.Sprintf("- {name: r%s, matches: [{headers: [{name: x-route, exact: %s}]}], forward: {%s}%s}\n", prefix, prefix, forward, more)
	}
	retry := "retry: {attempts: 3, 'on': [connect-failure, reset-before-response, timeout, 5xx], backoff: 0.001s, budgetPercent: 100}"
	times := "timeouts: {perTry: 0.015s, request: 0.1s}"
	text := "clusters:\n" +
		cluster("one", "", http1, "0.01s", "adaptiveConcurrency: {minRequests: 4}") + cluster("two", "http2: {},", http2, trialsFor.String(), "") +
		"- {name: sockets, endpoints: [{address: '" + sockets + "'}]}\n" +
		cluster("tight", "", http1, "0.01s", "maxRequests: 3, maxConnections: 2, maxPendingRequests: 1, maxRetries: 1") +
		"routes:\n" + route("sockets", "backends: [{cluster: sockets}]", "")
	for _, c := range []string{"one", "two", "tight"} {
		to := "backends: [{cluster: " + c + "}]"
		text += route(c+"-plain", to, "") +
			route(c+"-retry", to+", "+retry+", "+times, "") +
			route(c+"-hedge", to+", "+retry+", "+times+", hedge: {after: 0.001s, max: 3}", "") +
			route(c+"-mirror", to+", mirror: {cluster: tight}", ", limits: {maxRequestBytes: 65536}") +
			route(c+"-all", to+", "+retry+", hedge: {after: 0.002s}, mirror: {cluster: two}", ", fault: {delay: {percent: 50, duration: 0.002s}, abort: {percent: 10}}")
	}
	return manifest(text)
}

// Whatever becomes of requests, of their clients and of their upstreams, nothing
// stays counted: no request, no attempt, no retry, no mirror, no wait, no place in a
// limit that follows latency, no trial of a circuit, no connection. A connect that
// panics is one of the ways, and so is a tunnel that breaks.
func TestNothingStaysCounted(t *testing.T) {
	http1, http2 := serveOver(t, "HTTP/1", http.HandlerFunc(moody)), serveOver(t, "HTTP/2", http.HandlerFunc(moody))
	sockets := tunnelServer(t, "HTTP/1", echoes)
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if address != sockets && rand.IntN(50) == 0 {
			panic("a fault of the test's own")
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	g := startWith(t, drifting(http1, http2, sockets, refusing(t)), upstream.Options{Shards: gateShards, Dial: dial})
	var clients []*visitor
	for _, protocol := range []string{"HTTP/1", "HTTP/2", "HTTP/3"} {
		clients = append(clients, visitOver(t, protocol, g))
	}
	switchers := []*switcher{switcherOver(t, "HTTP/1", g), switcherOver(t, "HTTP/2", g)}
	rapid.Check(t, func(t *rapid.T) {
		var requests sync.WaitGroup
		for range rapid.IntRange(1, 12).Draw(t, "requests") {
			client := rapid.SampledFrom(clients).Draw(t, "client")
			route := rapid.SampledFrom([]string{"one", "two", "tight"}).Draw(t, "cluster") + "-" +
				rapid.SampledFrom([]string{"plain", "retry", "hedge", "mirror", "all"}).Draw(t, "route")
			path := rapid.SampledFrom([]string{"/any", "/ok", "/slow", "/reset", "/half", "/503", "/late", "/early", "/interim"}).Draw(t, "path")
			size := rapid.SampledFrom([]int{-1, 0, 10, 5000, 100 << 10}).Draw(t, "size")
			patient := rapid.SampledFrom([]time.Duration{time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, patience}).Draw(t, "patience")
			requests.Go(func() { visitOnce(client, route, path, size, patient) })
		}
		for range rapid.IntRange(0, 2).Draw(t, "tunnels") {
			s := rapid.SampledFrom(switchers).Draw(t, "switcher")
			ends := rapid.Bool().Draw(t, "ends")
			requests.Go(func() { tunnelOnce(s, ends) })
		}
		requests.Wait()
		g.settles()
		g.hasNoTrials()
	})
	for _, c := range g.registry.Status() {
		if c.Connections > 0 && c.Name == "tight" && c.Connections > 2 {
			t.Errorf("%s has %d connections", c.Name, c.Connections)
		}
	}
}

// tunnelOnce opens a tunnel if it can, and ends it or breaks it off.
func tunnelOnce(s *switcher, ends bool) {
	o := s.ask("/chat", "early", "X-Route", "sockets")
	if ends {
		_ = o.CloseWrite()
		_, _ = io.Copy(io.Discard, struct{ io.Reader }{o.pipe})
	} else {
		o.Abort()
	}
	_ = o.Close()
}

// hasNoTrials waits until no trial of a circuit is under way, for less than after
// what time one is given up, or for a few looks of a machine that was busy with others
// meanwhile, and until no connection is in use over HTTP/1.
func (g *gate) hasNoTrials() {
	g.t.Helper()
	left := ""
	for end, looks := time.Now().Add(trialsFor/2), 0; time.Now().Before(end) || looks < 20; looks++ {
		left = ""
		for _, c := range g.registry.Status() {
			for _, e := range c.Endpoints {
				if e.Trials != 0 || c.Name != "two" && e.ConnectionsActive != 0 {
					left += fmt.Sprintf("%s %s: %d trials, %d connections; ", c.Name, e.Address, e.Trials, e.ConnectionsActive)
				}
			}
		}
		if left == "" {
			return
		}
		time.Sleep(time.Millisecond)
	}
	g.t.Fatal("counted still: " + left)
}

// visitOnce makes a request, and leaves when its patience is over, in the middle
// of it or not.
func visitOnce(client *visitor, route, path string, size int, patient time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	method, body := "GET", io.Reader(nil)
	if size >= 0 {
		method, body = []string{"PUT", "POST"}[rand.IntN(2)], io.Reader(strings.NewReader(strings.Repeat("b", size)))
		if rand.IntN(2) == 0 {
			body = io.MultiReader(body) // of a length that is not told
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, client.base+path, body)
	if err != nil {
		return
	}
	request.Header.Set("X-Route", route)
	if response, err := client.Do(request); err == nil {
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
}
