package certificate

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dataplane/certificate/acme"
)

// ACME is a certificate that an authority gives (RFC 8555).
type ACME struct {
	Domains   []string
	Email     string // of the account; "": none
	Directory string // URL of the authority's directory; default acme.DefaultDirectory
	Bundle    string // name of what the directory's own certificate must chain to; "": the roots of the system

	// What it is for, which may change while the certificate stays.
	Used       bool // somebody shows it; it is not asked for otherwise
	HTTP, ALPN bool // the challenges that can be answered
}

// same reports whether two come to the same certificate.
func (a *ACME) same(b *ACME) bool {
	return a.Email == b.Email && a.Directory == b.Directory && a.Bundle == b.Bundle && slices.Equal(a.Domains, b.Domains)
}

// directory is the URL of the directory.
func (a *ACME) directory() string {
	if a.Directory == "" {
		return acme.DefaultDirectory
	}
	return a.Directory
}

// issuance is what is known of a certificate that an authority gives.
type issuance struct {
	source *ACME
	name   string      // in the storage
	given  atomic.Bool // an authority gave what is in use; false: it is a stand-in

	// Owned by the store's loop once it is committed.
	schedule acme.Schedule
	asked    way // last
}

// way is what an attempt depends on besides the certificate itself.
type way struct {
	roots      *Roots // nil: those of the system
	http, alpn bool
}

// due reports whether it is time to ask, or something is other than when it
// failed.
func (i *issuance) due(now time.Time, w way) bool {
	return i.schedule.Due(now) || i.schedule.Failing() && i.asked != w
}

// newIssued makes a certificate with what was given before, or with a stand-in.
func (s *Store) newIssued(source Source) *Certificate {
	c := &Certificate{
		material: material{kind: KindCertificate, name: source.Name},
		issued:   &issuance{source: source.ACME, name: acme.CertificateName(source.ACME.Directory, source.ACME.Domains)},
	}
	if pair, err := s.kept.LoadCertificate(c.issued.name); err == nil {
		c.hold(pair)
		return c
	}
	pair, err := standIn(source.ACME.Domains)
	if err != nil {
		c.broken = err
		return c
	}
	c.current.Store(pair)
	return c
}

// hold puts to use what an authority gave.
func (c *Certificate) hold(pair *tls.Certificate) {
	from, until := pair.Leaf.NotBefore, pair.Leaf.NotAfter
	c.expires, c.lacks = until, ""
	c.soon = min(soon, until.Sub(from)/6) // half of what is left when it is renewed
	c.issued.schedule.Holds(from, until, jitter())
	c.current.Store(pair)
	c.issued.given.Store(true)
}

// standIn is a certificate that is shown until an authority has given one: a
// handshake needs one, and an authority that asks by TLS-ALPN-01 or HTTP-01
// needs listeners that are there.
func standIn(domains []string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	leaf := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "headgate stand-in"}, DNSNames: domains,
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(10, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if leaf, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

// challenged answers an authority that asks by TLS-ALPN-01 for a domain of this
// server's certificates (RFC 8737 section 3). Clients are not asked for
// certificates then. All other handshakes go on as they are.
func (s *Server) challenged(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	answer := s.store.challenges.Certificate(hello)
	if answer == nil || !s.certifies(answer.Leaf) {
		return nil, nil //nolint:nilnil // the way to say so
	}
	return &tls.Config{
		Certificates: []tls.Certificate{*answer}, NextProtos: []string{acme.Protocol},
		MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true,
	}, nil
}

// certifies reports whether a certificate that an authority gives here is for
// the name of a leaf.
func (s *Server) certifies(leaf *x509.Certificate) bool {
	return slices.ContainsFunc(s.options.Certificates, func(c *Certificate) bool {
		return c.issued != nil && slices.ContainsFunc(c.issued.source.Domains, func(d string) bool { return leaf.VerifyHostname(d) == nil })
	})
}

// Answer is what an authority is answered that asks for a path by HTTP-01, or
// nil: the path is anybody's then.
func (s *Store) Answer(path []byte) []byte { return s.challenges.Answer(path) }

// Expiries tells when each committed certificate and bundle expires. Stand-ins
// are left out.
func (s *Store) Expiries(tell func(kind Kind, name string, at time.Time)) {
	s.mu.Lock()
	set := s.committed
	s.mu.Unlock()
	for name, c := range set.certificates {
		if c.issued == nil || c.issued.given.Load() {
			tell(KindCertificate, name, c.Current().Leaf.NotAfter)
		}
	}
	for name, b := range set.bundles {
		tell(KindBundle, name, b.Current().Expires)
	}
}

// attempt is one try to have a certificate given.
type attempt struct {
	certificate *Certificate
	pair        *tls.Certificate
	err         error // why there is none
	unkept      error // why it is not kept; nil: it is
}

// obtain makes an attempt. It looks first whether another one has brought the
// certificate already.
func (s *Store) obtain(ctx context.Context, c *Certificate, o acme.Order) attempt {
	a := attempt{certificate: c}
	kept, err := s.kept.LoadCertificate(c.issued.name)
	if before := c.Current(); err == nil && kept.Leaf.NotAfter.After(s.options.Now()) && !kept.Leaf.Equal(before.Leaf) &&
		(!c.issued.given.Load() || kept.Leaf.NotAfter.After(before.Leaf.NotAfter)) {
		a.pair = kept
		return a
	}
	chain, key, err := s.authority.Obtain(ctx, o)
	if err == nil {
		a.pair, err = ParsePair(chain, key)
	}
	if a.err = err; err == nil {
		a.unkept = s.kept.SaveCertificate(c.issued.name, chain, key)
	}
	return a
}
