package proxy_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// An upstream that takes requests and never answers costs firstByte, on new and on
// reused connections alike, until its circuit opens; then it costs nothing.
func TestMuteUpstream(t *testing.T) {
	const firstByte = 50 * time.Millisecond
	for _, protocol := range []string{"HTTP/1", "HTTP/2"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			mute := func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/warm" {
					<-r.Context().Done()
				}
			}
			wire := map[string]string{"HTTP/1": "", "HTTP/2": "http2: {}, "}[protocol]
			g := start(t, manifest(
				fmt.Sprintf("clusters: [{name: main, %sendpoints: [{address: '%s'}], circuitBreaker: {consecutiveFailures: 3, openFor: 3600s}}]", wire, serveOver(t, protocol, http.HandlerFunc(mute))),
				"routes:",
				"- {name: warm, matches: [{path: {exact: /warm}}], forward: {backends: [{cluster: main}]}}", // however slow the machine is
				"- {name: all, forward: {backends: [{cluster: main}], timeouts: {firstByte: 0.05s}}}",
			))
			client := visit(t, g)
			for n, want := range []int{200, 504, 504, 504, 503, 503} {
				path := "/"
				if n == 0 {
					path = "/warm" // leaves a connection that the next request uses again
				}
				response, err := client.Get(client.base + path)
				if err != nil {
					t.Fatal(err)
				}
				_ = response.Body.Close()
				r := g.recent(n + 1)[n]
				if response.StatusCode != want || want == 504 && r.Duration < firstByte || want == 503 && r.Attempts != 0 {
					t.Errorf("request %d: %d after %v with %d attempts, want %d", n, response.StatusCode, r.Duration, r.Attempts, want)
				}
			}
			g.settles()
		})
	}
}
