package http2

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestH2spec runs the conformance suite, if HEADGATE_H2SPEC names its program
// (go install github.com/summerwind/h2spec/cmd/h2spec). A request without a body
// gets an answer that fills the windows, so that its stream stays open: the suite
// counts open streams, and looks at small windows.
func TestH2spec(t *testing.T) {
	program := os.Getenv("HEADGATE_H2SPEC")
	if program == "" {
		t.Skip("HEADGATE_H2SPEC is not set")
	}
	page := make([]byte, 100<<10)
	host, port, _ := net.SplitHostPort(listen(t, Options{}, func(s *Stream) {
		if s.Fault() == nil && s.Ended() {
			_ = s.WriteResponseHead(200, nil, false, 0)
			_, _ = s.WriteData(page, true, 0)
			return
		}
		echo(s)
	}))
	out, err := exec.CommandContext(t.Context(), program, "-h", host, "-p", port, "-o", "3", "generic", "http2", "hpack").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "145 tests, 145 passed, 0 skipped, 0 failed") {
		t.Fatalf("%v\n%s", err, out)
	}
}
