package proxy

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/quic-go/quic-go"

	"github.com/headgate/headgate/dataplane/http3"
	"github.com/headgate/headgate/dataplane/message"
)

// QUICConn is one client connection of HTTP/3. Serve runs it; Drain and Close may be
// called from anywhere.
type QUICConn struct {
	conn   Conn // without a socket
	server *http3.Server
}

// NewQUICConn wraps an accepted connection. slot is the listener's, shard spreads
// connections over what is kept for each core.
func (e *Engine) NewQUICConn(q *quic.Conn, slot, shard int) *QUICConn {
	c := &QUICConn{conn: Conn{engine: e, slot: slot, shard: shard, secure: true}}
	peer := netip.AddrPort{}
	if a, ok := q.RemoteAddr().(*net.UDPAddr); ok {
		peer = a.AddrPort()
	}
	c.conn.peer, c.conn.port = peer.Addr().Unmap(), peer.Port()
	c.server = http3.NewServer(q, e.QUICOptions(slot), func(st *http3.Stream) { c.conn.serveStream(st, nil) })
	return c
}

// QUICOptions are the bounds of a connection of HTTP/3 that comes now.
func (e *Engine) QUICOptions(slot int) http3.Options {
	site := e.live.Load().of(slot).site(slot)
	if site == nil {
		return http3.Options{}
	}
	l := site.listener
	return http3.Options{
		MaxConcurrentStreams: l.MaxConcurrentStreams,
		MaxHeaderBytes:       l.MaxHeaderBytes,
		MaxHeaders:           l.MaxHeaders,
		MaxTargetBytes:       l.MaxTargetBytes,
		HeaderTimeout:        l.HeaderTimeout,
		IdleTimeout:          l.IdleTimeout,
		ExtendedConnect:      true,
	}
}

const altSvc = "alt-svc"

var altSvcField = message.Field{Name: []byte(altSvc)}

// alternative is the value of Alt-Svc (RFC 7838 section 3) that tells clients of
// HTTP/3 on a port, for a day; nil if there is none.
func alternative(port int) []byte {
	if port == 0 {
		return nil
	}
	return fmt.Appendf(nil, `h3=":%d"; ma=86400`, port)
}

// announces reports whether the answer tells of HTTP/3. A connection that drains
// tells nothing: its listener may be going.
func (x *exchange) announces() bool {
	if x.site == nil || x.site.alternative == nil || !x.conn.secure || x.req.Major >= 3 || x.conn.drain.Load() {
		return false
	}
	return x.route == nil || !x.route.response.drops(&altSvcField)
}

// Serve runs the connection to its end and closes it.
func (c *QUICConn) Serve() {
	defer c.Close()
	if err := c.server.Serve(); err != nil {
		c.conn.engine.logger.Debug("a connection of HTTP/3 ended", "peer", c.conn.peer, "error", err)
	}
}

// Drain lets the exchanges that are under way be the last ones.
func (c *QUICConn) Drain() {
	c.conn.drain.Store(true)
	c.server.Shutdown()
}

// Close cuts the connection, whatever it is doing.
func (c *QUICConn) Close() { c.server.Close() }
