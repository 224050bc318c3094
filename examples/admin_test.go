package examples_test

import (
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// page is the status and the body of an admin page.
func (s *site) page(path string) string {
	s.t.Helper()
	return s.must(`curl -sS -w '%{http_code}\n' http://` + defaultAdmin + path)
}

func TestAdminPages(t *testing.T) {
	t.Parallel()
	need(t, "curl")
	s := newSite(t, "quickstart")
	p := s.start("dataplane")
	if got := s.page("/healthz"); got != "ok\n200\n" {
		t.Errorf("/healthz of an idle data plane: %s", got)
	}
	if got := s.page("/readyz"); !strings.HasSuffix(got, "\n503\n") || !strings.Contains(got, "snapshot") {
		t.Errorf("/readyz without a snapshot: %s", got)
	}
	s.write("routes.yaml", ping("one"))
	s.must("ctl apply routes.yaml")
	for range 3 {
		s.answers("one")
	}
	if got := s.page("/readyz"); got != "ready\n200\n" {
		t.Errorf("/readyz with a snapshot: %s", got)
	}
	metrics := s.page("/metrics")
	for _, line := range []string{
		`http_server_request_duration_seconds_count\{.*http_response_status_code="200",http_route="ping"\} 3`,
		`headgate_listener_connections\{headgate_listener="web"\} 0`,
		`headgate_snapshot_info\{.*headgate_snapshot_version="one"\} 1`,
		`process_open_fds \d+`,
	} {
		if !regexp.MustCompile("(?m)^" + line + "$").MatchString(metrics) {
			t.Errorf("/metrics has no line like %s:\n%s", line, metrics)
		}
	}
	if got := s.page("/debug/requests"); strings.Count(got, `"ping"`) != 3 {
		t.Errorf("/debug/requests: %s", got)
	}

	// It drains and ends by itself.
	p.signal(syscall.SIGTERM)
	if code := p.exitCode(); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}
}
