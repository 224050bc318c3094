// Package examples_test runs the examples as their READMEs tell it: real
// processes, real sockets, curl as the client and nginx among the servers.
// Nothing of the data plane is imported; what is known of it comes from its API,
// its pages and its answers.
package examples_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// patience bounds each wait for something that must happen. It is long because
// the machine may be busy, and nothing waits for it to end.
const patience = 40 * time.Second

// programs is the directory with what TestMain has built.
var programs string

func TestMain(m *testing.M) {
	code, err := build(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// build builds the programs once for all tests, and runs these.
func build(run func() int) (code int, err error) {
	if programs, err = os.MkdirTemp("", "headgate-examples-"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(programs)) }()
	compile := exec.Command("go", "build", "-pgo=off", "-o", programs+"/",
		"../cmd/dataplane", "../cmd/ctl", "./backend", "./controlplane-go")
	if out, err := compile.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return run(), nil
}

// need looks for programs of the system. Without them the test is skipped, but
// never where all that is tested must be tested.
func need(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err == nil {
			continue
		}
		if _, err := os.Stat(filepath.Join("/usr/sbin", name)); err == nil {
			continue
		}
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is missing; .ci/packages installs it", name)
		}
		t.Skipf("%s is missing; .ci/packages installs it", name)
	}
}
