package proxy_test

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestH2spec runs the conformance suite h2spec against the data plane in clear,
// with a backend of HTTP/1.1. HEADGATE_H2SPEC names the program; without it, one is
// built from the modules that the tests of the wire name. The backend's answer
// fills the windows, so that streams stay open: the suite counts open streams and
// looks at small windows.
//
// One case of the 145, http2/3.5/2, is left out: what does not begin with the
// preface of HTTP/2 is read as HTTP/1.1 on the same port, and refused with a 400
// in that, where the suite wants no answer at all. The tests of the wire, which
// speaks HTTP/2 alone, have it.
func TestH2spec(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	program := os.Getenv("HEADGATE_H2SPEC")
	if program == "" {
		program = buildH2spec(t)
	}
	page := make([]byte, 100<<10)
	address := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			_, _ = w.Write(page)
			return
		}
		echo(w, r)
	}))
	g := start(t, single(address))
	host, port, _ := net.SplitHostPort(g.listener.Addr().String())
	args := []string{"-h", host, "-p", port, "-o", "10", "generic", "http2/3.5/1", "http2/4", "http2/5", "http2/6", "http2/7", "http2/8", "hpack"}
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "144 tests, 144 passed, 0 skipped, 0 failed") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func buildH2spec(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "h2spec")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/summerwind/h2spec/cmd/h2spec")
	build.Dir = filepath.Join("..", "http2", "testdata", "h2spec")
	buildOrSkip(t, build)
	return program
}

// buildOrSkip builds a program of other modules, or skips the test where these
// cannot be had.
func buildOrSkip(t *testing.T, build *exec.Cmd) {
	t.Helper()
	out, err := build.CombinedOutput()
	if err == nil {
		return
	}
	if strings.Contains(string(out), "dial tcp") || strings.Contains(string(out), "module lookup disabled") {
		t.Skipf("the modules of the suite cannot be had here: %s", out)
	}
	t.Fatalf("%v\n%s", err, out)
}
