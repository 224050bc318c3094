// Package certificate keeps certificates and authorities as they live: read
// from files, given as PEM or obtained from an authority, read or obtained
// again in time, and put to use at the next handshake of whoever accepts or
// opens TLS connections. It owns the keys of session tickets and the sessions
// with servers, so that both outlive an apply.
//
// It must not know snapshots, listeners or clusters: who uses which certificate
// is said in plain options. Nothing here touches an open connection.
package certificate

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// Text is PEM, or the file that it is in.
type Text struct{ File, PEM string }

// Source says where a certificate comes from.
type Source struct {
	Name  string
	Chain Text // leaf first
	Key   Text
	ACME  *ACME // an authority gives it; Chain and Key are empty then
}

// BundleSource says where a set of authorities comes from.
type BundleSource struct {
	Name string
	Text Text
}

// Roots are authorities that others must chain to.
type Roots struct {
	Pool    *x509.CertPool
	Digest  [sha256.Size]byte // of the certificates in their order
	Expires time.Time         // when the first of them does
}

// PartError says which of the texts that make a thing is at fault: 0 is a
// chain or a bundle, 1 a key.
type PartError struct {
	Part int
	Err  error
}

func (e *PartError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *PartError) Unwrap() error { return e.Err }

// ParseChain reads the certificates of a chain and returns the first.
func ParseChain(text []byte) (leaf *x509.Certificate, err error) {
	list, err := parseCertificates(text)
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// ParseKey reads a private key, whatever certificate it belongs to.
func ParseKey(text []byte) error {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case "PRIVATE KEY":
			_, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			return bare(err)
		case "EC PRIVATE KEY":
			_, err := x509.ParseECPrivateKey(block.Bytes)
			return bare(err)
		case "RSA PRIVATE KEY":
			_, err := x509.ParsePKCS1PrivateKey(block.Bytes)
			return bare(err)
		case "ENCRYPTED PRIVATE KEY":
			return errors.New("holds an encrypted key: it must be given in clear")
		}
	}
	return errors.New("holds no private key in PEM")
}

// ParsePair reads a chain and the key of its first certificate. The error is a
// *PartError.
func ParsePair(chain, key []byte) (*tls.Certificate, error) {
	if _, err := ParseChain(chain); err != nil {
		return nil, &PartError{Part: 0, Err: err}
	}
	if err := ParseKey(key); err != nil {
		return nil, &PartError{Part: 1, Err: err}
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, &PartError{Part: 1, Err: bare(err)}
	}
	return &pair, nil
}

// ParseRoots reads authorities.
func ParseRoots(text []byte) (*Roots, error) {
	list, err := parseCertificates(text)
	if err != nil {
		return nil, err
	}
	roots, sum := &Roots{Pool: x509.NewCertPool(), Expires: list[0].NotAfter}, sha256.New()
	for _, c := range list {
		roots.Pool.AddCert(c)
		one := sha256.Sum256(c.Raw)
		sum.Write(one[:])
		if c.NotAfter.Before(roots.Expires) {
			roots.Expires = c.NotAfter
		}
	}
	sum.Sum(roots.Digest[:0])
	return roots, nil
}

// parseCertificates reads every certificate, and refuses all if one is broken:
// one that is left out silently would be missed much later.
func parseCertificates(text []byte) (list []*x509.Certificate, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d in it: %w", len(list)+1, bare(err))
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, errors.New("holds no certificate in PEM")
	}
	return list, nil
}
