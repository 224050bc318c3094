// Package testca makes certificate authorities and certificates for tests. It
// knows nothing of what they are used for.
package testca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// CA is a certificate authority.
type CA struct {
	Cert *x509.Certificate
	PEM  string

	t   testing.TB
	key crypto.Signer
}

// Pair is a certificate with its key, in PEM.
type Pair struct{ Cert, Key string }

// TLS is the pair as crypto/tls wants it.
func (p Pair) TLS(t testing.TB) tls.Certificate {
	t.Helper()
	c, err := tls.X509KeyPair([]byte(p.Cert), []byte(p.Key))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var serial atomic.Int64

// New makes an authority with a key of its own.
func New(t testing.TB, name string) *CA {
	t.Helper()
	ca := &CA{t: t, key: ecdsaKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial.Add(1)), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * 365 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, ca.key.Public(), ca.key)
	if err != nil {
		t.Fatal(err)
	}
	if ca.Cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	ca.PEM = block("CERTIFICATE", der)
	return ca
}

// Pool holds the authority alone.
func (ca *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.Cert)
	return pool
}

// Option changes what is issued.
type Option func(*x509.Certificate, *crypto.Signer)

// Expires sets the end.
func Expires(at time.Time) Option {
	return func(c *x509.Certificate, _ *crypto.Signer) {
		c.NotAfter = at
		if c.NotBefore.After(at) {
			c.NotBefore = at.Add(-time.Hour)
		}
	}
}

// RSA gives the certificate an RSA key.
func RSA(t testing.TB) Option {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return func(_ *x509.Certificate, k *crypto.Signer) { *k = key }
}

// Issue makes a certificate for host names and IP addresses, good for servers
// and clients. Its subject is the first of them.
func (ca *CA) Issue(names []string, options ...Option) Pair {
	ca.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial.Add(1)), Subject: pkix.Name{CommonName: append(names, "nobody")[0]},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * 90 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	key := ecdsaKey(ca.t)
	for _, o := range options {
		o(template, &key)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Cert, key.Public(), ca.key)
	if err != nil {
		ca.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		ca.t.Fatal(err)
	}
	return Pair{Cert: block("CERTIFICATE", der), Key: block("PRIVATE KEY", private)}
}

func ecdsaKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
