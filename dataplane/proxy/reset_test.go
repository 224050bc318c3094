package proxy_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// A stream that its upstream resets before it answers is no connection that had died
// meanwhile: the request is not sent again unless the route has it tried again, and the
// client is told what it was.
func TestStreamResetIsNoDeadConnection(t *testing.T) {
	for _, client := range []string{"HTTP/1", "HTTP/2", "HTTP/3"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			var seen atomic.Int32
			resets := func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/reset" {
					seen.Add(1)
					panic(http.ErrAbortHandler)
				}
			}
			once := strings.Replace(singleOver("HTTP/2", serveOver(t, "HTTP/2", http.HandlerFunc(resets))), "{cluster: main}]", "{cluster: main}], retry: {attempts: 0}", 1)
			g := start(t, once)
			v := visitOver(t, client, g)
			for n, path := range []string{"/", "/reset", "/"} {
				response, err := v.Get(v.base + path)
				if err != nil {
					t.Fatal(err)
				}
				_ = response.Body.Close()
				if path == "/" {
					if response.StatusCode != http.StatusOK {
						t.Errorf("%d: %d", n, response.StatusCode)
					}
					continue
				}
				if says := response.Header.Get("Proxy-Status"); response.StatusCode != http.StatusBadGateway || !strings.Contains(says, "connection_terminated") || !strings.Contains(says, "reset the stream") {
					t.Errorf("%d, %s", response.StatusCode, says)
				}
			}
			if n := seen.Load(); n != 1 {
				t.Errorf("the upstream saw the request %d times", n)
			}
			g.settles()
		})
	}
}
