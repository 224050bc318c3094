package examples_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

func TestControlPlaneInGo(t *testing.T) {
	t.Parallel()
	need(t, "curl")
	if n := strings.Count(string(mustRead(t, "controlplane-go/main.go")), "\n"); n >= 60 {
		t.Errorf("it has %d lines; less than 60 are promised", n)
	}
	r := follow(t, "controlplane-go")
	goesWithHealth(r, "controlplane-go", `go-1`, "SNAPSHOT_STATE_ACTIVE", `%s HEALTH_STATE_UNHEALTHY .*connection refused`)
}

func TestControlPlaneInJavaScript(t *testing.T) {
	t.Parallel()
	need(t, "curl", "node", "npm")
	install(t, "controlplane-node")
	r := follow(t, "controlplane-node")
	goesWithHealth(r, "node", `node-1`, "is ACTIVE", `%s is UNHEALTHY: .*connection refused`)
}

// goesWithHealth sees a control plane say that its snapshot is active, and a
// backend that ends. Then it ends the control plane: the data plane serves on.
func goesWithHealth(r *tour, program, version, active, unhealthy string) {
	r.t.Helper()
	p := r.running[program]
	p.await(active)
	if got := r.status().GetNode().GetSnapshot().GetVersion(); got != version {
		r.t.Errorf("the active snapshot is %q, want %q", got, version)
	}
	r.running["backend"].kill(syscall.SIGKILL)
	p.await(strings.ReplaceAll(unhealthy, "%s", r.at("127.0.0.1:9002")))
	p.kill(syscall.SIGKILL)
	r.check(step{"curl -s http://127.0.0.1:8080/", "red GET /\n"})
}

// install installs the packages that an example in JavaScript asks for, if they
// are not there or have changed since.
func install(t *testing.T, folder string) {
	t.Helper()
	wanted, err := os.Stat(folder + "/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if there, err := os.Stat(folder + "/node_modules/.package-lock.json"); err == nil && !there.ModTime().Before(wanted.ModTime()) {
		return
	}
	npm := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	npm.Dir = folder
	if out, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
}
