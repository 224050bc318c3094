package dataplane

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestH2spec runs the conformance suite h2spec against a whole data plane, in clear
// on the port that HTTP/1 shares with HTTP/2, and over TLS, with upstreams of either
// protocol. What the backend answers fills the windows, so that streams stay open:
// the suite counts open streams and looks at small windows.
func TestH2spec(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	program := buildSuite(t, filepath.Join("http2", "testdata", "h2spec"), "github.com/summerwind/h2spec/cmd/h2spec")
	g := start(t, Options{Folder: suiteKeys(t)})
	g.apply(suiteManifest(largePages(t, false), largePages(t, true)))
	for name, flags := range map[string][]string{
		"clear": nil, "secure": {"-t", "-k"}, "clear-h2": nil, "secure-h2": {"-t", "-k"},
	} {
		t.Run(name, func(t *testing.T) {
			host, port, _ := net.SplitHostPort(g.at(name).String())
			args := append(flags, "-h", host, "-p", port, "-o", "10", "generic", "http2", "hpack")
			out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "145 tests, 145 passed, 0 skipped, 0 failed") {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}

// suiteKeys is a folder with a certificate for the suite, which does not look at it.
func suiteKeys(t *testing.T) string {
	k := newKeyring(t)
	k.issue("site", "127.0.0.1")
	return k.folder
}

// suiteManifest has listeners in clear and over TLS for a backend of HTTP/1 and for
// one of HTTP/2.
func suiteManifest(http1, http2 string) string {
	return fmt.Sprintf(`
listeners:
- {name: clear, address: "127.0.0.1:0"}
- {name: secure, address: "127.0.0.1:0", tls: {certificates: [site]}}
- {name: clear-h2, address: "127.0.0.1:0"}
- {name: secure-h2, address: "127.0.0.1:0", tls: {certificates: [site]}}
certificates: [{name: site, certificateFile: site.crt, privateKeyFile: site.key}]
clusters:
- {name: h1, endpoints: [{address: "%s"}]}
- {name: h2, http2: {}, endpoints: [{address: "%s"}]}
routes:
- {name: h1, listeners: [clear, secure], forward: {backends: [{cluster: h1}]}}
- {name: h2, listeners: [clear-h2, secure-h2], forward: {backends: [{cluster: h2}]}}
`, http1, http2)
}

// largePages is the address of a backend whose answer to a request without a body
// fills the windows.
func largePages(t *testing.T, overHTTP2 bool) string {
	page := make([]byte, 100<<10)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, _ = io.Copy(io.Discard, r.Body); r.ContentLength == 0 {
			_, _ = w.Write(page)
		}
	}))
	if overHTTP2 {
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
	}
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}
