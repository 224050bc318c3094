package certificate

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headgate/headgate/dataplane/certificate/testca"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait for an event; only what hangs takes as long.
const patience = 20 * time.Second

// open starts a store that ends with the test.
func open(t testing.TB, o Options) *Store {
	t.Helper()
	s := NewStore(o)
	t.Cleanup(s.Close)
	return s
}

// clock is a time that stands still until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

func (c *clock) pass(d time.Duration) { c.set(c.read().Add(d)) }

// inline is a source of the PEM itself.
func inline(name string, p testca.Pair) Source {
	return Source{Name: name, Chain: Text{PEM: p.Cert}, Key: Text{PEM: p.Key}}
}

func inlineRoots(name string, ca *testca.CA) BundleSource {
	return BundleSource{Name: name, Text: Text{PEM: ca.PEM}}
}

// commit prepares and commits.
func commit(t testing.TB, s *Store, certificates []Source, bundles []BundleSource) *Set {
	t.Helper()
	set, faults := s.Prepare(certificates, bundles)
	for _, f := range faults {
		t.Error(f)
	}
	if set == nil {
		t.FailNow()
	}
	s.Commit(set)
	return set
}

// files is a pair in a folder of its own.
type files struct {
	t            testing.TB
	folder       string
	chain, key   string // paths
	chainF, keyF string // names
}

func newFiles(t testing.TB, p testca.Pair) *files {
	t.Helper()
	f := &files{t: t, folder: t.TempDir(), chainF: "site.crt", keyF: "site.key"}
	f.chain, f.key = filepath.Join(f.folder, f.chainF), filepath.Join(f.folder, f.keyF)
	f.write(p)
	return f
}

func (f *files) write(p testca.Pair) {
	f.t.Helper()
	if err := errors.Join(os.WriteFile(f.chain, []byte(p.Cert), 0o600), os.WriteFile(f.key, []byte(p.Key), 0o600)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *files) source(name string) Source {
	return Source{Name: name, Chain: Text{File: f.chain}, Key: Text{File: f.key}}
}

// shake runs a handshake of both sides over a TCP connection, and one exchange
// of bytes so that tickets arrive. The error of the client comes first.
func shake(t testing.TB, server, client *tls.Config) (seen, shown tls.ConnectionState, clientErr, serverErr error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	type result struct {
		state tls.ConnectionState
		err   error
	}
	served := make(chan result, 1)
	go func() {
		raw, err := l.Accept()
		if err != nil {
			served <- result{err: err}
			return
		}
		defer raw.Close()
		c := tls.Server(raw, server)
		buf := make([]byte, 1)
		_, err = io.ReadFull(c, buf)
		if err == nil {
			_, err = c.Write(buf)
		}
		served <- result{c.ConnectionState(), err}
	}()
	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	c := tls.Client(raw, client)
	clientErr = c.Handshake()
	if clientErr == nil {
		_, clientErr = c.Write([]byte("x"))
	}
	if clientErr == nil {
		_, clientErr = io.ReadFull(c, make([]byte, 1))
	}
	_ = raw.Close()
	r := <-served
	return c.ConnectionState(), r.state, clientErr, r.err
}

// mustShake is shake where nothing may fail.
func mustShake(t testing.TB, server, client *tls.Config) (seen tls.ConnectionState) {
	t.Helper()
	seen, _, clientErr, serverErr := shake(t, server, client)
	if err := errors.Join(clientErr, serverErr); err != nil {
		t.Fatal(err)
	}
	return seen
}

// serial is that of the certificate that a client has seen.
func serialOf(s tls.ConnectionState) string { return s.PeerCertificates[0].SerialNumber.String() }

func number(t testing.TB, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// serving is a TLS server that echoes one byte at a time, with a new
// configuration for each connection.
func serving(t testing.TB, s *Server) string {
	t.Helper()
	return servingBy(t, s.Config)
}

func servingBy(t testing.TB, config func() *tls.Config) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			raw, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
				defer raw.Close()
				c := tls.Server(raw, config())
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); cancel(); <-done })
	return l.Addr().String()
}
