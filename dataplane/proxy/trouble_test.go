package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/headgate/headgate/dataplane/upstream"
)

// What an endpoint is ejected for is told in words that can be acted on.
func TestEjectionSaysWhatWentWrong(t *testing.T) {
	resetting := newBackend(t)
	go func() {
		for {
			c, err := resetting.listener.AcceptTCP()
			if err != nil {
				return
			}
			_ = c.SetLinger(0)
			_, _ = c.Read(make([]byte, 1))
			_ = c.Close()
		}
	}()
	for _, test := range []struct {
		name     string
		address  string
		evidence string
	}{
		{"dead", refusing(t), "connect failure: connection refused after "},
		{"failing", serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })), "server error: status 503 after "},
		{"resetting", resetting.address(), "reset: connection reset by peer after "},
		{"not HTTP", talking(t, "SSH-2.0-OpenSSH\r\n"), "server error: response that does not begin with HTTP/ after "},
		{"missing", "unix:/nonexistent/socket", "connect failure: no such file or directory after "},
	} {
		t.Run(test.name, func(t *testing.T) {
			live := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			g := start(t, manifest(
				"clusters: [{name: main, endpoints: [{address: '"+test.address+"'}, {address: '"+live+"'}], outlierDetection: {consecutiveFailures: 2}}]",
				"routes: [{name: all, forward: {backends: [{cluster: main}], retry: {'on': [connect-failure, reset-before-response, 5xx, invalid-response], backoff: 0.001s}}}]",
			))
			client := visit(t, g)
			for range 4 {
				response, err := client.Get(client.base + "/")
				if err != nil {
					t.Fatal(err)
				}
				_ = response.Body.Close()
				if response.StatusCode != http.StatusOK {
					t.Errorf("status %d", response.StatusCode)
				}
			}
			bad := g.registry.Status()[0].Endpoints[0]
			if bad.State != upstream.StateEjected || !strings.HasPrefix(bad.Evidence, test.evidence) {
				t.Errorf("%v: %s (%s), want %s", bad.State, bad.Cause, bad.Evidence, test.evidence)
			}
		})
	}
}

// talking is the address of a server that says the same to whoever connects.
func talking(t testing.TB, text string) string {
	b := newBackend(t)
	go func() {
		for {
			c, err := b.listener.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(text))
			_, _ = c.Read(make([]byte, 1024))
			_ = c.Close()
		}
	}()
	return b.address()
}
