package proxy_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// piecewise is a body whose second half comes when told, so that it streams and is
// of a length that is not known.
func piecewise(first, second string, more <-chan struct{}) io.Reader {
	return io.MultiReader(unsized{strings.NewReader(first)}, later{more}, strings.NewReader(second))
}

// later reads as nothing, once it may.
type later struct{ event <-chan struct{} }

func (l later) Read([]byte) (int, error) { <-l.event; return 0, io.EOF }

// put sends a body and returns the answer.
func (v *visitor) put(t *testing.T, body io.Reader, trailers ...string) *http.Response {
	t.Helper()
	request, err := http.NewRequest(http.MethodPut, v.base+"/", body)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range trailers {
		request.Trailer = http.Header{name: {"x"}}
	}
	response, err := v.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// A body that streams is sent again, with its trailers, when an endpoint has failed
// after some of it or all of it, between any two protocols.
func TestStreamedBodyIsSentAgain(t *testing.T) {
	const first, second = "first half, ", "second half"
	for name, fail := range map[string]func(w http.ResponseWriter, r *http.Request, more chan struct{}){
		"after a part": func(_ http.ResponseWriter, r *http.Request, more chan struct{}) {
			_, _ = io.ReadFull(r.Body, make([]byte, len(first)))
			close(more)
			panic(http.ErrAbortHandler)
		},
		"after all": func(_ http.ResponseWriter, r *http.Request, more chan struct{}) {
			close(more)
			_, _ = io.Copy(io.Discard, r.Body)
			panic(http.ErrAbortHandler)
		},
		"by a status": func(w http.ResponseWriter, r *http.Request, more chan struct{}) {
			close(more)
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusServiceUnavailable)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, w := range wires {
				t.Run(w.client+" to "+w.upstream, func(t *testing.T) {
					more := make(chan struct{})
					failing := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fail(w, r, more) })
					good := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						saying("good")(w, r)
						fmt.Fprintf(w, " %v", r.Trailer)
					})
					g := start(t, racing(w.upstream, serveOver(t, w.upstream, failing), serveOver(t, w.upstream, good), "retry: {'on': [reset-before-response, 5xx], backoff: 0.001s}"))
					response := visitOver(t, w.client, g).put(t, piecewise(first, second, more), "Sum")
					if got, want := string(whole(t, response)), "good / "+first+second+" map[Sum:[x]]"; got != want {
						t.Errorf("got %q, want %q", got, want)
					}
					g.settles()
					if r := g.recent(1)[0]; len(r.Tries) != 2 || r.BytesIn != int64(len(first+second)) {
						t.Errorf("%+v", r)
					}
				})
			}
		})
	}
}

// Of a body that is longer than what is kept nothing is sent again: half of it
// would look like all of it.
func TestLongBodyIsSentOnce(t *testing.T) {
	for _, framing := range []string{"length", "chunks"} {
		for _, w := range wires {
			t.Run(w.client+" to "+w.upstream+" by "+framing, func(t *testing.T) {
				var asked atomic.Int32
				failing := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					asked.Add(1)
					_, _ = io.Copy(io.Discard, r.Body)
					w.WriteHeader(http.StatusServiceUnavailable)
				})
				g := start(t, racing(w.upstream, serveOver(t, w.upstream, failing), serveOver(t, w.upstream, failing), "retry: {'on': [5xx], backoff: 0.001s}"))
				body := io.Reader(bytes.NewReader(noise(64<<10 + 1)))
				if framing == "chunks" {
					body = unsized{body}
				}
				response := visitOver(t, w.client, g).put(t, body)
				_ = response.Body.Close()
				if response.StatusCode != http.StatusServiceUnavailable || asked.Load() != 1 {
					t.Errorf("%s after %d attempts", response.Status, asked.Load())
				}
				g.settles()
				if r := g.recent(1)[0]; r.NotRetried != "the request body is gone" {
					t.Errorf("%+v", r)
				}
			})
		}
	}
}

// Where a route hedges, the rest of a body is waited for, so that it can be sent
// twice.
func TestHedgeGathersTheBody(t *testing.T) {
	for _, w := range wires {
		t.Run(w.client+" to "+w.upstream, func(t *testing.T) {
			slow, came, _ := stuck()
			fast := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				await(t, "the first attempt", came)
				saying("fast")(w, r)
			})
			g := start(t, racing(w.upstream, serveOver(t, w.upstream, slow), serveOver(t, w.upstream, fast), "hedge: {after: 1s}"))
			body := strings.Repeat("body", 10_000) // more than comes in one piece
			if got := whole(t, visitOver(t, w.client, g).put(t, unsized{strings.NewReader(body)})); string(got) != "fast / "+body {
				t.Errorf("got %d bytes: %.40q", len(got), got)
			}
			g.settles()
			if r := g.recent(1)[0]; outcomes(&r) != "lost, 200 (hedge)" || r.BytesIn != int64(len(body)) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A body that does not come in time for that streams on, and is sent once.
func TestHedgeOfASlowBody(t *testing.T) {
	for _, w := range wires {
		t.Run(w.client+" to "+w.upstream, func(t *testing.T) {
			more := make(chan struct{})
			begun := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				head := make([]byte, 5)
				_, _ = io.ReadFull(r.Body, head)
				close(more)
				fmt.Fprintf(w, "%s, ", head)
				saying("then")(w, r)
			})
			g := start(t, racing(w.upstream, serveOver(t, w.upstream, begun), serveOver(t, w.upstream, begun), "hedge: {after: 0.005s}"))
			if got := whole(t, visitOver(t, w.client, g).put(t, piecewise("first", "second", more))); string(got) != "first, then / second" {
				t.Errorf("%q", got)
			}
			g.settles()
		})
	}
}
