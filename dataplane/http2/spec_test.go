package http2

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestH2spec runs the conformance suite h2spec in clear and over TLS. A request
// without a body gets an answer that fills the windows, so that its stream stays
// open: the suite counts open streams, and looks at small windows.
func TestH2spec(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	program := filepath.Join(t.TempDir(), "h2spec")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/summerwind/h2spec/cmd/h2spec")
	build.Dir = filepath.Join("testdata", "h2spec")
	if out, err := build.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "dial tcp") || strings.Contains(string(out), "module lookup disabled") {
			t.Skipf("the suite's module cannot be had here: %s", out)
		}
		t.Fatalf("%v\n%s", err, out)
	}
	page := make([]byte, 100<<10)
	handle := func(s *Stream) {
		if s.Fault() == nil && s.Ended() {
			_ = s.WriteResponseHead(200, nil, false, 0)
			_, _ = s.WriteData(page, true, 0)
			return
		}
		echo(s)
	}
	for name, run := range map[string]struct {
		address string
		flags   []string
	}{
		"clear": {listen(t, Options{}, handle), nil},
		"TLS":   {listenTLS(t, Options{}, handle), []string{"-t", "-k"}},
	} {
		t.Run(name, func(t *testing.T) {
			host, port, _ := net.SplitHostPort(run.address)
			args := append(run.flags, "-h", host, "-p", port, "-o", "10", "generic", "http2", "hpack")
			out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "145 tests, 145 passed, 0 skipped, 0 failed") {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}

// testCertificate makes a certificate for 127.0.0.1.
func testCertificate(t testing.TB) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// listenTLS is listen behind TLS, which agrees on HTTP/2.
func listenTLS(t testing.TB, o Options, handle func(*Stream)) string {
	t.Helper()
	certificate, _ := testCertificate(t)
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"}}
	return listenOver(t, o, handle, func(error) {}, func(c net.Conn) net.Conn { return tls.Server(c, config) })
}

// TestH2load has the load generator of nghttp2 make requests, where it is
// installed: one more client that is not written in Go.
func TestH2load(t *testing.T) {
	program, err := exec.LookPath("h2load")
	if err != nil {
		t.Skip("h2load is not installed")
	}
	body := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(body, make([]byte, 50<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, address := range map[string]string{
		"http":  listen(t, Options{}, echo),
		"https": listenTLS(t, Options{}, echo),
	} {
		for _, flags := range [][]string{nil, {"-d", body}} {
			args := append(flags, "-n", "500", "-c", "4", "-m", "32", name+"://"+address+"/echo")
			out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "500 succeeded, 0 failed, 0 errored, 0 timeout") {
				t.Errorf("%v\n%s", err, out)
			}
		}
	}
}
