package listener

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/headgate/headgate/dataplane/certificate"
	"github.com/headgate/headgate/dataplane/certificate/acme"
	"github.com/headgate/headgate/dataplane/socket"
)

// Rules say what comes before the first request on a connection. The zero value
// is nothing.
type Rules struct {
	// Proxy is for listeners that stand behind others: a peer in Trusted begins
	// each connection with a PROXY line, and is turned away without one. Other
	// peers are taken as clients: a PROXY line of theirs is no request. Whoever
	// can connect to a unix socket is trusted.
	Proxy   bool
	Trusted []netip.Prefix
	// TLS gives the configuration of the next handshake; nil: clear text.
	TLS func() *tls.Config
	// QUIC is the same for clients that come over QUIC; nil: none do.
	QUIC func() *tls.Config
	// Timeout is how long the PROXY line and the handshake may take together;
	// 0: for ever.
	Timeout time.Duration
}

// Plain reports whether nothing comes before the first request.
func (r *Rules) Plain() bool { return !r.Proxy && r.TLS == nil }

// Counts of what became of prefaces.
type Counts struct {
	ProxyLines atomic.Uint64 // that were refused
	Timeouts   atomic.Uint64
	Gone       atomic.Uint64                        // clients that closed before they were through
	Handshakes atomic.Uint64                        // that were finished
	Resumed    atomic.Uint64                        // of those
	Failed     [certificate.Alert + 1]atomic.Uint64 // handshakes, by their certificate.Fault
}

// Preface is a connection that has not come to its first request. It takes the
// PROXY line and makes the handshake, as the rules say when it is served, and
// then becomes what open makes of it.
type Preface struct {
	raw    net.Conn
	rules  func() *Rules
	counts *Counts
	loop   func() *socket.Loop
	open   func(c net.Conn, client netip.AddrPort) Conn

	mu sync.Mutex
	// guarded by mu
	conn     Conn // nil until the preface is over
	draining bool
}

// NewPreface begins with an accepted connection. client is the zero AddrPort on
// a unix socket where no proxy has said more. loop gives the loop that is to serve what
// open makes, or nil.
func NewPreface(raw net.Conn, rules func() *Rules, counts *Counts, loop func() *socket.Loop, open func(c net.Conn, client netip.AddrPort) Conn) *Preface {
	return &Preface{raw: raw, rules: rules, counts: counts, loop: loop, open: open}
}

// Serve runs the connection to its end.
func (p *Preface) Serve() {
	ended := make(chan struct{})
	p.Begin(func() { close(ended) })
	<-ended
}

// Begin takes the preface, and has the connection served to its end, when over is
// called: without a goroutine, if that can be.
func (p *Preface) Begin(over func()) {
	p.join()
	c, client, err := p.begin(p.rules())
	if err != nil {
		p.counts.fail(err)
		p.part(err)
		over()
		return
	}
	conn := p.become(c, client)
	if a, ok := conn.(attended); ok && a.Attend(over) {
		return
	}
	// The stack of a handshake is several times what the connection gets by with
	// afterwards: it goes.
	go func() {
		defer over()
		conn.Serve()
	}()
}

// join has the loop's poller know the connection from the beginning: what the runtime's
// has known once cannot be served by a loop any more.
func (p *Preface) join() {
	if a, ok := p.raw.(*socket.Stream); ok {
		if l := p.loop(); l != nil {
			a.Join(l)
		}
	}
}

// become ends the preface. A drain that came before holds for what follows.
func (p *Preface) become(c net.Conn, client netip.AddrPort) Conn {
	conn := p.open(c, client)
	p.mu.Lock()
	p.conn = conn
	draining := p.draining
	p.mu.Unlock()
	if draining {
		conn.Drain()
	}
	return conn
}

// Drain lets a preface that is under way finish: its client does not know yet
// that there will be no second request.
func (p *Preface) Drain() {
	p.mu.Lock()
	conn := p.conn
	p.draining = true
	p.mu.Unlock()
	if conn != nil {
		conn.Drain()
	}
}

// Close ends it at once.
func (p *Preface) Close() {
	p.mu.Lock()
	conn := p.conn
	p.mu.Unlock()
	if conn != nil {
		conn.Close()
		return
	}
	_ = p.raw.Close() // should conn be made meanwhile, it finds itself closed
}

// begin takes what comes before the first request.
func (p *Preface) begin(rules *Rules) (c net.Conn, client netip.AddrPort, err error) {
	client = socket.PeerOf(p.raw)
	believed := rules.Proxy && rules.trusts(client)
	if !believed && rules.TLS == nil {
		return p.raw, client, nil
	}
	if rules.Timeout > 0 {
		if err := p.raw.SetDeadline(time.Now().Add(rules.Timeout)); err != nil {
			return nil, client, err
		}
	}
	if believed {
		line, err := readProxyLine(p.raw)
		if err != nil {
			return nil, client, err
		}
		if line.client.IsValid() {
			client = line.client
		}
	}
	c = p.raw
	if rules.TLS != nil {
		if c, err = p.handshake(rules.TLS()); err != nil {
			return nil, client, err
		}
	}
	if rules.Timeout > 0 {
		err = p.raw.SetDeadline(time.Time{})
	}
	return c, client, err
}

func (p *Preface) handshake(config *tls.Config) (net.Conn, error) {
	secure := tls.Server(socket.NewUnder(p.raw), config)
	if err := secure.Handshake(); err != nil { //nolint:noctx // the deadline of the connection bounds it
		return nil, &handshakeError{err}
	}
	if secure.ConnectionState().NegotiatedProtocol == acme.Protocol {
		_ = secure.Close()
		return nil, errChallenge
	}
	p.counts.Handshakes.Add(1)
	if secure.ConnectionState().DidResume {
		p.counts.Resumed.Add(1)
	}
	return secure, nil
}

// errChallenge ends a connection over which an authority has seen what it asked
// for (RFC 8737 section 3): there is no request.
var errChallenge = errors.New("an authority asked by TLS-ALPN-01")

// The bounds of a parting, in time and bytes.
const (
	partingTime  = time.Second
	partingBytes = 64 << 10
)

// part closes the connection. A client that is still sending would lose the
// alert that tells it why, for the kernel would reset the connection: it is
// given a moment to read it.
func (p *Preface) part(err error) {
	var handshake *handshakeError
	half, ok := p.raw.(interface{ CloseWrite() error })
	if errors.As(err, &handshake) && certificate.FaultOf(handshake.err) != certificate.NoFault &&
		ok && half.CloseWrite() == nil && p.raw.SetDeadline(time.Now().Add(partingTime)) == nil {
		_, _ = io.CopyN(io.Discard, p.raw, partingBytes)
	}
	_ = p.raw.Close()
}

type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return e.err.Error() }
func (e *handshakeError) Unwrap() error { return e.err }

// fail counts what a preface ended of.
func (c *Counts) fail(err error) {
	var handshake *handshakeError
	switch {
	case errors.Is(err, errChallenge):
	case errors.Is(err, errProxyLine):
		c.ProxyLines.Add(1)
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.Timeouts.Add(1)
	case errors.As(err, &handshake) && certificate.FaultOf(handshake.err) != certificate.NoFault:
		c.Failed[certificate.FaultOf(handshake.err)].Add(1)
	default:
		c.Gone.Add(1)
	}
}

// trusts reports whether the PROXY lines of a peer are believed.
func (r *Rules) trusts(peer netip.AddrPort) bool {
	if !peer.IsValid() {
		return true
	}
	for _, prefix := range r.Trusted {
		if prefix.Contains(peer.Addr()) {
			return true
		}
	}
	return false
}

// readProxyLine takes a PROXY line off a connection, and not a byte more: what
// follows belongs to others.
func readProxyLine(c net.Conn) (proxyLine, error) {
	buf := make([]byte, 0, 256)
	for {
		line, n, err := parseProxyLine(buf)
		if err != nil || n > 0 {
			return line, err
		}
		want := certain(buf)
		if want == 0 {
			if want, err = untilNewline(c, maxLine-len(buf)); err != nil {
				return line, err
			}
		}
		have := len(buf)
		buf = append(buf, make([]byte, want)...)
		if _, err := io.ReadFull(c, buf[have:]); err != nil {
			return line, err
		}
	}
}

// untilNewline is how many bytes can be read up to the end of a line, or as far
// as there are any, but no more than most. It waits for the first.
func untilNewline(c net.Conn, most int) (int, error) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return 1, nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return 0, err
	}
	var few [maxLine]byte
	n, failed := 0, error(nil)
	err = raw.Read(func(fd uintptr) bool {
		for failed = syscall.EINTR; failed == syscall.EINTR; {
			n, _, failed = syscall.Recvfrom(int(fd), few[:most], syscall.MSG_PEEK)
		}
		return failed != syscall.EAGAIN
	})
	if err = errors.Join(err, failed); err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	for i, b := range few[:n] {
		if b == '\n' {
			return i + 1, nil
		}
	}
	return n, nil
}
