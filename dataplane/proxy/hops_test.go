package proxy_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestMaxForwards counts the hands that OPTIONS and TRACE go through, and leaves
// other requests alone.
func TestMaxForwards(t *testing.T) {
	for _, w := range byteWires {
		t.Run(w.client+" to "+w.upstream, func(t *testing.T) {
			seen := make(chan string, 1)
			g := start(t, singleOver(w.upstream, serveOver(t, w.upstream, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				seen <- strings.Join(r.Header.Values("Max-Forwards"), "|")
			}))))
			ask := func(method, value string) string {
				if w.client == "HTTP/2" {
					f := g.frames()
					return f.await(f.open(true, method, "/x", "max-forwards", value)).status
				}
				client := g.dial()
				client.send(method + " /x HTTP/1.1\r\nHost: h\r\nMax-Forwards: " + value + "\r\n\r\n")
				return client.head()[len("HTTP/1.1 "):][:3]
			}
			for _, c := range []struct{ method, value, status, forwarded string }{
				{"OPTIONS", "0", "200", ""},
				{"TRACE", "0", "405", ""},
				{"OPTIONS", "1", "200", "0"},
				{"TRACE", "010", "200", "9"},
				{"OPTIONS", "x", "200", "x"},
				{"OPTIONS", "-1", "200", "-1"},
				{"GET", "0", "200", "0"},
			} {
				if status := ask(c.method, c.value); status != c.status {
					t.Errorf("%s with %s: status %s", c.method, c.value, status)
				}
				if c.forwarded == "" {
					select {
					case got := <-seen:
						t.Errorf("%s with %s is forwarded, with %q", c.method, c.value, got)
					default:
					}
				} else if got := <-seen; got != c.forwarded {
					t.Errorf("%s with %s is forwarded with %q", c.method, c.value, got)
				}
			}
		})
	}
}
