package snapshot

import (
	"crypto/tls"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"

	"github.com/headgate/headgate/dataplane/certificate"
)

// now is the time that expiry is judged by. It decides about warnings alone: the
// compiled form does not depend on it.
var now = time.Now

// compileCertificates makes the form of certificates and bundles that the data
// plane runs. What is in files is read when it is prepared.
func (c *compiler) compileCertificates() {
	sums := c.out.made.contents[certificateField].sums
	before := finderOf(c.prev.contents[certificateField].sums)
	for i, in := range c.in.GetCertificates() {
		f := &faults{kind: "certificates", index: i}
		var out *Certificate
		if old := before.find(sums[i], i); old >= 0 {
			out = c.prev.certificates[old]
		} else {
			c.check(in, "certificates", f)
			out = compileCertificate(in, f)
		}
		warnOfEnd(out.Expires, "certificatePem", f)
		c.out.Certificates = append(c.out.Certificates, out)
		c.found = append(c.found, f.list...)
	}
	c.out.made.certificates = c.out.Certificates
}

func (c *compiler) compileBundles() {
	sums := c.out.made.contents[bundleField].sums
	before := finderOf(c.prev.contents[bundleField].sums)
	for i, in := range c.in.GetCaBundles() {
		f := &faults{kind: "caBundles", index: i}
		var out *Bundle
		if old := before.find(sums[i], i); old >= 0 {
			out = c.prev.bundles[old]
		} else {
			c.check(in, "ca_bundles", f)
			out = compileBundle(in, f)
		}
		warnOfEnd(out.Expires, "pem", f)
		c.out.Bundles = append(c.out.Bundles, out)
		c.found = append(c.found, f.list...)
	}
	c.out.made.bundles = c.out.Bundles
}

// warnOfEnd warns of what has expired. What is in files is spoken of when it is
// read.
func warnOfEnd(end time.Time, path string, f *faults) {
	if !end.IsZero() && !now().Before(end) {
		f.warn(RuleExpired, path, "expired on %s", end.UTC().Format(time.DateTime))
	}
}

func compileCertificate(in *configv1.Certificate, f *faults) *Certificate {
	out := &Certificate{Source: certificate.Source{
		Name:  in.GetName(),
		Chain: certificate.Text{File: in.GetCertificateFile(), PEM: in.GetCertificatePem()},
		Key:   certificate.Text{File: in.GetPrivateKeyFile(), PEM: in.GetPrivateKeyPem()},
		ACME:  compileACME(in.GetAcme(), f),
	}}
	chain, key := out.Source.Chain.PEM, out.Source.Key.PEM
	if chain != "" {
		leaf, err := certificate.ParseChain([]byte(chain))
		if err != nil {
			f.add(RulePEM, "certificatePem", "%v", err)
		} else {
			out.Expires = leaf.NotAfter
		}
	}
	if key == "" || key == Redacted {
		return out
	}
	err := certificate.ParseKey([]byte(key))
	if err == nil && !out.Expires.IsZero() {
		_, err = certificate.ParsePair([]byte(chain), []byte(key))
	}
	if err != nil {
		f.add(RulePEM, "privateKeyPem", "%v", err)
	}
	return out
}

// compileACME is nil for a certificate that is here already.
func compileACME(in *configv1.Acme, f *faults) *certificate.ACME {
	if in == nil {
		return nil
	}
	for i, name := range in.GetDomains() {
		path := item("acme.domains", i)
		_, err := netip.ParseAddr(strings.Trim(name, "[]"))
		switch {
		case strings.HasPrefix(name, "*."):
			f.add(RuleACME, path, "%s takes a challenge over DNS, which is not built: list the names that it stands for", quote(name))
		case err == nil:
			f.add(RuleACME, path, "%s is an address: only names are certified", quote(name))
		}
	}
	if d := in.GetDirectory(); d != "" && !strings.HasPrefix(strings.ToLower(d), "https://") {
		f.add(RuleACME, "acme.directory", "must begin with https://: the account's proofs go there")
	}
	return &certificate.ACME{
		Domains: in.GetDomains(), Email: in.GetEmail(), Directory: in.GetDirectory(), Bundle: in.GetCaBundle(),
	}
}

func compileBundle(in *configv1.CaBundle, f *faults) *Bundle {
	out := &Bundle{Source: certificate.BundleSource{
		Name: in.GetName(), Text: certificate.Text{File: in.GetFile(), PEM: in.GetPem()},
	}}
	if in.GetPem() == "" {
		return out
	}
	roots, err := certificate.ParseRoots([]byte(in.GetPem()))
	if err != nil {
		f.add(RulePEM, "pem", "%v", err)
		return out
	}
	out.Expires = roots.Expires
	return out
}

// compileListenerTLS is nil for clear text.
func compileListenerTLS(in *configv1.ListenerTls) *ListenerTLS {
	if in == nil {
		return nil
	}
	out := &ListenerTLS{
		Certificates:   in.GetCertificates(),
		MinVersion:     tls.VersionTLS12,
		ClientBundle:   in.GetClientAuth().GetCaBundle(),
		ClientOptional: in.GetClientAuth().GetOptional(),
	}
	if in.GetMinVersion() == "1.3" {
		out.MinVersion = tls.VersionTLS13
	}
	return out
}

// errNoServerName is the refusal of TLS to whom nothing can be verified of.
var errNoServerName = errors.New("is needed to verify an endpoint on a unix socket, which has no host")

// compileUpstreamTLS is nil for clear text.
func compileUpstreamTLS(cluster *configv1.Cluster, f *faults) *UpstreamTLS {
	in := cluster.GetTls()
	if in == nil {
		return nil
	}
	out := &UpstreamTLS{
		ServerName:         orString(in.GetServerName(), strings.TrimSuffix(cluster.GetDns().GetName(), ".")),
		Bundle:             in.GetCaBundle(),
		Certificate:        in.GetClientCertificate(),
		InsecureSkipVerify: in.GetInsecureSkipVerify(),
	}
	if out.ServerName != "" || out.InsecureSkipVerify {
		return out
	}
	for _, e := range cluster.GetEndpoints() {
		if strings.HasPrefix(e.GetAddress(), "unix:") {
			f.add(RuleAddress, "tls.serverName", "%v", errNoServerName)
			break
		}
	}
	return out
}

// linkTLS resolves the names of certificates and bundles, and warns of those
// that nobody uses.
func (c *compiler) linkTLS() {
	used := usage{c: c, certificates: map[string]bool{}, bundles: map[string]bool{}}
	for i, l := range c.out.Listeners {
		f := &faults{kind: "listeners", index: i}
		if l.TLS != nil {
			for j, name := range l.TLS.Certificates {
				used.certificate(name, item("tls.certificates", j), f)
			}
			used.bundle(l.TLS.ClientBundle, "tls.clientAuth.caBundle", f)
		}
		c.found = append(c.found, f.list...)
	}
	for i, cluster := range c.out.Clusters {
		if cluster.TLS == nil {
			continue
		}
		f := &faults{kind: "clusters", index: i}
		used.bundle(cluster.TLS.Bundle, "tls.caBundle", f)
		used.certificate(cluster.TLS.Certificate, "tls.clientCertificate", f)
		c.found = append(c.found, f.list...)
	}
	used.authorities()
	used.warn()
}

// usage is which certificates and bundles are referred to.
type usage struct {
	c                     *compiler
	certificates, bundles map[string]bool
}

// certificate notes a reference; the empty name is none.
func (u *usage) certificate(name, path string, f *faults) {
	known := u.c.certificates.at
	if _, ok := known[name]; !ok && name != "" {
		f.add(RuleReference, path, "no certificate is named %s: %s", quote(name), suggest(name, "certificates", known))
	}
	u.certificates[name] = true
}

func (u *usage) bundle(name, path string, f *faults) {
	known := u.c.bundles.at
	if _, ok := known[name]; !ok && name != "" {
		f.add(RuleReference, path, "no CA bundle is named %s: %s", quote(name), suggest(name, "CA bundles", known))
	}
	u.bundles[name] = true
}

// authorities looks at the certificates that authorities give: what their
// directories are verified by, and who can answer them.
func (u *usage) authorities() {
	answers := func(name string) bool {
		return slices.ContainsFunc(u.c.out.Listeners, func(l *Listener) bool {
			return l.TLS == nil && l.Network == "tcp" || l.TLS != nil && slices.Contains(l.TLS.Certificates, name)
		})
	}
	for i, s := range u.c.out.Certificates {
		if s.Source.ACME == nil {
			continue
		}
		f := &faults{kind: "certificates", index: i}
		u.bundle(s.Source.ACME.Bundle, "acme.caBundle", f)
		if name := s.Source.Name; u.certificates[name] && !answers(name) {
			f.warn(RuleACME, "acme", "no listener can answer the authority: it takes one over TLS with this certificate, or one in clear text")
		}
		u.c.found = append(u.c.found, f.list...)
	}
}

func (u *usage) warn() {
	for i, s := range u.c.out.Certificates {
		if !u.certificates[s.Source.Name] {
			f := faults{kind: "certificates", index: i}
			f.warn(RuleUnused, "", "no listener or cluster uses certificate %s", quote(s.Source.Name))
			u.c.found = append(u.c.found, f.list...)
		}
	}
	for i, s := range u.c.out.Bundles {
		if !u.bundles[s.Source.Name] {
			f := faults{kind: "caBundles", index: i}
			f.warn(RuleUnused, "", "no listener or cluster uses CA bundle %s", quote(s.Source.Name))
			u.c.found = append(u.c.found, f.list...)
		}
	}
}
