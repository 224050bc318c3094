package control

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// authority signs certificates for a test.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.sign("authority", &x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	return a
}

// sign writes name.crt and name.key; without a parent the certificate signs itself.
func (a *authority) sign(name string, c *x509.Certificate, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(1), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if parent == nil {
		parent, by = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".crt", &pem.Block{Type: "CERTIFICATE", Bytes: der})
	a.write(name+".key", &pem.Block{Type: "PRIVATE KEY", Bytes: private})
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

func (a *authority) write(name string, b *pem.Block) {
	if err := os.WriteFile(a.file(name), pem.EncodeToMemory(b), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// TestClientCertificates lets in who has a certificate, and knows the writer by it.
func TestClientCertificates(t *testing.T) {
	ca := newAuthority(t)
	ca.sign("node", &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca.cert, ca.key)
	ca.sign("controller", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, ca.cert, ca.key)
	serverTLS, err := ReadTLS(ca.file("node.crt"), ca.file("node.key"), ca.file("authority.crt"))
	if err != nil {
		t.Fatal(err)
	}
	auth := Auth{TLS: serverTLS}
	l, err := Listen("127.0.0.1:0", auth)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(o *Options) { o.Auth = auth })
	served := make(chan error, 1)
	go func() { served <- r.server.Serve(l) }()

	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	pair, err := tls.LoadX509KeyPair(ca.file("controller.crt"), ca.file("controller.key"))
	if err != nil {
		t.Fatal(err)
	}
	apply := func(c *tls.Config) (*controlv1.ApplyResponse, error) {
		conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(c)))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		client := controlv1.NewSnapshotServiceClient(conn)
		return client.Apply(t.Context(), &controlv1.ApplyRequest{Snapshot: config("one", 1, 1)})
	}
	if _, err := apply(&tls.Config{RootCAs: roots}); status.Code(err) != codes.Unavailable {
		t.Errorf("without a certificate: %v", err)
	}
	out, err := apply(&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}})
	if err != nil || out.Snapshot.Writer != "controller" {
		t.Errorf("applied %v, %v", out, err)
	}
	r.server.Stop(t.Context())
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestReadTLSFaults(t *testing.T) {
	ca := newAuthority(t)
	if _, err := ReadTLS(ca.file("none.crt"), ca.file("none.key"), ""); err == nil {
		t.Error("no certificate is one")
	}
	if _, err := ReadTLS(ca.file("authority.crt"), ca.file("authority.key"), ca.file("authority.key")); err == nil {
		t.Error("a key is an authority")
	}
	c, err := ReadTLS(ca.file("authority.crt"), ca.file("authority.key"), "")
	if err != nil || c.ClientAuth != tls.NoClientCert || (Auth{TLS: c}).authenticates() {
		t.Errorf("%v, %v", c, err)
	}
}
