package dataplane

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// interopCases is how many of gRPC's interoperability tests need no account in a cloud.
const interopCases = 19

// TestInterop runs the interoperability tests of grpc-go, client and server, through a
// whole data plane: in clear, over TLS on both sides, and over TLS on either. They end
// their process on a fault, so each has one of its own.
func TestInterop(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	program := buildSuite(t, filepath.Join("testdata", "interop"), ".")
	k := newKeyring(t)
	k.issue("site", "site.example")
	inClear := runServer(t, program, "serve")
	overTLS := runServer(t, program, "serve", filepath.Join(k.folder, "site.crt"), filepath.Join(k.folder, "site.key"))
	g := start(t, Options{Folder: k.folder})
	g.apply(interopManifest(inClear, overTLS))
	for _, listener := range []string{"clear", "clear-tls", "tls-clear", "tls"} {
		t.Run(listener, func(t *testing.T) {
			args := []string{"call", g.at(listener).String()}
			if strings.HasPrefix(listener, "tls") {
				args = append(args, filepath.Join(k.folder, "ca.pem"), "site.example")
			}
			var says strings.Builder
			call := exec.CommandContext(t.Context(), program, args...)
			call.Stderr = &says
			out, err := call.Output()
			if n := strings.Count(string(out), "\n"); err != nil || n != interopCases {
				t.Errorf("%v after %d cases\n%s%s", err, n, out, &says)
			}
		})
	}
}

// interopManifest has a listener for each way to speak, or not, TLS on the two sides.
func interopManifest(inClear, overTLS string) string {
	return fmt.Sprintf(`
listeners:
- {name: clear, address: "127.0.0.1:0"}
- {name: clear-tls, address: "127.0.0.1:0"}
- {name: tls-clear, address: "127.0.0.1:0", tls: {certificates: [site]}}
- {name: tls, address: "127.0.0.1:0", tls: {certificates: [site]}}
certificates: [{name: site, certificateFile: site.crt, privateKeyFile: site.key}]
caBundles: [{name: ca, file: ca.pem}]
clusters:
- {name: clear, http2: {}, endpoints: [{address: "%s"}]}
- {name: tls, http2: {}, endpoints: [{address: "%s"}], tls: {caBundle: ca, serverName: site.example}}
routes:
- {name: clear, listeners: [clear, tls-clear], forward: {backends: [{cluster: clear}]}}
- {name: tls, listeners: [clear-tls, tls], forward: {backends: [{cluster: tls}]}}
`, inClear, overTLS)
}

// buildSuite builds a program of other modules, or skips the test where these cannot be
// had.
func buildSuite(t *testing.T, module, path string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "suite")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, path)
	build.Dir = module
	out, err := build.CombinedOutput()
	switch {
	case err == nil:
	case strings.Contains(string(out), "dial tcp"), strings.Contains(string(out), "module lookup disabled"):
		t.Skipf("the modules of the suite cannot be had here: %s", out)
	default:
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// runServer runs the program as a server until the test ends, and returns its address.
func runServer(t *testing.T, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	server := exec.CommandContext(ctx, program, args...)
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = server.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(address)
}
