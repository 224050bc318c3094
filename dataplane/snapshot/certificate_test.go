package snapshot

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"

	"github.com/headgate/headgate/dataplane/certificate"
	"github.com/headgate/headgate/dataplane/certificate/testca"
)

// secure is a configuration with TLS on both sides.
func secure(t *testing.T, p testca.Pair, ca *testca.CA) *configv1.Snapshot {
	in := read(t, `
listeners: [{name: web, address: ":1", trustedProxies: [10.0.0.0/8], proxyProtocol: {}, tls: {certificates: [site], minVersion: "1.3", clientAuth: {caBundle: staff, optional: true}}}]
certificates: [{name: site, certificateFile: a.crt, privateKeyFile: a.key}, {name: me}]
caBundles: [{name: staff}]
clusters: [{name: users, endpoints: [{address: "127.0.0.1:1"}], tls: {serverName: a.example, caBundle: staff, clientCertificate: me, insecureSkipVerify: true}}]
routes: [{name: all, forward: {backends: [{cluster: users}]}}]
`)
	in.Certificates[1].Source = &configv1.Certificate_CertificatePem{CertificatePem: p.Cert}
	in.Certificates[1].PrivateKey = &configv1.Certificate_PrivateKeyPem{PrivateKeyPem: p.Key}
	in.CaBundles[0].Source = &configv1.CaBundle_Pem{Pem: ca.PEM}
	return in
}

func TestCompileTLS(t *testing.T) {
	ca := testca.New(t, "authority")
	p := ca.Issue([]string{"me"})
	s, violations := Compile(secure(t, p, ca))
	if s == nil || len(violations) > 0 {
		t.Fatal(violations)
	}
	if diff := cmp.Diff(&ListenerTLS{Certificates: []string{"site"}, MinVersion: tls.VersionTLS13, ClientBundle: "staff", ClientOptional: true}, s.Listeners[0].TLS); diff != "" || !s.Listeners[0].ProxyProtocol {
		t.Errorf("listener (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&UpstreamTLS{ServerName: "a.example", Bundle: "staff", Certificate: "me", InsecureSkipVerify: true}, s.Clusters[0].TLS); diff != "" {
		t.Errorf("cluster (-want +got):\n%s", diff)
	}
	if !s.Clusters[0].ALPN {
		t.Error("ALPN does not decide though nothing else does")
	}
	want := []certificate.Source{
		{Name: "site", Chain: certificate.Text{File: "a.crt"}, Key: certificate.Text{File: "a.key"}},
		{Name: "me", Chain: certificate.Text{PEM: p.Cert}, Key: certificate.Text{PEM: p.Key}},
	}
	got := []certificate.Source{s.Certificates[0].Source, s.Certificates[1].Source}
	if diff := cmp.Diff(want, got); diff != "" || !s.Certificates[0].Expires.IsZero() || s.Certificates[1].Expires.IsZero() {
		t.Errorf("certificates (-want +got):\n%s", diff)
	}
}

// What one compilation leaves to the next changes nothing of its result.
func TestCompileTLSFrom(t *testing.T) {
	ca := testca.New(t, "authority")
	p := ca.Issue([]string{"me"}, testca.Expires(time.Now().Add(-time.Minute)))
	first, violations := Compile(secure(t, p, ca))
	if first == nil || len(violations) != 1 || violations[0].Path != "certificates[1].certificatePem" || !violations[0].Warning {
		t.Fatal(violations)
	}
	in := secure(t, p, ca)
	in.Certificates[0], in.Certificates[1] = in.Certificates[1], in.Certificates[0]
	next, warned := CompileFrom(first, in)
	if next.Certificates[0] != first.Certificates[1] || next.Bundles[0] != first.Bundles[0] {
		t.Error("what did not change was compiled again")
	}
	_, anew := Compile(in)
	if diff := cmp.Diff(anew, warned); diff != "" || len(warned) != 1 {
		t.Errorf("violations (-anew +from):\n%s", diff)
	}
	in = secure(t, p, ca)
	in.Certificates = in.Certificates[1:]
	if _, faults := CompileFrom(first, in); len(faults) != 2 || faults[0].Path != "listeners[0].tls.certificates[0]" {
		t.Error(faults)
	}
	in = secure(t, p, ca)
	in.CaBundles = nil
	_, faults := CompileFrom(first, in)
	var paths []string
	for _, v := range faults {
		if !v.Warning {
			paths = append(paths, v.Path)
		}
	}
	if diff := cmp.Diff([]string{"listeners[0].tls.clientAuth.caBundle", "clusters[0].tls.caBundle"}, paths); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

// Pairs that do not belong together, and what only warns.
func TestCompilePEM(t *testing.T) {
	ca := testca.New(t, "authority")
	a, b := ca.Issue([]string{"a"}), ca.Issue([]string{"b"})
	for _, test := range []struct{ name, cert, key, want string }{
		{"good", a.Cert, a.Key, ""},
		{"other key", a.Cert, b.Key, "certificates[1].privateKeyPem: private key does not match public key [pem]"},
		{"swapped", a.Key, a.Cert, "certificates[1].certificatePem: holds no certificate in PEM [pem]\ncertificates[1].privateKeyPem: holds no private key in PEM [pem]"},
	} {
		s, violations := Compile(secure(t, testca.Pair{Cert: test.cert, Key: test.key}, ca))
		var got []string
		for _, v := range violations {
			got = append(got, fmt.Sprintf("%v [%s]", v, v.Rule))
		}
		if diff := cmp.Diff(test.want, strings.Join(got, "\n")); diff != "" || (s == nil) != (test.want != "") {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestTLSWarnings(t *testing.T) {
	_, violations := Compile(read(t, base+`
certificates: [{name: site, certificateFile: a, privateKeyFile: b}]
caBundles: [{name: staff, file: a}]
`))
	in := read(t, base)
	in.Listeners[0].ProxyProtocol = &configv1.ProxyProtocol{}
	_, more := Compile(in)
	var got []string
	for _, v := range append(violations, more...) {
		if !v.Warning {
			t.Error(v)
		}
		got = append(got, v.Error())
	}
	want := []string{
		`certificates[0]: no listener or cluster uses certificate "site"`,
		`caBundles[0]: no listener or cluster uses CA bundle "staff"`,
		`listeners[0].proxyProtocol: no PROXY line is believed: the listener has no trustedProxies`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// A certificate that nobody could be convinced to give is warned of.
func TestUnanswerableAuthority(t *testing.T) {
	const named = `
listeners: [{name: web, address: "unix:/web"}%s]
certificates: [{name: me, acme: {domains: [me.example]}}]
clusters: [{name: users, endpoints: [{address: "127.0.0.1:1"}], tls: {serverName: a.example, clientCertificate: me}}]
routes: [{name: all, forward: {backends: [{cluster: users}]}}]
`
	for more, want := range map[string]int{
		``:                                1,
		`, {name: clear, address: ":80"}`: 0,
		`, {name: over, address: ":443", tls: {certificates: [me]}}`: 0,
	} {
		s, violations := Compile(read(t, fmt.Sprintf(named, more)))
		if s == nil || len(violations) != want || want > 0 && violations[0].Path != "certificates[0].acme" {
			t.Errorf("with %q: %v", more, violations)
		}
	}
}
