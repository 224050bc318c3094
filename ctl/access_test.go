package ctl

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/dataplane/control"
)

// selfSigned writes a certificate for 127.0.0.1 that is its own authority, and
// its key.
func selfSigned(t *testing.T, dir, name string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	writePEM(t, certFile, "CERTIFICATE", cert)
	writePEM(t, keyFile, "PRIVATE KEY", private)
	return certFile, keyFile
}

func writePEM(t *testing.T, file, kind string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// serveWith serves a node's control API over TCP and returns its address.
func serveWith(t *testing.T, auth control.Auth) string {
	t.Helper()
	listener, err := control.Listen("127.0.0.1:0", auth)
	if err != nil {
		t.Fatal(err)
	}
	plane := new(idlePlane)
	applier := control.NewApplier(control.ApplierOptions{Node: plane})
	server := control.NewServer(control.Options{Applier: applier, Node: plane, Auth: auth})
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		server.Stop(now)
		<-served
		applier.Close()
	})
	return listener.Addr().String()
}

// A node that asks for a token and a client certificate lets in who has both,
// and the others are told what is missing.
func TestAccess(t *testing.T) {
	dir := t.TempDir()
	nodeCert, nodeKey := selfSigned(t, dir, "node")
	userCert, userKey := selfSigned(t, dir, "user")
	settings, err := control.ReadTLS(nodeCert, nodeKey, userCert)
	if err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("a-token-of-some-length\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	target := serveWith(t, control.Auth{TLS: settings, Token: "a-token-of-some-length"})

	for _, test := range []struct {
		name string
		args []string
		code int
		want string // in stderr
	}{
		{"all", []string{"--ca", nodeCert, "--cert", userCert, "--key", userKey, "--token-file", token}, exitDone, ""},
		{"no token", []string{"--ca", nodeCert, "--cert", userCert, "--key", userKey}, exitFailed, "wants to know who you are"},
		{"no certificate", []string{"--ca", nodeCert, "--token-file", token}, exitFailed, "error: "},
		{"unknown authority", []string{"--tls", "--cert", userCert, "--key", userKey, "--token-file", token}, exitFailed, "cannot reach " + target + ": authentication handshake failed"},
		{"in clear", nil, exitFailed, "error: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			stdout, stderr := new(output), new(output)
			args := append([]string{"status", "--target", target}, test.args...)
			if code := run(t.Context(), "", stdout, stderr, args...); code != test.code {
				t.Errorf("exit code %d, want %d\n%s", code, test.code, stderr)
			}
			if !strings.Contains(stderr.String(), test.want) {
				t.Errorf("stderr does not say %q:\n%s", test.want, stderr)
			}
		})
	}
}
