package dataplane

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/dataplane/certificate/testca"
)

// keyring is a folder of certificates by name, all of one authority, whose own
// is in ca.pem.
type keyring struct {
	*testca.CA
	t      testing.TB
	folder string
}

func newKeyring(t testing.TB) *keyring {
	t.Helper()
	k := &keyring{CA: testca.New(t, "authority"), t: t, folder: t.TempDir()}
	k.put("ca.pem", k.PEM)
	return k
}

func (k *keyring) put(file, text string) {
	k.t.Helper()
	if err := os.WriteFile(filepath.Join(k.folder, file), []byte(text), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

// issue writes NAME.crt and NAME.key.
func (k *keyring) issue(name string, hosts ...string) testca.Pair {
	k.t.Helper()
	p := k.Issue(hosts)
	k.put(name+".crt", p.Cert)
	k.put(name+".key", p.Key)
	return p
}

// secure connects over TLS for site.example.
func (k *keyring) secure(a net.Addr, change ...func(*tls.Config)) (*client, error) {
	config := &tls.Config{RootCAs: k.Pool(), ServerName: "site.example"}
	for _, c := range change {
		c(config)
	}
	c, err := connect(a)
	if err != nil {
		return nil, err
	}
	over := tls.Client(c.Conn, config)
	if err := over.Handshake(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &client{Conn: over, in: bufio.NewReader(over)}, nil
}

func (k *keyring) mustSecure(a net.Addr, change ...func(*tls.Config)) *client {
	k.t.Helper()
	c, err := k.secure(a, change...)
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (c *client) state() tls.ConnectionState { return c.Conn.(*tls.Conn).ConnectionState() }

// site is a backend of net/http that tells in its answers what it saw. It is
// spoken to over TLS if it has a configuration for that.
type site struct {
	*httptest.Server
	mu    sync.Mutex
	conns map[string]bool // that requests came over, by the client's address
}

func serveSite(t testing.TB, network, address string, config *tls.Config) *site {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{conns: map[string]bool{}}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.answer))
	_ = s.Listener.Close()
	s.Listener, s.Config.ErrorLog = l, log.New(io.Discard, "", 0)
	if config != nil {
		s.TLS, s.EnableHTTP2 = config, len(config.NextProtos) > 0
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

func (s *site) answer(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.conns[r.RemoteAddr] = true
	s.mu.Unlock()
	h := w.Header()
	h.Set("X-Proto", r.Header.Get("X-Forwarded-Proto"))
	h.Set("X-Spoken", r.Proto)
	h.Set("X-For", r.Header.Get("X-Forwarded-For"))
	if r.TLS != nil {
		h.Set("X-Over-Tls", "yes")
		h.Set("X-Sni", r.TLS.ServerName)
		if len(r.TLS.PeerCertificates) > 0 {
			h.Set("X-Peer", r.TLS.PeerCertificates[0].Subject.CommonName)
		}
	}
	body, _ := io.ReadAll(r.Body)
	_, _ = w.Write(append(body, "site"...))
}

// connections is over how many connections requests came.
func (s *site) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func (s *site) address() string {
	if a := s.Listener.Addr(); a.Network() == "unix" {
		return "unix:" + a.String()
	}
	return s.Listener.Addr().String()
}

// short is a folder whose name leaves room for that of a socket.
func short(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// expired is an end that has passed.
func expired() testca.Option { return testca.Expires(time.Now().Add(-time.Hour)) }
