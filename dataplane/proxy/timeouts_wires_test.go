package proxy_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// pairOver forwards to two endpoints in turn, the first of them first.
func pairOver(protocol, first, second, forward string) string {
	kind := ""
	if protocol == "HTTP/2" {
		kind = "http2: {}, "
	}
	return manifest(
		"clusters: [{name: main, "+kind+"endpoints: [{address: '"+first+"'}, {address: '"+second+"'}]}]",
		"routes: [{name: all, forward: {"+forward+"backends: [{cluster: main}]}}]",
	)
}

// fetch is the answer to GET /.
func fetch(t *testing.T, client *visitor) (status int, body string) {
	t.Helper()
	answer, err := client.Get(client.base + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(data)
}

// mute accepts and reads, and never answers.
func mute(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

// TestWireFirstRefuses is case 14: the first endpoint takes no connection, and
// the second has the body whole, whether its length is known or not.
func TestWireFirstRefuses(t *testing.T) {
	for _, w := range wires {
		t.Run(w.client+" to "+w.upstream, func(t *testing.T) {
			t.Parallel()
			g := start(t, pairOver(w.upstream, refusing(t), serveOver(t, w.upstream, http.HandlerFunc(echo)), ""))
			client := visitOver(t, w.client, g)
			for _, size := range []int{1, 100 << 10} {
				sent := noise(size)
				for _, body := range []io.Reader{bytes.NewReader(sent), unsized{bytes.NewReader(sent)}, bytes.NewReader(sent)} {
					if got := client.post(t, "/", body); !bytes.Equal(got, sent) {
						t.Errorf("%d bytes came back, want %d, the same", len(got), size)
					}
				}
			}
		})
	}
}

// TestWirePerTry gives an attempt up that takes too long, and makes another where
// that is wanted: one at least comes to the sound endpoint in time.
func TestWirePerTry(t *testing.T) {
	for _, w := range wires {
		t.Run(w.client+" to "+w.upstream, func(t *testing.T) {
			t.Parallel()
			sound := serveOver(t, w.upstream, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "sound") }))
			g := start(t, pairOver(w.upstream, serveOver(t, w.upstream, http.HandlerFunc(mute)), sound, "timeouts: {perTry: 0.2s}, retry: {on: [timeout], attempts: 10, budgetPercent: 100}, "))
			client := visitOver(t, w.client, g)
			for range 2 {
				if status, body := fetch(t, client); status != 200 || body != "sound" {
					t.Errorf("%d %q", status, body)
				}
			}
		})
	}
}

// TestWireTimeouts ends what takes too long, each by its own timeout.
func TestWireTimeouts(t *testing.T) {
	for _, timeout := range []string{"perTry", "firstByte", "request"} {
		for _, w := range wires {
			t.Run(fmt.Sprintf("%s/%s to %s", timeout, w.client, w.upstream), func(t *testing.T) {
				t.Parallel()
				config := singleOver(w.upstream, serveOver(t, w.upstream, http.HandlerFunc(mute)))
				g := start(t, strings.Replace(config, "forward: {", "forward: {timeouts: {"+timeout+": 0.05s}, ", 1))
				client := visitOver(t, w.client, g)
				for range 2 { // the second over a connection that was used
					if status, body := fetch(t, client); status != 504 {
						t.Errorf("%d %q", status, body)
					}
				}
			})
		}
	}
}

// TestWireIdleBody cuts an answer that stops in the middle. A client that takes longer
// than that to read what came need not get it (RFC 9000 section 3.2), and neither does one
// of an upstream that takes longer to say it: there is more time then.
func TestWireIdleBody(t *testing.T) {
	half := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
	for _, w := range wires {
		t.Run(w.client+" to "+w.upstream, func(t *testing.T) {
			t.Parallel()
			config := singleOver(w.upstream, serveOver(t, w.upstream, http.HandlerFunc(half)))
			idle := func(time time.Duration) string {
				return strings.Replace(config, "forward: {", fmt.Sprintf("forward: {timeouts: {idle: %gs}, ", time.Seconds()), 1)
			}
			g := start(t, idle(50*time.Millisecond))
			client := visitOver(t, w.client, g)
			for n, time := 1, 50*time.Millisecond; ; n, time = n+1, 4*time {
				g.apply(idle(time))
				answer, err := client.Get(client.base + "/")
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(answer.Body)
				_ = answer.Body.Close()
				if r := g.recent(n)[n-1]; !strings.Contains(r.Detail, "silent") {
					t.Errorf("recorded %+v", r)
				}
				if err != nil && string(body) == "half" {
					break
				}
				if err == nil || len(body) > 0 || time > patience {
					t.Fatalf("%q, %v", body, err)
				}
			}
		})
	}
}
