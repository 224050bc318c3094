package proxy_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// copied is a request as a mirror has seen it.
type copied struct {
	head string
	sum  [sha256.Size]byte
	err  error
}

// reflecting is a mirror that tells what it is sent.
func reflecting(answer http.HandlerFunc) (http.HandlerFunc, chan copied) {
	seen := make(chan copied, 100)
	return func(w http.ResponseWriter, r *http.Request) {
		head := fmt.Sprintf("%s %s %s %s %d", r.Method, r.Host, r.URL, r.Header.Get("X-Env"), r.ContentLength)
		body, err := io.ReadAll(r.Body)
		seen <- copied{head, sha256.Sum256(body), err}
		answer(w, r)
	}, seen
}

func (g *gate) mirrored(t testing.TB, seen chan copied) copied {
	t.Helper()
	select {
	case c := <-seen:
		return c
	case <-time.After(patience):
		t.Fatal("nothing was mirrored")
	}
	panic("unreachable")
}

// mirroring is a manifest whose requests go to one address and copies to another.
func mirroring(protocol, primary, mirror, more string) string {
	if protocol == "HTTP/2" {
		protocol = "http2: {}, "
	} else {
		protocol = ""
	}
	return manifest(
		fmt.Sprintf("clusters: [{name: main, %sendpoints: [{address: '%s'}]}, {name: copies, %sendpoints: [{address: '%s'}]}]", protocol, primary, protocol, mirror),
		"routes: [{name: all, forward: {backends: [{cluster: main}], mirror: {cluster: copies"+more+"}, rewrite: {prefix: /p}}, matches: [{path: {prefix: /}}], requestHeaders: {set: [{name: x-env, value: prod}]}}]",
	)
}

// A mirror gets the same head, with the same Host, and the same body, be it empty,
// small, or streamed; what it answers is nobody's business.
func TestMirrorGetsTheSame(t *testing.T) {
	for _, w := range wires {
		t.Run(w.client+" to "+w.upstream, func(t *testing.T) {
			t.Parallel()
			for name, answer := range map[string]http.HandlerFunc{
				"good":   func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "copy") },
				"failed": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "copy", http.StatusServiceUnavailable) },
				"broken": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			} {
				h, seen := reflecting(answer)
				g := start(t, mirroring(w.upstream, serveOver(t, w.upstream, saying("primary")), serveOver(t, w.upstream, h), ""))
				client := visitOver(t, w.client, g)
				for _, body := range []io.Reader{nil, strings.NewReader("small"), io.MultiReader(strings.NewReader("streamed ")), bytes.NewReader(bytes.Repeat([]byte("x"), 40<<10))} {
					text := []byte(nil)
					if body != nil {
						text, _ = io.ReadAll(body)
						if seeker, ok := body.(io.Seeker); ok {
							_, _ = seeker.Seek(0, io.SeekStart)
						} else {
							body = io.MultiReader(bytes.NewReader(text))
						}
					}
					request, _ := http.NewRequest(http.MethodPost, client.base+"/path?q=1", body)
					request.Host = "api.example.com"
					response, err := client.Do(request)
					if err != nil {
						t.Fatal(err)
					}
					if got := whole(t, response); string(got) != "primary /p/path "+string(text) {
						t.Errorf("%s: the client sees %.50q", name, got)
					}
					c := g.mirrored(t, seen)
					want := fmt.Sprintf("POST api.example.com /p/path?q=1 prod %d", request.ContentLength)
					if _, ok := body.(io.Seeker); body != nil && !ok && w.client == "HTTP/1" && w.upstream == "HTTP/1" {
						want = "POST api.example.com /p/path?q=1 prod -1"
					}
					if request.ContentLength > 0 && c.head != want || c.err != nil || c.sum != sha256.Sum256(text) {
						t.Errorf("%s: the mirror sees %s (%v), want %s", name, c.head, c.err, want)
					}
					g.settles()
				}
				for _, r := range g.recent(4) {
					if r.Status != 200 || r.Attempts != 1 || r.Reason != "" {
						t.Errorf("%s: recorded as %+v", name, r)
					}
				}
			}
		})
	}
}

// A mirror that takes nothing, or answers nothing, slows nobody down: the copy of
// a large body is abandoned, and said to be.
func TestMirrorIsSlow(t *testing.T) {
	for _, w := range wires {
		if w.client == "HTTP/3" {
			continue // so much takes too long over QUIC under the race detector
		}
		t.Run(w.client+" to "+w.upstream, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			slow := func(http.ResponseWriter, *http.Request) { <-release }
			counting := func(w http.ResponseWriter, r *http.Request) {
				n, err := io.Copy(io.Discard, r.Body)
				fmt.Fprint(w, n, err)
			}
			g := start(t, mirroring(w.upstream, serveOver(t, w.upstream, http.HandlerFunc(counting)), serveOver(t, w.upstream, http.HandlerFunc(slow)), ""))
			defer close(release) // before the servers are closed
			client := visitOver(t, w.client, g)
			const size = 16 << 20 // more than sockets and windows hold
			body := io.LimitReader(zeros{}, size)
			if got := client.post(t, "/", body); string(got) != fmt.Sprint(size, error(nil)) {
				t.Errorf("%s", got)
			}
			g.settles()
			if n := g.counted(t, "headgate_mirror_requests_total", "abandoned"); n != 1 {
				t.Errorf("%v were abandoned", n)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// counted is a counter of mirrors by outcome, as it is exported.
func (g *gate) counted(t testing.TB, name, outcome string) (n float64) {
	t.Helper()
	families, err := prometheus.Gatherers{g.recorder.Gatherer()}.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "headgate_outcome" && label.GetValue() == outcome {
					n += m.GetCounter().GetValue()
				}
			}
		}
	}
	return n
}

// A mirror takes its percentage, and no more than may be under way at a time; what
// is refused costs nobody anything.
func TestMirrorIsBounded(t *testing.T) {
	h, seen := reflecting(func(http.ResponseWriter, *http.Request) {})
	g := start(t, mirroring("HTTP/1", serve(t, saying("primary")), serve(t, h), ", percent: 10"))
	client := visit(t, g)
	for range 100 {
		client.post(t, "/", strings.NewReader("x"))
	}
	g.settles()
	if n := len(seen); n < 7 || n > 13 {
		t.Errorf("%d of 100 were mirrored, want 10", n)
	}

	stuck, came, cancelled := stuck()
	primary := serve(t, saying("primary"))
	g = start(t, manifest(
		fmt.Sprintf("clusters: [{name: main, endpoints: [{address: '%s'}]}, {name: copies, endpoints: [{address: '%s'}], limits: {maxRequests: 1}}]", primary, serve(t, stuck)),
		"routes: [{name: all, forward: {backends: [{cluster: main}], mirror: {cluster: copies}}}]",
	))
	client = visit(t, g)
	client.post(t, "/", strings.NewReader("x"))
	await(t, "the copy", came)
	for range 5 {
		client.post(t, "/", strings.NewReader("x"))
	}
	if n := g.counted(t, "headgate_mirror_requests_total", "refused"); n != 5 {
		t.Errorf("%v were refused, want 5", n)
	}
	g.engine.Close() // ends what nobody waits for
	await(t, "the end of the copy", cancelled)
	g.settles()
}

// A copy whose request breaks off never looks whole, and one to the own cluster
// is no evidence against its endpoints.
func TestMirrorOfBrokenRequests(t *testing.T) {
	h, seen := reflecting(func(http.ResponseWriter, *http.Request) {})
	drain := func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
	g := start(t, mirroring("HTTP/1", serve(t, http.HandlerFunc(drain)), serve(t, h), ""))
	for _, framing := range []string{"Content-Length: 100\r\n\r\nsome", "Transfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n"} {
		client := g.dial()
		client.send("POST / HTTP/1.1\r\nHost: h\r\n" + framing)
		client.close()
		if c := g.mirrored(t, seen); c.err == nil {
			t.Errorf("%q looks whole", framing)
		}
		g.settles()
	}

	// The primary fails, and so do the copies; only the requests count.
	var n atomic.Int64
	failing := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	g = start(t, manifest(
		fmt.Sprintf("clusters: [{name: main, endpoints: [{address: '%s'}]}]", failing),
		"routes: [{name: all, forward: {backends: [{cluster: main}], mirror: {cluster: main}}}]",
	))
	client := visit(t, g)
	for range 3 {
		if response, err := client.Get(client.base); err != nil || response.Body.Close() != nil {
			t.Fatal(err)
		}
		g.settles()
	}
	if e := g.registry.Status()[0].Endpoints[0]; n.Load() != 6 || e.Requests != 6 || e.Failures != 3 {
		t.Errorf("%d requests came, %d attempts, %d failures", n.Load(), e.Requests, e.Failures)
	}
}
