package examples_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const fromState = "dataplane --state-dir state"

// ping is a manifest that needs no backend.
func ping(version string) string {
	return "version: " + version + `
listeners: [{name: web, address: "127.0.0.1:8080"}]
routes: [{name: ping, respond: {body: "` + version + `\n"}}]
`
}

func (s *site) answers(want string) {
	s.t.Helper()
	if got := s.must("curl -sS http://127.0.0.1:8080/"); got != want+"\n" {
		s.t.Fatalf("it answers %q, want %q", got, want)
	}
}

// restart kills the data plane and starts it again. Nobody applies anything.
func restart(s *site, p *process) *process {
	s.t.Helper()
	p.kill(syscall.SIGKILL)
	p = s.start(fromState)
	s.reach(p, s.at("127.0.0.1:8080"))
	return p
}

func TestRestartWithoutController(t *testing.T) {
	t.Parallel()
	need(t, "curl")
	s := newSite(t, "quickstart")
	p := s.start(fromState)
	for _, version := range []string{"one", "two"} {
		s.write("routes.yaml", ping(version))
		s.must("ctl apply routes.yaml")
	}
	s.answers("two")
	events := s.events()
	events.await("active: version two,")
	active := s.status().GetNode().GetSnapshot()

	p = restart(s, p)
	s.answers("two")
	// Whoever watches events is told that some are missing, and goes on.
	events.await("gap .*\n(?:.*\n)*.* active: version two,")
	if again := s.status().GetNode().GetSnapshot(); again.GetDigest() != active.GetDigest() || again.GetGeneration() != active.GetGeneration() {
		t.Errorf("after the restart %v is active; before, %v was", again, active)
	}

	other := s.launch("dataplane --state-dir state --control '' --admin ''")
	if code := other.exitCode(); code != 1 || !strings.Contains(other.text(), "state") {
		t.Errorf("a second data plane on the same directory ends with %d: %s", code, other.text())
	}

	// The newest generation is torn in the middle: the one before runs, and that is said.
	files := glob(t, filepath.Join(s.dir, "state", "generations", "*.pb"))
	newest := files[len(files)-1]
	if err := os.Truncate(newest, 100); err != nil {
		t.Fatal(err)
	}
	restart(s, p)
	s.answers("one")
	if events := s.must("ctl events --kind store"); !strings.Contains(events, filepath.Base(newest)) {
		t.Errorf("no event names %s:\n%s", filepath.Base(newest), events)
	}
}
