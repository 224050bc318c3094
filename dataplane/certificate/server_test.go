package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate/dataplane/certificate/testca"
)

// Which certificate is shown for which name.
func TestSNI(t *testing.T) {
	ca := testca.New(t, "authority")
	pairs := map[string]testca.Pair{
		"first":    ca.Issue([]string{"first.example", "www.first.example"}),
		"wildcard": ca.Issue([]string{"*.shop.example"}),
		"exact":    ca.Issue([]string{"cart.shop.example"}),
		"upper":    ca.Issue([]string{"UPPER.example"}),
		"ecdsa":    ca.Issue([]string{"both.example"}),
		"rsa":      ca.Issue([]string{"both.example"}, testca.RSA(t)),
	}
	order := []string{"first", "wildcard", "exact", "upper", "ecdsa", "rsa"}
	var sources []Source
	for _, name := range order {
		sources = append(sources, inline(name, pairs[name]))
	}
	set := commit(t, open(t, Options{}), sources, nil)
	var list []*Certificate
	for _, name := range order {
		list = append(list, set.Certificate(name))
	}
	server := set.NewServer(ServerOptions{Name: "l", Certificates: list})
	rsaOnly := []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}
	for _, test := range []struct {
		sni, want string
		ciphers   []uint16
	}{
		{"first.example", "first", nil},
		{"www.first.example", "first", nil},
		{"WWW.First.Example", "first", nil},
		{"", "first", nil},
		{"unknown.example", "first", nil},
		{"a.shop.example", "wildcard", nil},
		{"cart.shop.example", "exact", nil},
		{"a.b.shop.example", "first", nil},
		{"shop.example", "first", nil},
		{"upper.example", "upper", nil},
		{"both.example", "ecdsa", nil},
		{"both.example", "rsa", rsaOnly},
	} {
		client := &tls.Config{ServerName: test.sni, InsecureSkipVerify: true}
		if test.ciphers != nil {
			client.MaxVersion, client.CipherSuites = tls.VersionTLS12, test.ciphers
		}
		seen := mustShake(t, server.Config(), client)
		leaf := pairs[test.want].TLS(t).Leaf
		if !seen.PeerCertificates[0].Equal(leaf) {
			t.Errorf("%q: %v, want %s", test.sni, seen.PeerCertificates[0].DNSNames, test.want)
		}
	}
}

// The fallback has an RSA twin for clients that know no ECDSA.
func TestFallbackHasATwin(t *testing.T) {
	ca := testca.New(t, "authority")
	ec, other, twin := ca.Issue([]string{"a.example"}), ca.Issue([]string{"b.example"}, testca.RSA(t)), ca.Issue([]string{"A.example"}, testca.RSA(t))
	set := commit(t, open(t, Options{}), []Source{inline("ec", ec), inline("other", other), inline("twin", twin)}, nil)
	server := set.NewServer(ServerOptions{Certificates: []*Certificate{set.Certificate("ec"), set.Certificate("other"), set.Certificate("twin")}})
	seen := mustShake(t, server.Config(), &tls.Config{
		InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256},
	})
	if !seen.PeerCertificates[0].Equal(twin.TLS(t).Leaf) {
		t.Errorf("%v was shown", seen.PeerCertificates[0].DNSNames)
	}
}

func TestMinVersionAndProtocols(t *testing.T) {
	ca := testca.New(t, "authority")
	set := commit(t, open(t, Options{}), []Source{inline("a", ca.Issue([]string{"a.example"}))}, nil)
	list := []*Certificate{set.Certificate("a")}
	modern := set.NewServer(ServerOptions{Certificates: list, MinVersion: tls.VersionTLS13, Protocols: []string{"h2", "http/1.1"}})
	usual := set.NewServer(ServerOptions{Certificates: list, Protocols: []string{"http/1.1"}})
	old := &tls.Config{RootCAs: ca.Pool(), ServerName: "a.example", MaxVersion: tls.VersionTLS12}
	if _, _, err, _ := shake(t, modern.Config(), old); FaultOf(err) != Alert {
		t.Errorf("TLS 1.2 where 1.3 is the least: %v", err)
	}
	older := &tls.Config{RootCAs: ca.Pool(), ServerName: "a.example", MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	if _, _, err, _ := shake(t, usual.Config(), older); FaultOf(err) != Alert {
		t.Errorf("TLS 1.1: %v", err)
	}
	both := &tls.Config{RootCAs: ca.Pool(), ServerName: "a.example", NextProtos: []string{"http/1.1", "h2"}}
	if seen := mustShake(t, modern.Config(), both); seen.NegotiatedProtocol != "h2" || seen.Version != tls.VersionTLS13 {
		t.Errorf("%q was agreed on", seen.NegotiatedProtocol)
	}
	if seen := mustShake(t, usual.Config(), both); seen.NegotiatedProtocol != "http/1.1" {
		t.Errorf("%q was agreed on", seen.NegotiatedProtocol)
	}
	if seen := mustShake(t, usual.Config(), old); seen.Version != tls.VersionTLS12 {
		t.Errorf("version %x", seen.Version)
	}
}

// authorized is a server that knows clients by an authority, and three clients.
func TestClientAuth(t *testing.T) {
	ca, staff, strangers := testca.New(t, "authority"), testca.New(t, "staff"), testca.New(t, "strangers")
	set := commit(t, open(t, Options{}), []Source{inline("a", ca.Issue([]string{"a.example"}))}, []BundleSource{inlineRoots("staff", staff)})
	member, stranger := staff.Issue([]string{"member"}).TLS(t), strangers.Issue([]string{"stranger"}).TLS(t)
	late := staff.Issue([]string{"late"}, testca.Expires(time.Now().Add(-time.Minute))).TLS(t)
	for _, test := range []struct {
		name     string
		optional bool
		shows    *tls.Certificate
		ok       bool
	}{
		{"required, shown", false, &member, true},
		{"required, none", false, nil, false},
		{"required, of others", false, &stranger, false},
		{"required, expired", false, &late, false},
		{"optional, shown", true, &member, true},
		{"optional, none", true, nil, true},
		{"optional, of others", true, &stranger, false},
		{"optional, expired", true, &late, false},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			server := set.NewServer(ServerOptions{Certificates: []*Certificate{set.Certificate("a")}, Clients: set.Bundle("staff"), Optional: test.optional})
			client := &tls.Config{RootCAs: ca.Pool(), ServerName: "a.example", MaxVersion: version}
			client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if test.shows == nil {
					return &tls.Certificate{}, nil
				}
				return test.shows, nil
			}
			_, shown, clientErr, serverErr := shake(t, server.Config(), client)
			if (clientErr == nil) != test.ok || (serverErr == nil) != test.ok {
				t.Errorf("%s (%x): %v, %v", test.name, version, clientErr, serverErr)
			}
			if test.ok && test.shows != nil && len(shown.VerifiedChains) == 0 {
				t.Errorf("%s (%x): not verified", test.name, version)
			}
			if !test.ok && FaultOf(clientErr) != Alert {
				t.Errorf("%s (%x): the client sees %v", test.name, version, clientErr)
			}
		}
	}
}

// Sessions go on across applies, and the secrets of their tickets change with
// time.
func TestResumption(t *testing.T) {
	ca := testca.New(t, "authority")
	c := &clock{now: time.Now()}
	store := open(t, Options{Now: c.read})
	pair := ca.Issue([]string{"a.example"})
	listener := func(name string, more ...Source) *Server {
		set := commit(t, store, append([]Source{inline("a", pair)}, more...), nil)
		return set.NewServer(ServerOptions{Name: name, Certificates: []*Certificate{set.Certificate("a")}})
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		client := &tls.Config{RootCAs: ca.Pool(), ServerName: "a.example", MaxVersion: version, ClientSessionCache: tls.NewLRUClientSessionCache(4)}
		resumed := func(s *Server) bool { return mustShake(t, s.Config(), client).DidResume }
		if resumed(listener("web")) {
			t.Fatal("resumed before there was a session")
		}
		if !resumed(listener("web")) {
			t.Errorf("%x: not resumed after an apply", version)
		}
		if !resumed(listener("web", inline("b", ca.Issue([]string{"b.example"})))) {
			t.Errorf("%x: not resumed after an apply that changed something else", version)
		}
		if resumed(listener("other")) {
			t.Errorf("%x: resumed on another listener", version)
		}
		s := listener("web")
		if resumed(s) {
			t.Errorf("%x: the ticket of another listener was taken", version)
		}
		before := s.Config()
		c.pass(ticketAge)
		if s.Config() == before {
			t.Error("the keys did not change with time")
		}
		if !resumed(s) {
			t.Errorf("%x: the ticket of the secret before was not taken", version)
		}
		c.pass(ticketSecrets * ticketAge)
		if resumed(s) {
			t.Errorf("%x: a ticket was taken that is too old", version)
		}
	}
}

// Nobody comes in by a session that began under other rules about clients.
func TestResumptionBypassesNoRules(t *testing.T) {
	ca, staff, other := testca.New(t, "authority"), testca.New(t, "staff"), testca.New(t, "other")
	store := open(t, Options{})
	pair, member := ca.Issue([]string{"a.example"}), staff.Issue([]string{"member"}).TLS(t)
	server := func(bundle *testca.CA, optional bool) *Server {
		var bundles []BundleSource
		if bundle != nil {
			bundles = append(bundles, inlineRoots("clients", bundle))
		}
		set := commit(t, store, []Source{inline("a", pair)}, bundles)
		return set.NewServer(ServerOptions{Name: "web", Certificates: []*Certificate{set.Certificate("a")}, Clients: set.Bundle("clients"), Optional: optional})
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, test := range []struct {
			name          string
			before, after func() *Server
			comesIn       bool
		}{
			{"authority changed", func() *Server { return server(staff, false) }, func() *Server { return server(other, false) }, false},
			{"authority changed, optional", func() *Server { return server(staff, true) }, func() *Server { return server(other, true) }, false},
			{"was open", func() *Server { return server(nil, false) }, func() *Server { return server(other, false) }, false},
			{"was optional", func() *Server { return server(staff, true) }, func() *Server { return server(staff, false) }, true},
			{"opened", func() *Server { return server(staff, false) }, func() *Server { return server(nil, false) }, true},
		} {
			client := &tls.Config{
				RootCAs: ca.Pool(), ServerName: "a.example", MaxVersion: version, ClientSessionCache: tls.NewLRUClientSessionCache(4),
				GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &member, nil },
			}
			first := test.before()
			mustShake(t, first.Config(), client)
			if !mustShake(t, first.Config(), client).DidResume {
				t.Fatalf("%s (%x): no session", test.name, version)
			}
			seen, _, clientErr, serverErr := shake(t, test.after().Config(), client)
			if err := errors.Join(clientErr, serverErr); (err == nil) != test.comesIn || seen.DidResume && err == nil {
				t.Errorf("%s (%x): resumed %v, %v", test.name, version, seen.DidResume, err)
			}
		}
	}
}

func TestFaults(t *testing.T) {
	for _, test := range []struct {
		err  error
		want Fault
		says string
	}{
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, BadCertificate, "certificate signed by unknown authority"},
		{x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"a"}}, Host: "b"}, BadCertificate, "certificate is valid for a, not b"},
		{tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, BadProtocol, "first record does not look like a TLS handshake"},
		{errors.New("tls: server selected unsupported protocol version 301"), BadProtocol, "server selected unsupported protocol version 301"},
		{errors.New("connection reset by peer"), NoFault, "connection reset by peer"},
		{nil, NoFault, ""},
	} {
		if got := FaultOf(test.err); got != test.want {
			t.Errorf("%v: %v, want %v", test.err, got, test.want)
		}
		if test.err != nil && Reason(test.err) != test.says {
			t.Errorf("%v: says %q", test.err, Reason(test.err))
		}
	}
}

// BenchmarkHandshake is one full handshake of both sides, and one resumed.
func BenchmarkHandshake(b *testing.B) {
	ca := testca.New(b, "authority")
	set := commit(b, open(b, Options{}), []Source{inline("a", ca.Issue([]string{"a.example"}))}, nil)
	server := set.NewServer(ServerOptions{Certificates: []*Certificate{set.Certificate("a")}})
	for name, cache := range map[string]tls.ClientSessionCache{"full": nil, "resumed": tls.NewLRUClientSessionCache(1)} {
		b.Run(name, func(b *testing.B) {
			client := &tls.Config{RootCAs: ca.Pool(), ServerName: "a.example", ClientSessionCache: cache}
			b.ReportAllocs()
			for b.Loop() {
				mustShake(b, server.Config(), client)
			}
		})
	}
}

// BenchmarkConfig is what choosing a configuration costs each connection.
func BenchmarkConfig(b *testing.B) {
	ca := testca.New(b, "authority")
	set := commit(b, open(b, Options{}), []Source{inline("a", ca.Issue([]string{"a.example"}))}, nil)
	server := set.NewServer(ServerOptions{Certificates: []*Certificate{set.Certificate("a")}})
	b.ReportAllocs()
	for b.Loop() {
		server.Config()
	}
}
