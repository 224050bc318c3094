package certificate

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/dataplane/certificate/testca"
)

// connect makes a connection and sends something over it.
func connect(t testing.TB, c *Client, address string) (tls.ConnectionState, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	raw, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ := net.SplitHostPort(address)
	secure, _, err := c.Handshake(ctx, raw, Peer{Host: host, Endpoint: address})
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer secure.Close()
	return secure.ConnectionState(), echo(secure)
}

// Whom a client believes, and what it says of whom it does not.
func TestVerification(t *testing.T) {
	ca, other := testca.New(t, "authority"), testca.New(t, "other")
	store := open(t, Options{})
	set := commit(t, store, []Source{
		inline("named", ca.Issue([]string{"a.example", "127.0.0.1"})),
		inline("unnamed", ca.Issue([]string{"a.example"})),
		inline("late", ca.Issue([]string{"a.example"}, testca.Expires(time.Now().Add(-time.Hour)))),
	}, []BundleSource{inlineRoots("ca", ca), inlineRoots("other", other)})
	for _, test := range []struct {
		name, certificate, bundle, server string
		insecure                          bool
		fault                             Fault
		says                              string
	}{
		{"good", "named", "ca", "a.example", false, NoFault, ""},
		{"by address", "named", "ca", "", false, NoFault, ""},
		{"other authority", "named", "other", "a.example", false, BadCertificate, "certificate signed by unknown authority"},
		{"roots of the system", "named", "", "a.example", false, BadCertificate, "certificate signed by unknown authority"},
		{"other name", "named", "ca", "b.example", false, BadCertificate, "certificate is valid for a.example, not b.example"},
		{"no such address", "unnamed", "ca", "", false, BadCertificate, "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs"},
		{"expired", "late", "ca", "a.example", false, BadCertificate, "certificate has expired or is not yet valid"},
		{"anyone", "late", "other", "b.example", true, NoFault, ""},
	} {
		address := serving(t, set.NewServer(ServerOptions{Certificates: []*Certificate{set.Certificate(test.certificate)}}))
		client := set.NewClient(ClientOptions{ServerName: test.server, Roots: set.Bundle(test.bundle), Insecure: test.insecure})
		_, err := connect(t, client, address)
		if FaultOf(err) != test.fault || (err == nil) != (test.fault == NoFault) {
			t.Errorf("%s: %v", test.name, err)
		} else if err != nil && !strings.HasPrefix(Reason(err), test.says) {
			t.Errorf("%s: says %q", test.name, Reason(err))
		}
	}
}

func TestHandshakeWithWhatIsNoTLS(t *testing.T) {
	set := commit(t, open(t, Options{}), nil, nil)
	client := set.NewClient(ClientOptions{ServerName: "a.example"})
	near, far := net.Pipe()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = far.Read(make([]byte, 4096))
		_, _ = io.WriteString(far, "HTTP/1.1 400 Bad Request\r\n\r\n")
		_ = far.Close()
	}()
	if _, _, err := client.Handshake(context.Background(), near, Peer{}); FaultOf(err) != BadProtocol {
		t.Errorf("error %v", err)
	}
	<-answered
	near, far = net.Pipe()
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if _, _, err := client.Handshake(ctx, near, Peer{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	_ = far.Close()
	near, _ = net.Pipe()
	if _, _, err := set.NewClient(ClientOptions{}).Handshake(context.Background(), near, Peer{}); err != errNoName {
		t.Errorf("error %v", err)
	}
}

// Sessions are resumed with the endpoint that they began with, and with no other.
func TestClientResumption(t *testing.T) {
	ca := testca.New(t, "authority")
	pair := ca.Issue([]string{"a.example"})
	set := commit(t, open(t, Options{}), []Source{inline("a", pair)}, []BundleSource{inlineRoots("ca", ca)})
	list := []*Certificate{set.Certificate("a")}
	one := serving(t, set.NewServer(ServerOptions{Name: "one", Certificates: list}))
	two := serving(t, set.NewServer(ServerOptions{Name: "two", Certificates: list}))
	client := set.NewClient(ClientOptions{ServerName: "a.example", Roots: set.Bundle("ca")})
	for i, test := range []struct {
		address string
		resumed bool
	}{{one, false}, {two, false}, {one, true}, {two, true}} {
		state, err := connect(t, client, test.address)
		if err != nil || state.DidResume != test.resumed {
			t.Errorf("number %d: resumed %v, %v", i, state.DidResume, err)
		}
	}
}

// Another authority or certificate on disk makes another version, so that old
// connections are not used again; whatever else changes does not.
func TestClientVersion(t *testing.T) {
	ca, staff := testca.New(t, "authority"), testca.New(t, "staff")
	roots := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(roots, []byte(ca.PEM), 0o600))
	mine, unrelated := newFiles(t, staff.Issue([]string{"me"})), newFiles(t, staff.Issue([]string{"other"}))
	store := open(t, Options{})
	set := commit(t, store, []Source{mine.source("me"), unrelated.source("other")}, []BundleSource{{Name: "ca", Text: Text{File: roots}}})
	client := set.NewClient(ClientOptions{Roots: set.Bundle("ca"), Certificate: set.Certificate("me")})
	version := client.Version()
	unrelated.write(staff.Issue([]string{"other"}))
	store.Reload()
	if client.Version() != version {
		t.Error("another version for what is not used")
	}
	mine.write(staff.Issue([]string{"me"}))
	store.Reload()
	if next := client.Version(); next <= version {
		t.Error("the same version with another certificate")
	} else {
		version = next
	}
	must(t, os.WriteFile(roots, []byte(ca.PEM+staff.PEM), 0o600))
	store.Reload()
	if client.Version() <= version {
		t.Error("the same version with other authorities")
	}
}

func TestClientEqual(t *testing.T) {
	ca := testca.New(t, "authority")
	store := open(t, Options{})
	pair := ca.Issue([]string{"me"})
	one := commit(t, store, []Source{inline("me", pair)}, []BundleSource{inlineRoots("ca", ca)})
	same := commit(t, store, []Source{inline("me", pair)}, []BundleSource{inlineRoots("ca", ca)})
	other := commit(t, store, []Source{inline("me", ca.Issue([]string{"me"}))}, []BundleSource{inlineRoots("ca", ca)})
	full := func(s *Set) *Client {
		return s.NewClient(ClientOptions{ServerName: "a", Roots: s.Bundle("ca"), Certificate: s.Certificate("me"), Protocols: []string{"http/1.1"}})
	}
	if a := full(one); !a.Equal(full(same)) || a.Equal(full(other)) || a.Equal(nil) || (*Client)(nil).Equal(a) {
		t.Error("equal is not what comes to the same")
	}
	if !(*Client)(nil).Equal(nil) {
		t.Error("clear text is not clear text")
	}
	for _, o := range []ClientOptions{
		{ServerName: "b", Roots: one.Bundle("ca"), Certificate: one.Certificate("me"), Protocols: []string{"http/1.1"}},
		{ServerName: "a", Certificate: one.Certificate("me"), Protocols: []string{"http/1.1"}},
		{ServerName: "a", Roots: one.Bundle("ca"), Protocols: []string{"http/1.1"}},
		{ServerName: "a", Roots: one.Bundle("ca"), Certificate: one.Certificate("me"), Insecure: true, Protocols: []string{"http/1.1"}},
		{ServerName: "a", Roots: one.Bundle("ca"), Certificate: one.Certificate("me"), Protocols: []string{"h2"}},
	} {
		if full(one).Equal(one.NewClient(o)) {
			t.Errorf("equal to %+v", o)
		}
	}
}

// A client shows its certificate to who asks, whatever authorities the server
// names, and is let in or told why not.
func TestMutual(t *testing.T) {
	ca, staff := testca.New(t, "authority"), testca.New(t, "staff")
	set := commit(t, open(t, Options{}), []Source{
		inline("server", ca.Issue([]string{"a.example"})), inline("member", staff.Issue([]string{"member"})), inline("stranger", ca.Issue([]string{"stranger"})),
	}, []BundleSource{inlineRoots("ca", ca), inlineRoots("staff", staff)})
	address := serving(t, set.NewServer(ServerOptions{Certificates: []*Certificate{set.Certificate("server")}, Clients: set.Bundle("staff")}))
	for name, want := range map[string]Fault{"member": NoFault, "stranger": Alert, "": Alert} {
		client := set.NewClient(ClientOptions{ServerName: "a.example", Roots: set.Bundle("ca"), Certificate: set.Certificate(name)})
		if _, err := connect(t, client, address); FaultOf(err) != want || (err == nil) != (want == NoFault) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
