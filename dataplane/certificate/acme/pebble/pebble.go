// Package pebble runs Pebble, an authority that speaks ACME, for tests. It
// verifies what it is asked to certify as a real one does: it looks the names up
// and connects to them. It knows nothing of who asks.
package pebble

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/headgate/headgate/dataplane/certificate/testca"
)

// Options say where the names that it certifies lead.
type Options struct {
	TLSPort  int // that it asks by TLS-ALPN-01
	HTTPPort int // that it asks by HTTP-01
	Refused  []string
}

// Server is a running authority. Every name leads to 127.0.0.1 for it.
type Server struct {
	Directory string // URL of its directory
	RootPEM   string // what its directory's own certificate chains to

	t       testing.TB
	own     *testca.CA
	manager string // address of its pages for tests
	ended   chan struct{}
	log     lockedBuffer
}

// program is Pebble, built in Go's cache.
var program = sync.OnceValues(func() (string, error) {
	_, here, _, _ := runtime.Caller(0)
	build := exec.CommandContext(context.Background(), "go", "tool", "-n", "pebble")
	build.Dir = filepath.Join(filepath.Dir(here), "testdata", "server")
	var out, faults bytes.Buffer
	build.Stdout, build.Stderr = &out, &faults
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, faults.Bytes())
	}
	return strings.TrimSpace(out.String()), nil
})

// Start runs an authority until the test ends. A test is skipped where Pebble
// cannot be had.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	path, err := program()
	if err != nil {
		if strings.Contains(err.Error(), "dial tcp") || strings.Contains(err.Error(), "module lookup disabled") {
			t.Skipf("Pebble's module cannot be had here: %v", err)
		}
		t.Fatal(err)
	}
	own, resolver := testca.New(t, "the directory's authority"), serveNames(t)
	pair, dir := own.Issue([]string{"127.0.0.1"}), t.TempDir()
	write(t, filepath.Join(dir, "pebble.crt"), []byte(pair.Cert))
	write(t, filepath.Join(dir, "pebble.key"), []byte(pair.Key))
	// Pebble cannot tell a port that the kernel chose: one that was free may be
	// taken by the time it is bound, and another is tried then.
	for range 5 {
		s := &Server{t: t, own: own, RootPEM: own.PEM, ended: make(chan struct{})}
		if s.run(path, dir, resolver, &o) {
			return s
		}
	}
	t.Fatal("Pebble did not start")
	return nil
}

func write(t testing.TB, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// run starts the process, and reports whether it has come to listen.
func (s *Server) run(path, dir, resolver string, o *Options) bool {
	s.t.Helper()
	address := freeAddress(s.t)
	s.manager, s.Directory = freeAddress(s.t), "https://"+address+"/dir"
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": address, "managementListenAddress": s.manager,
		"certificate": filepath.Join(dir, "pebble.crt"), "privateKey": filepath.Join(dir, "pebble.key"),
		"httpPort": o.HTTPPort, "tlsPort": o.TLSPort, "domainBlocklist": o.Refused,
		"retryAfter": map[string]int{"authz": 1, "order": 1}, "keyAlgorithm": "ecdsa",
		"profiles": map[string]any{"default": map[string]any{"description": "90 days", "validityPeriod": 90 * 24 * 3600}},
	}})
	if err != nil {
		s.t.Fatal(err)
	}
	write(s.t, filepath.Join(dir, "pebble.json"), config)
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, path, "-config", filepath.Join(dir, "pebble.json"), "-dnsserver", resolver)
	command.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0")
	command.Stdout, command.Stderr = &s.log, &s.log
	if err := command.Start(); err != nil {
		cancel()
		s.t.Fatal(err)
	}
	go func() {
		defer close(s.ended)
		_ = command.Wait()
	}()
	s.t.Cleanup(func() {
		cancel()
		<-s.ended
		if s.t.Failed() {
			s.t.Logf("Pebble:\n%s", s.log.String())
		}
	})
	return s.listens(address) && s.listens(s.manager)
}

// freeAddress is an address of loopback that nobody listens on.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// listens waits until an address takes connections, or the process has ended.
func (s *Server) listens(address string) bool {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-s.ended:
			return false
		case <-look.C:
			if c, err := net.Dial("tcp", address); err == nil {
				_ = c.Close()
				return true
			}
		}
	}
}

// Roots are what the certificates chain to that it gives.
func (s *Server) Roots() *x509.CertPool {
	s.t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.own.Pool(), MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	ask, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "https://"+s.manager+"/roots/0", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	response, err := (&http.Client{Transport: transport}).Do(ask)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		s.t.Fatalf("no root: %s", text)
	}
	root, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		s.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(root)
	return pool
}

// Issued is how many certificates it has given so far.
func (s *Server) Issued() int { return strings.Count(s.log.String(), "Issued certificate serial") }

// Asked is how many orders it was asked for so far, those included that it
// refused.
func (s *Server) Asked() int {
	return strings.Count(s.log.String(), "POST /order-plz -> calling handler")
}

// serveNames runs a resolver for which every name is 127.0.0.1.
func serveNames(t testing.TB) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{Listener: l, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		if q.Question[0].Qtype == dns.TypeA {
			m.Answer = []dns.RR{&dns.A{
				Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1},
				A:   net.IPv4(127, 0, 0, 1),
			}}
		}
		_ = w.WriteMsg(m)
	})}
	done := make(chan struct{})
	started := make(chan struct{})
	server.NotifyStartedFunc = func() { close(started) }
	go func() {
		defer close(done)
		_ = server.ActivateAndServe()
	}()
	<-started
	t.Cleanup(func() {
		_ = server.Shutdown()
		<-done
	})
	return l.Addr().String()
}

// lockedBuffer is what a process has said so far.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
