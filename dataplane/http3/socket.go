package http3

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
)

// Socket is a UDP socket with the connections on it. It must be closed.
type Socket struct {
	udp       net.PacketConn
	transport *quic.Transport
	terms     atomic.Pointer[Terms]
	greeting  atomic.Int64 // connections whose handshake is not over, or that were not accepted yet
}

// Terms are how clients come in.
type Terms struct {
	// TLS is what the next handshake goes by. Its protocols must be "h3" alone.
	TLS func() *tls.Config
	// Admit reports whether a client may connect. Its address is not proved yet.
	Admit func(peer netip.AddrPort) bool
	// Options are the bounds of the next connection.
	Options func() Options
	// Failed is told why a connection ended before its handshake was over. It may be
	// nil.
	Failed func(err error)
}

// Bind opens a socket; address is host:port.
func Bind(address string) (*Socket, error) {
	var config net.ListenConfig
	udp, err := config.ListenPacket(context.Background(), "udp", address)
	if err != nil {
		return nil, err
	}
	s := &Socket{udp: udp}
	s.transport = &quic.Transport{Conn: udp, ConnContext: s.greet, VerifySourceAddress: s.doubts}
	return s, nil
}

// Addr is the address that the kernel gave.
func (s *Socket) Addr() net.Addr { return s.udp.LocalAddr() }

// Close closes the socket, and cuts what is left on it.
func (s *Socket) Close() error {
	return errors.Join(s.transport.Close(), s.udp.Close())
}

// Bounds of connections that are not accepted yet. Whoever sends one packet under a
// false address makes one, so beyond the first a client must answer at its address
// before anything is kept of it (RFC 9000 section 8.1.2).
const (
	greetingTrusted = 64
	greetingAtMost  = 1024
)

func (s *Socket) doubts(net.Addr) bool { return s.greeting.Load() >= greetingTrusted }

var errRefused = errors.New("http3: no room for a connection")

// greet counts a connection from its first packet until it is accepted or fails.
func (s *Socket) greet(ctx context.Context, info *quic.ClientInfo) (context.Context, error) {
	terms := s.terms.Load()
	if terms == nil || s.greeting.Load() >= greetingAtMost || !terms.Admit(peerOf(info.RemoteAddr)) {
		return nil, errRefused
	}
	s.greeting.Add(1)
	g := &greeting{socket: s}
	context.AfterFunc(ctx, func() {
		if g.over() && terms.Failed != nil {
			terms.Failed(context.Cause(ctx))
		}
	})
	return context.WithValue(ctx, greetingKey{}, g), nil
}

// greeting is a connection that is not accepted yet.
type greeting struct {
	socket *Socket
	done   atomic.Bool
}

type greetingKey struct{}

// over reports whether it was the first to say so.
func (g *greeting) over() bool {
	if g.done.Swap(true) {
		return false
	}
	g.socket.greeting.Add(-1)
	return true
}

// Listener accepts the connections on a socket.
type Listener struct {
	socket *Socket
	quic   *quic.Listener
}

// Listen begins to accept connections. There may be one listener at a time; after it
// was closed, another one.
func (s *Socket) Listen(terms *Terms) (*Listener, error) {
	s.terms.Store(terms)
	secure := &tls.Config{
		MinVersion:         tls.VersionTLS13,
		NextProtos:         []string{Protocol},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return terms.TLS(), nil },
	}
	q, err := s.transport.Listen(secure, &quic.Config{
		GetConfigForClient: func(*quic.ClientInfo) (*quic.Config, error) { return configOf(terms.Options()), nil },
	})
	if err != nil {
		return nil, err
	}
	return &Listener{socket: s, quic: q}, nil
}

// Protocol is what ALPN calls HTTP/3.
const Protocol = "h3"

// Accept waits for the next connection whose handshake is over. The error is of
// quic.ErrServerClosed once the listener is closed and every one was accepted.
func (l *Listener) Accept() (*quic.Conn, error) {
	conn, err := l.quic.Accept(context.Background())
	if err != nil {
		return nil, err
	}
	if g, ok := conn.Context().Value(greetingKey{}).(*greeting); ok {
		g.over()
	}
	return conn, nil
}

// Close refuses further connections. Those that were accepted go on.
func (l *Listener) Close() error { return l.quic.Close() }

// The bounds of a connection that are not its listener's.
const (
	// silence is how long a peer may not be heard of. It is asked now and then
	// whether it is there, so that a request may take longer.
	silence  = 30 * time.Second
	askAfter = silence / 3

	// otherStreams may be open at a time on which the peer makes no requests. It
	// needs three.
	otherStreams = 8

	// A stream begins with a window that grows as its reader keeps up. The window
	// of the connection is large from the start, so that a stream that nobody
	// reads does not stop the others; it bounds what a connection holds.
	streamWindow    = 256 << 10
	maxStreamWindow = 6 << 20
	connWindow      = 16 << 20
)

func configOf(o Options) *quic.Config {
	o = o.resolve()
	return &quic.Config{
		HandshakeIdleTimeout:             o.HeaderTimeout,
		MaxIdleTimeout:                   silence,
		KeepAlivePeriod:                  askAfter,
		MaxIncomingStreams:               int64(o.MaxConcurrentStreams),
		MaxIncomingUniStreams:            otherStreams,
		RequireStreamCreditRelease:       true,
		EnableStreamResetPartialDelivery: true,
		InitialStreamReceiveWindow:       streamWindow,
		MaxStreamReceiveWindow:           maxStreamWindow,
		InitialConnectionReceiveWindow:   connWindow,
		MaxConnectionReceiveWindow:       connWindow,
	}
}

// peerOf is the address of a peer.
func peerOf(a net.Addr) netip.AddrPort {
	if udp, ok := a.(*net.UDPAddr); ok {
		return udp.AddrPort()
	}
	return netip.AddrPort{}
}
