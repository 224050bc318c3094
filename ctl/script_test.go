package ctl

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write what the programs print into testdata")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestScripts runs testdata/*.txtar, the specification of the command line.
// Besides what testscript has, a script knows:
//
//	serve [-memory]       start a node that listens at $HEADGATE_TARGET
//	stop                  stop it
//	publish CAUSE         make the node say that an endpoint is unhealthy
//	[!] ctl ARGS          run ctl, which must end with 0, or with 1 after "!"
//	exits CODE ARGS       run ctl, which must end with that code
//
// Output is made the same on every run: digests are numbered in the order in
// which a script shows them, the script's directory is $WORK, and ctl's clock
// stands at scriptTime, before anything that the node does.
func TestScripts(t *testing.T) {
	testscript.RunT(oneByOne{t}, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: *update,
		Setup:         setUpScript,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve":   serveCommand,
			"stop":    stopCommand,
			"publish": publishCommand,
			"ctl": func(ts *testscript.TestScript, neg bool, args []string) {
				want := exitDone
				if neg {
					want = exitFailed
				}
				runProgram(ts, want, args)
			},
			"exits": func(ts *testscript.TestScript, _ bool, args []string) {
				want, err := strconv.Atoi(args[0])
				ts.Check(err)
				runProgram(ts, want, args[1:])
			},
		},
	})
}

// scriptTime is when ctl runs: three minutes after the node was started.
var scriptTime = nodeStarted.Add(3 * time.Minute)

// oneByOne runs scripts one after the other, since ctl runs in this process
// and its working directory is the process's.
type oneByOne struct{ *testing.T }

func (oneByOne) Parallel()     {}
func (oneByOne) Verbose() bool { return testing.Verbose() }

func (o oneByOne) Run(name string, body func(testscript.T)) {
	o.T.Run(name, func(t *testing.T) { body(oneByOne{t}) })
}

type scriptKey struct{}

// script is what one script needs besides its directory.
type script struct {
	node  *scriptNode
	scrub scrubber
}

func scriptOf(ts *testscript.TestScript) *script { return ts.Value(scriptKey{}).(*script) }

func setUpScript(env *testscript.Env) error {
	dir, err := os.MkdirTemp("", "hg")
	if err != nil {
		return err
	}
	s := &script{node: &scriptNode{address: "unix:" + filepath.Join(dir, "s"), state: filepath.Join(env.WorkDir, "state")}}
	s.scrub.names = map[string]string{env.WorkDir: "$WORK", s.node.address: "unix:/node"}
	env.Values[scriptKey{}] = s
	env.Defer(func() {
		s.node.stop()
		_ = os.RemoveAll(dir)
	})
	env.Setenv("HEADGATE_TARGET", s.node.address)
	env.Setenv("HEADGATE_WRITER", "tester")
	env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
	return nil
}

func serveCommand(ts *testscript.TestScript, _ bool, args []string) {
	memory := len(args) > 0 && args[0] == "-memory"
	ts.Check(scriptOf(ts).node.start(memory))
}

func stopCommand(ts *testscript.TestScript, _ bool, _ []string) { scriptOf(ts).node.stop() }

func publishCommand(ts *testscript.TestScript, _ bool, args []string) {
	scriptOf(ts).node.publish(strings.Join(args, " "))
}

// runProgram runs ctl and leaves its scrubbed output for cmp and stdout.
func runProgram(ts *testscript.TestScript, want int, args []string) {
	defer enter(ts)()
	stdin, stdout, stderr := new(strings.Reader), new(bytes.Buffer), new(bytes.Buffer)
	if name := ts.Getenv("STDIN"); name != "" {
		stdin = strings.NewReader(ts.ReadFile(name))
	}
	c := &CLI{
		env: environment(ts), stdin: stdin, stdout: stdout, stderr: stderr,
		now: func() time.Time { return scriptTime },
	}
	got := c.main(context.Background(), args)
	s := scriptOf(ts)
	out, words := s.scrub.text(stdout.String()), s.scrub.text(stderr.String())
	_, _ = io.WriteString(ts.Stdout(), out)
	_, _ = io.WriteString(ts.Stderr(), words)
	if got != want {
		ts.Fatalf("ctl ended with %d, want %d\n%s%s", got, want, out, words)
	}
}

// exporterVariable is read from the process's environment by autoexport.
const exporterVariable = "OTEL_TRACES_EXPORTER"

// enter makes the script's directory and exporter those of the process until
// the function that it returns is called.
func enter(ts *testscript.TestScript) (leave func()) {
	before, err := os.Getwd()
	ts.Check(err)
	ts.Check(os.Chdir(ts.MkAbs(".")))
	ts.Check(os.Setenv(exporterVariable, ts.Getenv(exporterVariable)))
	return func() {
		ts.Check(os.Chdir(before))
		ts.Check(os.Unsetenv(exporterVariable))
	}
}

// environment is what the script has set of the variables that ctl knows.
func environment(ts *testscript.TestScript) environ {
	var env environ
	for _, name := range []string{
		"HEADGATE_TARGET", "HEADGATE_WRITER", "XDG_CONFIG_HOME", "HOME", "NO_COLOR", "TRACEPARENT", exporterVariable,
	} {
		env = append(env, name+"="+ts.Getenv(name))
	}
	return env
}

var (
	digestPattern = regexp.MustCompile(`\b[0-9a-f]{64}\b|\b[0-9a-f]{12}\b`)
	timePattern   = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:]{8}(\.[0-9]+)?`)
	clockPattern  = regexp.MustCompile(`\b[0-9]{2}:[0-9]{2}:[0-9]{2}\b`)
)

// scrubber makes output the same on every run. It keeps the width of digests,
// so that columns stay.
type scrubber struct {
	names   map[string]string
	digests []string // short ones, in the order in which they were seen
}

func (s *scrubber) text(text string) string {
	for long, name := range s.names {
		text = strings.ReplaceAll(text, long, name)
	}
	text = digestPattern.ReplaceAllStringFunc(text, s.digest)
	text = timePattern.ReplaceAllString(text, "2026-01-02 03:04:05")
	return clockPattern.ReplaceAllString(text, "03:04:05")
}

func (s *scrubber) digest(digest string) string {
	n := 0
	for n < len(s.digests) && s.digests[n] != digest[:12] {
		n++
	}
	if n == len(s.digests) {
		s.digests = append(s.digests, digest[:12])
	}
	return fmt.Sprintf("digest%06d", n+1) + strings.Repeat(".", len(digest)-12)
}
