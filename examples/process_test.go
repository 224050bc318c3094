package examples_test

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a program that runs, and what it has said so far.
type process struct {
	t     *testing.T
	name  string
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended

	mu sync.Mutex
	// guarded by mu
	said    bytes.Buffer
	read    int           // up to where await has read
	written chan struct{} // closed at the next write
}

// startProcess starts a program, which is killed at the end of the test.
func startProcess(t *testing.T, dir string, env []string, name string, command ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, ended: make(chan struct{}), written: make(chan struct{})}
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Dir, p.cmd.Env = dir, env
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // its exit code is in cmd.ProcessState
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill(syscall.SIGKILL)
		if text := p.text(); t.Failed() || strings.Contains(text, "panic:") {
			t.Logf("%s said:\n%s", name, text)
		}
		if strings.Contains(p.text(), "panic:") {
			t.Errorf("%s panicked", name)
		}
	})
	return p
}

// Write takes what the process says.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.written)
	p.written = make(chan struct{})
	return p.said.Write(b)
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

// next returns what was said since the last match, and when there is more.
func (p *process) next() (unread string, more <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.said.Bytes()[p.read:]), p.written
}

// await waits until the process says what a pattern matches, behind what an
// earlier await has matched, and returns the match with its groups.
func (p *process) await(pattern string) []string {
	p.t.Helper()
	expression := regexp.MustCompile("(?m)" + pattern)
	deadline := time.After(patience)
	for {
		unread, more := p.next()
		if found := expression.FindStringSubmatchIndex(unread); found != nil {
			p.mu.Lock()
			p.read += found[1]
			p.mu.Unlock()
			return expression.FindStringSubmatch(unread)
		}
		select {
		case <-more:
		case <-p.ended:
			if last, _ := p.next(); last == unread {
				p.t.Fatalf("%s has ended without saying %q", p.name, pattern)
			}
		case <-deadline:
			p.t.Fatalf("%s did not say %q in %v; since the last time it said:\n%s", p.name, pattern, patience, unread)
		}
	}
}

// signal sends a signal.
func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}

// kill sends a signal that ends the process, and waits until it has.
func (p *process) kill(s os.Signal) {
	_ = p.cmd.Process.Signal(s) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Errorf("%s does not end by %v", p.name, s)
	}
}

// exitCode waits for the end.
func (p *process) exitCode() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("%s does not end", p.name)
	}
	return p.cmd.ProcessState.ExitCode()
}
