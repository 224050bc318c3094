package dataplane

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"sync"

	"github.com/quic-go/quic-go"

	"github.com/headgate/headgate/dataplane/certificate"
	"github.com/headgate/headgate/dataplane/http3"
	"github.com/headgate/headgate/dataplane/listener"
	"github.com/headgate/headgate/dataplane/proxy"
	"github.com/headgate/headgate/dataplane/snapshot"
)

// udpSocket is a UDP socket and how many use it. Connections of QUIC have no socket
// of their own, so those that drain keep it open; a snapshot that wants its address
// meanwhile gets the same one.
type udpSocket struct {
	*http3.Socket
	address string // in sockets.udp
	users   int    // guarded by sockets.mu
}

// maxChoices bounds how often the kernel is asked for another port, because the one
// that it chose for TCP is taken for UDP.
const maxChoices = 16

// bindUDP is the socket at the address of a listener that is bound to tcp. The caller
// holds mu.
//
// A port does not move from one host to all, or back, while HTTP/3 is served on it,
// as TCP does: of two sockets the kernel gives a packet to the one of the single host,
// so connections that begin would come to the socket that is on its way out for as
// long as those drain that are open, and which of the two a packet belongs to, the
// kernel cannot know. The apply is refused, by the field http3; taken in two, with
// HTTP/3 turned off between them and drained, it goes through.
func (s *sockets) bindUDP(l *snapshot.Listener, tcp net.Addr) (*udpSocket, error) {
	host, _, err := net.SplitHostPort(l.Address)
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort(host, strconv.Itoa(tcp.(*net.TCPAddr).Port))
	u := s.udp[address]
	if u == nil {
		sock, err := http3.Bind(address)
		if err != nil {
			return nil, err
		}
		u = &udpSocket{Socket: sock, address: address}
		s.udp[address] = u
	}
	u.users++
	return u, nil
}

// releaseUDP closes a socket that nobody uses any more. The caller holds mu.
func (s *sockets) releaseUDP(u *udpSocket) {
	if u == nil {
		return
	}
	if u.users--; u.users > 0 {
		return
	}
	delete(s.udp, u.address)
	if err := u.Close(); err != nil {
		s.logger.Warn("a UDP socket was not closed", "address", u.address, "error", err)
	}
}

// quicSide is the side of a listener that clients reach by QUIC.
type quicSide struct {
	*listener.Side
	socket    *udpSocket
	accepting *http3.Listener
	accepts   sync.WaitGroup
}

// openQUIC accepts connections of QUIC beside those of a listener. The caller holds
// mu.
func (s *sockets) openQUIC(b *boundSocket, u *udpSocket) {
	q := &quicSide{Side: b.NewSide(), socket: u}
	var err error
	if q.accepting, err = u.Listen(s.terms(b, q)); err != nil {
		s.logger.Error("HTTP/3 is not served", "listener", b.config.Name, "error", err)
		s.releaseUDP(u)
		return
	}
	b.quic = q
	q.accepts.Go(func() { s.acceptQUIC(b, q) })
}

// terms are how clients come in by QUIC, by the snapshot that is committed then.
func (s *sockets) terms(b *boundSocket, q *quicSide) *http3.Terms {
	return &http3.Terms{
		TLS: func() *tls.Config {
			if config := b.rules.Load().QUIC; config != nil {
				return config()
			}
			return nil // it is being turned off
		},
		Admit:   func(netip.AddrPort) bool { return q.HasRoom() },
		Options: func() http3.Options { return s.engine.QUICOptions(b.slot) },
		Failed:  func(err error) { countQUIC(&b.counts, err) },
	}
}

// countQUIC counts a handshake of QUIC that came to nothing.
func countQUIC(counts *listener.Counts, err error) {
	fault := certificate.FaultOf(err)
	if told, ok := errors.AsType[*quic.TransportError](err); ok && told.ErrorCode.IsCryptoError() {
		switch {
		case told.Remote: // an alert of TLS (RFC 9001 section 4.8)
			fault = certificate.Alert
		case fault == certificate.NoFault:
			fault = certificate.BadProtocol
		}
	}
	var timed interface{ Timeout() bool }
	switch {
	case fault != certificate.NoFault:
		counts.Failed[fault].Add(1)
	case errors.As(err, &timed) && timed.Timeout():
		counts.Timeouts.Add(1)
	default:
		counts.Gone.Add(1)
	}
}

func (s *sockets) acceptQUIC(b *boundSocket, q *quicSide) {
	shards := uint64(shards())
	for {
		c, err := q.accepting.Accept()
		if err != nil {
			return
		}
		b.counts.Handshakes.Add(1)
		if c.ConnectionState().TLS.DidResume {
			b.counts.Resumed.Add(1)
		}
		if !q.Start(func(n uint64) listener.Conn { return s.engine.NewQUICConn(c, b.slot, int(n%shards)) }) {
			_ = c.CloseWithError(quic.ApplicationErrorCode(http3.ExcessiveLoad), "no room for a connection")
		}
	}
}

// retireQUIC accepts no more connections of QUIC, and drains those that are open in
// the background. The caller holds mu.
func (s *sockets) retireQUIC(b *boundSocket) {
	q, config := b.quic, b.config
	b.quic = nil
	_ = q.accepting.Close() // never fails
	q.accepts.Wait()
	b.sides.Add(1)
	s.drains.Go(func() {
		defer b.sides.Done()
		ctx, cancel := context.WithTimeout(s.patience, config.DrainTimeout)
		defer cancel()
		if cut := q.Drain(ctx); cut > 0 {
			s.logger.Warn("connections of HTTP/3 were cut after the drain timeout", "listener", config.Name, "connections", cut)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.releaseUDP(q.socket)
	})
}

var _ listener.Conn = (*proxy.QUICConn)(nil)
