package examples_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// Addresses of a data plane that has been told none.
const (
	defaultControl = "127.0.0.1:7070"
	defaultAdmin   = "127.0.0.1:7071"
)

// site is what the files of an example are about, moved to addresses that
// nobody else uses, so that examples run beside each other and beside whatever
// has the ports that they name.
type site struct {
	t   *testing.T
	dir string // where programs run; has examples/ with the moved files
	env []string

	mu    sync.Mutex
	moved map[string]string // by the address as written
}

// newSite moves one example.
func newSite(t *testing.T, example string, env ...string) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), moved: map[string]string{}}
	s.env = append(os.Environ(),
		"PATH="+programs+":"+os.Getenv("PATH")+":/usr/sbin",
		"HEADGATE_TARGET="+s.at(defaultControl), "HOME="+s.dir, "XDG_CONFIG_HOME="+s.dir, "NO_COLOR=1")
	s.env = append(s.env, env...)
	s.move("nginx.conf")
	for _, file := range glob(t, example+"/routes.yaml") {
		s.move(file)
	}
	s.link("controlplane-node")
	return s
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// move copies a file of this directory to the site.
func (s *site) move(file string) {
	s.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(filepath.Join("examples", file), string(text))
}

// link puts a folder of this directory into the site as it is.
func (s *site) link(folder string) {
	s.t.Helper()
	path, err := filepath.Abs(folder)
	if err == nil {
		err = os.Symlink(path, filepath.Join(s.dir, "examples", folder))
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// write writes a file below the site's directory, with addresses moved.
func (s *site) write(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(s.here(text)), 0o644); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// written is an address in the files of an example.
var written = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// here puts the site's addresses in the place of the written ones.
func (s *site) here(text string) string { return written.ReplaceAllStringFunc(text, s.at) }

// there puts the written addresses in the place of the site's.
func (s *site) there(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for was, is := range s.moved {
		text = strings.ReplaceAll(text, is, was)
	}
	return text
}

// at is where the site has an address. All of 127.0.0.0/8 is loopback; each
// address gets an IP of its own there, so that a port stays free while its
// server is down. The kernel chooses the port.
func (s *site) at(address string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if is, ok := s.moved[address]; ok {
		return is
	}
	n := hosts.Add(1)
	ip := fmt.Sprintf("127.%d.%d.%d", 64+os.Getpid()>>8&63, os.Getpid()&255, n)
	listener, err := net.Listen("tcp", ip+":0")
	if err != nil {
		s.t.Fatal(err)
	}
	defer listener.Close()
	s.moved[address] = listener.Addr().String()
	return s.moved[address]
}

// hosts counts the addresses in use.
var hosts atomic.Int32

// start starts a command as an example writes it, and waits until it serves.
func (s *site) start(command string) *process {
	s.t.Helper()
	awaited := written.FindString(command)
	switch name, _, _ := strings.Cut(command, " "); name {
	case "dataplane":
		awaited = defaultControl
		command += " --control " + defaultControl + " --admin " + defaultAdmin
	case "nginx":
		awaited = "127.0.0.1:9002" // as nginx.conf says
		command = strings.ReplaceAll(command, "-p /tmp", "-p .")
	case "controlplane-go", "node":
		awaited = "127.0.0.1:8080" // the listener that it makes
	}
	p := s.launch(command)
	if awaited != "" {
		s.reach(p, s.at(awaited))
	}
	return p
}

// launch starts a command.
func (s *site) launch(command string) *process {
	s.t.Helper()
	return startProcess(s.t, s.dir, s.env, command, "bash", "-c", "exec "+s.here(command))
}

// reach waits until a process accepts connections. Not every program says when.
func (s *site) reach(p *process, address string) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return
		}
		select {
		case <-p.ended:
			s.t.Fatalf("%s has ended: %s", p.name, p.text())
		case <-time.After(5 * time.Millisecond):
		}
	}
	s.t.Fatalf("%s does not accept connections at %s", p.name, address)
}

// run runs a shell command as an example writes it, and returns what it said on
// both streams.
func (s *site) run(command string) (output string, err error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", s.here(command))
	cmd.Dir, cmd.Env = s.dir, s.env
	out, err := cmd.CombinedOutput()
	return s.there(string(out)), err
}

// must runs a shell command that must succeed.
func (s *site) must(command string) string {
	s.t.Helper()
	out, err := s.run(command)
	if err != nil {
		s.t.Fatalf("$ %s\n%s%v", command, out, err)
	}
	return out
}

// events watches what the data plane says of itself.
func (s *site) events() *process {
	s.t.Helper()
	return s.launch("ctl events --watch")
}

// status is what the data plane says of itself.
func (s *site) status() *controlv1.StatusResponse {
	s.t.Helper()
	status := &controlv1.StatusResponse{}
	if err := protojson.Unmarshal([]byte(s.must("ctl status -o json")), status); err != nil {
		s.t.Fatal(err)
	}
	return status
}

func mustRead(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
