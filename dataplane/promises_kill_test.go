package dataplane

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"

	"github.com/headgate/headgate/dataplane/control"
	"github.com/headgate/headgate/dataplane/snapshot"
)

// victimDir makes this test binary a process with twenty-five data planes, each with a
// state directory in that one. They restore what is there, say so, and once they
// are told to go on apply one snapshot after the other until they are killed. So
// each kill hits twenty-five applies, each at a moment of its own.
const (
	victimDir = "HEADGATE_TEST_VICTIM_DIR"
	victims   = 25
)

// The lines that a victim says, each with its own number first: the generation,
// version, digest and term that are active, and from then on each number that it
// pushes and that is ACTIVE.
const (
	saidRestored = "%d restored %d %q %q %d\n"
	saidPushed   = "%d pushed %d\n"
	saidActive   = "%d active %d\n"
)

func stateDir(dir string, who int) string { return filepath.Join(dir, fmt.Sprint(who)) }

// numbered is the snapshot of a number. Everything in it says the number; it is
// large enough that a write can be cut in the middle.
func numbered(dir string, n uint64) *configv1.Snapshot {
	marker := fmt.Sprint(n)
	s := &configv1.Snapshot{
		Version:   "v" + marker,
		Listeners: []*configv1.Listener{{Name: "web", Address: "unix:" + dir + "/web"}},
	}
	for i := range 12 {
		s.Routes = append(s.Routes, &configv1.Route{
			Name:    fmt.Sprintf("r%d", i),
			Matches: []*configv1.Match{{Path: &configv1.PathMatch{Kind: &configv1.PathMatch_Exact{Exact: fmt.Sprintf("/%d", i)}}}},
			Action:  &configv1.Route_Respond{Respond: &configv1.Respond{Status: 200, Body: marker + strings.Repeat(" ", 1000)}},
		})
	}
	return s
}

func runVictims(dir string) int {
	var told sync.WaitGroup
	told.Add(1)
	failed := make(chan error)
	for who := range victims {
		go func() { failed <- runVictim(stateDir(dir, who), who, &told) }()
	}
	go func() {
		if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err == nil {
			told.Done()
		}
	}()
	fmt.Println(<-failed)
	return 1
}

func runVictim(dir string, who int, told *sync.WaitGroup) error {
	s, err := New(context.Background(), Options{StateDir: dir})
	if err == nil {
		_, err = s.Restore(context.Background())
	}
	if err != nil {
		return err
	}
	info, _ := s.applier.Active()
	fmt.Printf(saidRestored, who, info.GetGeneration(), info.GetVersion(), info.GetDigest(), s.applier.Term())
	told.Wait()
	for n := info.GetGeneration() + 1; ; n++ {
		fmt.Printf(saidPushed, who, n)
		result, err := s.Apply(context.Background(), control.Request{Snapshot: numbered(dir, n), Term: n})
		if err != nil {
			return err
		}
		if result.Info.Generation != n {
			return fmt.Errorf("generation %d, not %d", result.Info.Generation, n)
		}
		fmt.Printf(saidActive, who, n)
	}
}

// history is what the controller of a data plane knows: what it was told to be
// active, what it has pushed since the last restart, and under which term at
// most.
type history struct{ active, pushed, term uint64 }

// TestKill kills data planes with SIGKILL at any moment of an apply, or of a
// restart, and looks at what a restart without any controller serves: the last
// snapshot that was said to be ACTIVE or the one that was on its way, and that
// whole.
func TestKill(t *testing.T) {
	moments := 200
	if testing.Short() {
		moments = 50
	}
	dir, err := os.MkdirTemp("", "kill") // a short path: sockets are in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	random := rand.New(rand.NewPCG(1, 2))
	var known [victims]history
	for round := range moments / victims {
		if round%4 == 3 {
			v := startVictims(t, dir)
			v.killAfter(time.Duration(random.IntN(500)) * time.Millisecond)
			v.rest()
		}
		killRound(t, dir, &known, random)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	// What the last kill left is looked at too.
	v := startVictims(t, dir)
	defer v.rest()
	defer v.kill()
	v.restored(t, &known)
	var active uint64
	for _, h := range known {
		active += h.active
	}
	t.Logf("killed at %d moments of %d applies", moments, active)
}

// killRound starts the data planes, holds what they restored to what is known,
// lets them apply and kills them.
func killRound(t *testing.T, dir string, known *[victims]history, random *rand.Rand) {
	t.Helper()
	v := startVictims(t, dir)
	defer v.rest()
	defer v.kill()
	v.restored(t, known)
	if t.Failed() {
		return
	}
	if _, err := v.in.Write([]byte("!")); err != nil {
		t.Fatal(err)
	}
	for range random.IntN(5 * victims) {
		v.next(known)
	}
	v.killAfter(time.Duration(random.IntN(20_000)) * time.Microsecond)
	for v.next(known) {
		continue
	}
	if len(v.trouble) > 0 {
		t.Errorf("a data plane says %q", v.trouble)
	}
}

// doomed is a process that is going to be killed.
type doomed struct {
	command *exec.Cmd
	dir     string
	in      io.WriteCloser
	out     *bufio.Reader
	trouble []string // lines that it should not say
}

func startVictims(t *testing.T, dir string) *doomed {
	t.Helper()
	v := &doomed{command: exec.Command(os.Args[0]), dir: dir}
	v.command.Env = append(os.Environ(), victimDir+"="+dir)
	v.command.Stderr = os.Stderr
	var err error
	if v.in, err = v.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := v.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	v.out = bufio.NewReader(out)
	if err := v.command.Start(); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v *doomed) kill() { _ = v.command.Process.Kill() }

func (v *doomed) killAfter(d time.Duration) { time.AfterFunc(d, v.kill) }

// rest reads what is left to be said and waits for the end.
func (v *doomed) rest() {
	_, _ = io.Copy(io.Discard, v.out)
	_ = v.command.Wait()
}

// next reads one more line; false after the last. A line that was cut was never
// said.
func (v *doomed) next(known *[victims]history) bool {
	line, err := v.out.ReadString('\n')
	if err != nil {
		return false
	}
	var who int
	var n uint64
	if _, err := fmt.Sscanf(line, saidPushed, &who, &n); err == nil {
		known[who].pushed, known[who].term = n, max(n, known[who].term)
		return true
	}
	if _, err := fmt.Sscanf(line, saidActive, &who, &n); err == nil {
		known[who].active = n
		return true
	}
	v.trouble = append(v.trouble, line)
	return true
}

// restored reads what each data plane found and holds it to what is known.
func (v *doomed) restored(t *testing.T, known *[victims]history) {
	t.Helper()
	for range victims {
		line, err := v.out.ReadString('\n')
		if err != nil {
			t.Fatalf("the data planes did not start: %q, %v", line, err)
		}
		var who int
		var n, term uint64
		var version, digest string
		if _, err := fmt.Sscanf(line, saidRestored, &who, &n, &version, &digest, &term); err != nil {
			t.Fatalf("a data plane says %q", line)
		}
		h := known[who]
		if n < h.active || n > h.pushed {
			t.Errorf("%d: generation %d after a restart; %d was ACTIVE and %d pushed", who, n, h.active, h.pushed)
		}
		// The term goes to the disk before the snapshot does.
		if term < n || term > h.term {
			t.Errorf("%d: generation %d runs and the highest term is %d", who, n, term)
		}
		known[who] = history{n, n, h.term}
		if n > 0 {
			v.holdTo(t, who, n, version, digest)
		}
	}
}

// holdTo compares what runs with what was pushed under that number, and asks two
// routes: both must say it.
func (v *doomed) holdTo(t *testing.T, who int, n uint64, version, digest string) {
	t.Helper()
	dir := stateDir(v.dir, who)
	pushed, violations := snapshot.Compile(numbered(dir, n))
	if pushed == nil {
		t.Fatal(violations)
	}
	if version != pushed.Version || digest != pushed.Digest {
		t.Errorf("%d: generation %d is %s %s, not %s %s", who, n, version, digest, pushed.Version, pushed.Digest)
	}
	c, err := connect(&net.UnixAddr{Net: "unix", Name: dir + "/web"})
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	for _, path := range []string{"/0", "/11"} {
		if a := c.mustGet(t, path); strings.TrimSpace(a.body) != fmt.Sprint(n) {
			t.Errorf("%d: GET %s: %d %q, generation %d runs", who, path, a.status, strings.TrimSpace(a.body), n)
		}
	}
}
