package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority is the certificate that all proxies have, and the clients' trust in
// it.
type authority struct {
	certificate, key, both string // files in PEM
	pool                   *x509.CertPool
}

const serverName = "bench.test"

// newAuthority makes a certificate of ECDSA P-256, the cheapest that clients of
// all kinds take, in dir.
func newAuthority(dir string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: serverName}, DNSNames: []string{serverName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	certificatePEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	a := &authority{
		certificate: filepath.Join(dir, "site.crt"), key: filepath.Join(dir, "site.key"), both: filepath.Join(dir, "site.pem"),
		pool: x509.NewCertPool(),
	}
	a.pool.AppendCertsFromPEM(certificatePEM)
	return a, errors.Join(os.WriteFile(a.certificate, certificatePEM, 0o600), os.WriteFile(a.key, keyPEM, 0o600),
		os.WriteFile(a.both, append(certificatePEM, keyPEM...), 0o600))
}

// config is what the clients of a scenario offer: TLS 1.3 alone, one key
// exchange, so that all proxies do the same, and no session to resume, so that
// every handshake is a full one. A proxy that does not know the hybrid exchange
// finds X25519 beside it.
func (a *authority) config(s *scenario) *tls.Config {
	c := &tls.Config{
		ServerName: serverName, RootCAs: a.pool, MinVersion: tls.VersionTLS13,
		CurvePreferences: []tls.CurveID{tls.X25519}, NextProtos: []string{"http/1.1"},
	}
	if s.hybrid {
		c.CurvePreferences = []tls.CurveID{tls.X25519MLKEM768, tls.X25519}
	}
	if s.streams > 0 {
		c.NextProtos = []string{"h2"}
	}
	return c
}

// handshake makes a TLS connection of conn, and sees that it is what the
// scenario is about.
func (a *authority) handshake(conn net.Conn, s *scenario) (net.Conn, error) {
	secure := tls.Client(conn, a.config(s))
	err := conn.SetDeadline(time.Now().Add(answerTimeout))
	if err == nil {
		err = secure.HandshakeContext(context.Background())
	}
	if state := secure.ConnectionState(); err == nil && (state.DidResume || s.streams > 0 && state.NegotiatedProtocol != "h2") {
		err = errors.New("a resumed session, or no HTTP/2")
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}
