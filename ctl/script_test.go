package ctl

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "write what the programs print into testdata")

// programName is what the scripts' verbs run: this test binary as ctl.
const programName = "ctl-program"

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){programName: func() {
		os.Exit(Main(context.Background(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
	}})
}

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
// which a script shows them, ages are 0s, the script's directory is $WORK.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
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
	env.Setenv("TZ", "UTC")
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
	program := exec.Command(programName, args...)
	program.Dir = ts.MkAbs(".")
	program.Env = environment(ts)
	if stdin := ts.Getenv("STDIN"); stdin != "" {
		program.Stdin = strings.NewReader(ts.ReadFile(stdin))
	}
	var stdout, stderr bytes.Buffer
	program.Stdout, program.Stderr = &stdout, &stderr
	err := program.Run()
	s := scriptOf(ts)
	out, words := s.scrub.text(stdout.String()), s.scrub.text(stderr.String())
	_, _ = io.WriteString(ts.Stdout(), out)
	_, _ = io.WriteString(ts.Stderr(), words)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		ts.Fatalf("%v", err)
	}
	if got := program.ProcessState.ExitCode(); got != want {
		ts.Fatalf("ctl ended with %d, want %d\n%s%s", got, want, out, words)
	}
}

// environment is what the script has set of the variables that ctl knows.
func environment(ts *testscript.TestScript) []string {
	var env []string
	for _, name := range []string{
		"HEADGATE_TARGET", "HEADGATE_WRITER", "HEADGATE_CONFIG", "XDG_CONFIG_HOME", "HOME", "PATH", "TZ", "NO_COLOR",
		"OTEL_TRACES_EXPORTER", "TRACEPARENT", "GOCOVERDIR",
	} {
		env = append(env, name+"="+ts.Getenv(name))
	}
	return env
}

var (
	digestPattern = regexp.MustCompile(`\b[0-9a-f]{64}\b|\b[0-9a-f]{12}\b`)
	agePattern    = regexp.MustCompile(`\b[0-9]{1,2}s( ago)?$|\bup [0-9]{1,2}s|\b[0-9]{1,2}s ago`)
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
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = agePattern.ReplaceAllStringFunc(line, func(age string) string {
			return regexp.MustCompile(`[0-9]+`).ReplaceAllString(age, "0")
		})
	}
	text = timePattern.ReplaceAllString(strings.Join(lines, "\n"), "2026-01-02 03:04:05")
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
