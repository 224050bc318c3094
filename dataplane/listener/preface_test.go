package listener

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/headgate/headgate/dataplane/certificate"
	"github.com/headgate/headgate/dataplane/certificate/testca"
	"github.com/headgate/headgate/dataplane/socket"
)

// patience bounds every wait for an event; only what hangs takes as long.
const patience = 20 * time.Second

// visited answers each connection with whom it is for and what it sent.
type visited struct {
	net.Conn
	client netip.AddrPort
	drain  chan struct{}
}

func (v visited) Serve() {
	defer v.Conn.Close()
	buf := make([]byte, 100)
	n, err := v.Read(buf)
	if err == nil {
		_, _ = fmt.Fprintf(v, "%v says %s", v.client, buf[:n])
	}
}

func (v visited) Close() { _ = v.Conn.Close() }

func (v visited) Drain() {
	select {
	case v.drain <- struct{}{}:
	default: // it has been told before
	}
}

func noLoop() *socket.Loop { return nil }

// behind serves with rules on an address until the test ends.
func behind(t testing.TB, network string, rules *Rules) (*Listener, *Counts) {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	l, counts := bind(t, network, address), &Counts{}
	l.Serve(func(c net.Conn, _ uint64) Conn {
		return NewPreface(c, func() *Rules { return rules }, counts, noLoop, func(c net.Conn, client netip.AddrPort) Conn {
			return visited{Conn: c, client: client, drain: make(chan struct{}, 1)}
		})
	})
	t.Cleanup(func() {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		l.Drain(over)
	})
	return l, counts
}

func call(t testing.TB, l *Listener) net.Conn {
	t.Helper()
	c, err := net.Dial(l.Addr().Network(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c
}

// anyone is trusted.
var anyone = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// A PROXY line is taken off in whatever pieces it comes, and nothing behind it.
func TestPrefaceTakesTheLineAlone(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		l, counts := behind(t, network, &Rules{Proxy: true, Trusted: anyone, Timeout: patience})
		for _, test := range proxyLines {
			if test.client == "" || test.client == "!" {
				continue
			}
			for _, piece := range []int{1, 7, len(test.line), len(test.line) + 1} {
				c := call(t, l)
				for all := test.line + "h"; len(all) > 0; {
					n := min(piece, len(all))
					if _, err := io.WriteString(c, all[:n]); err != nil {
						t.Fatal(err)
					}
					all = all[n:]
				}
				got, err := io.ReadAll(io.LimitReader(c, int64(len(test.client)+len(" says h"))))
				if want := test.client + " says h"; string(got) != want || err != nil {
					t.Fatalf("%s in pieces of %d: %q, %v", test.name, piece, got, err)
				}
				_ = c.Close()
				if piece == 1 && len(test.line) > 1000 {
					break
				}
			}
		}
		if n := counts.ProxyLines.Load(); n != 0 {
			t.Errorf("%d lines were refused", n)
		}
	}
}

func TestPrefaceRefusesWhatIsNoLine(t *testing.T) {
	l, counts := behind(t, "tcp", &Rules{Proxy: true, Trusted: anyone, Timeout: patience})
	refused := uint64(0)
	for _, test := range proxyLines {
		if test.client != "!" {
			continue
		}
		c := call(t, l)
		if _, err := io.WriteString(c, test.line); err != nil {
			t.Fatal(err)
		}
		if got, _ := io.ReadAll(c); len(got) > 0 {
			t.Errorf("%s: %q", test.name, got)
		}
		if refused++; counts.ProxyLines.Load() != refused {
			t.Errorf("%s: not counted", test.name)
		}
	}
	c := call(t, l)
	if _, err := io.WriteString(c, "PROXY TCP4 192"); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	until(t, "counted as gone", func() bool { return counts.Gone.Load() == 1 })
}

// until waits for what no event tells of.
func until(t testing.TB, what string, reached func() bool) {
	t.Helper()
	end := time.After(patience)
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !reached() {
		select {
		case <-look.C:
		case <-end:
			t.Fatalf("never reached: %s", what)
		}
	}
}

// Peers that are not trusted are clients.
func TestPrefaceOfOthers(t *testing.T) {
	l, counts := behind(t, "tcp", &Rules{Proxy: true, Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	c := call(t, l)
	if _, err := io.WriteString(c, "PROXY TCP4 192.0.2.1 10.0.0.1 8080 443\r\n"); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if want := c.LocalAddr().String() + " says PROXY TCP4 192.0.2.1 10.0.0.1 8080 443\r\n"; string(got) != want || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if counts.ProxyLines.Load() != 0 {
		t.Error("it was counted as refused")
	}
}

// The time is that of line and handshake together, and nothing of it is left
// when they are over.
func TestPrefaceTimeout(t *testing.T) {
	ca := testca.New(t, "authority")
	pair := ca.Issue([]string{"a.example"}).TLS(t)
	config := func() *tls.Config { return &tls.Config{Certificates: []tls.Certificate{pair}} }
	l, counts := behind(t, "tcp", &Rules{Proxy: true, Trusted: anyone, TLS: config, Timeout: 50 * time.Millisecond})
	for i, text := range []string{"", "PROXY TCP4", "PROXY UNKNOWN\r\n", "PROXY UNKNOWN\r\n\x16\x03\x01"} {
		c := call(t, l)
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		if got, _ := io.ReadAll(c); len(got) > 0 {
			t.Errorf("%q: %q", text, got)
		}
		if n := counts.Timeouts.Load(); n != uint64(i)+1 {
			t.Errorf("%q: %d timeouts", text, n)
		}
	}
	near, far := net.Pipe()
	served := make(chan net.Conn, 1)
	p := NewPreface(near, func() *Rules { return &Rules{TLS: config, Timeout: time.Minute} }, counts, noLoop, func(c net.Conn, _ netip.AddrPort) Conn {
		served <- c
		return visited{Conn: c}
	})
	done := make(chan struct{})
	go func() { defer close(done); p.Serve() }()
	client := tls.Client(far, &tls.Config{RootCAs: ca.Pool(), ServerName: "a.example"})
	if err := client.Handshake(); err != nil {
		t.Fatal(err)
	}
	if _, ok := (<-served).(*tls.Conn).NetConn().(*socket.Under); !ok {
		t.Error("TLS runs over what cannot be looked under")
	}
	p.Close()
	_ = far.Close()
	<-done
}

// Who drains finds what became of a preface, and what is in it goes on.
func TestPrefaceDrain(t *testing.T) {
	near, far := net.Pipe()
	drained := make(chan struct{}, 1)
	p := NewPreface(near, func() *Rules { return &Rules{Proxy: true} }, &Counts{}, noLoop, func(c net.Conn, client netip.AddrPort) Conn {
		return visited{Conn: c, client: client, drain: drained}
	})
	done := make(chan struct{})
	go func() { defer close(done); p.Serve() }()
	p.Drain()
	if _, err := io.WriteString(far, "PROXY UNKNOWN\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-drained:
	case <-time.After(patience):
		t.Fatal("the drain was lost")
	}
	if _, err := io.WriteString(far, "hello"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(far); err != nil || len(got) == 0 {
		t.Errorf("%q, %v", got, err)
	}
	<-done
}

func TestPrefaceClose(t *testing.T) {
	near, far := net.Pipe()
	counts := &Counts{}
	p := NewPreface(near, func() *Rules { return &Rules{Proxy: true} }, counts, noLoop, nil)
	done := make(chan struct{})
	go func() { defer close(done); p.Serve() }()
	p.Close()
	<-done
	if counts.Gone.Load() != 1 {
		t.Error("not counted")
	}
	_ = far.Close()
}

// What is counted of handshakes that fail.
func TestPrefaceCounts(t *testing.T) {
	ca, other := testca.New(t, "authority"), testca.New(t, "other")
	pair, stranger := ca.Issue([]string{"a.example"}).TLS(t), other.Issue([]string{"stranger"}).TLS(t)
	config := &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool()}
	l, counts := behind(t, "tcp", &Rules{TLS: func() *tls.Config { return config }, Timeout: patience})
	handshake := func(config *tls.Config) error {
		c := tls.Client(call(t, l), config)
		_, err := c.Write([]byte("hello"))
		if err == nil {
			_, err = io.ReadAll(c)
		}
		return err
	}
	trusting := &tls.Config{RootCAs: ca.Pool(), ServerName: "a.example", Certificates: []tls.Certificate{pair}}
	if err := handshake(trusting); err != nil || counts.Handshakes.Load() != 1 {
		t.Errorf("%v, %d handshakes", err, counts.Handshakes.Load())
	}
	foreign := trusting.Clone()
	foreign.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &stranger, nil }
	if err := handshake(foreign); certificate.FaultOf(err) != certificate.Alert {
		t.Errorf("a stranger sees %v", err)
	}
	doubting := trusting.Clone()
	doubting.RootCAs = other.Pool()
	var unknown *tls.CertificateVerificationError
	if err := handshake(doubting); !errors.As(err, &unknown) {
		t.Errorf("who doubts sees %v", err)
	}
	for fault, want := range map[certificate.Fault]uint64{certificate.BadCertificate: 1, certificate.Alert: 1} {
		until(t, fault.String(), func() bool { return counts.Failed[fault].Load() == want })
	}
}
