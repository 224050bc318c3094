package upstream

import (
	"crypto/tls"
	"errors"
	"net"

	"github.com/headgate/headgate/dataplane/http2"
	"github.com/headgate/headgate/dataplane/upstream/pool"
)

// The protocols as ALPN names them (RFC 7301 section 6).
const (
	protocolHTTP1 = "http/1.1"
	protocolHTTP2 = "h2"
)

// What an endpoint and we agreed on last, where ALPN decides.
const (
	undecided uint32 = iota
	agreedHTTP1
	agreedHTTP2
)

// decides reports whether ALPN decides what is spoken.
func (e *Endpoint) decides() bool { return e.secure != nil && e.secure.Chooses() }

// spokenOver is the protocol that was agreed on for a connection; "": none was.
func spokenOver(c net.Conn) string {
	secure, ok := c.(*tls.Conn)
	if !ok {
		return ""
	}
	return secure.ConnectionState().NegotiatedProtocol
}

// maxChanges bounds how often an endpoint may change its mind in one Connect.
const maxChanges = 4

var errFickle = errors.New("the endpoint agrees to another protocol each time (ALPN)")

// Connect is a way to an endpoint where ALPN decides what is spoken: a stream
// over HTTP/2, or else a connection for HTTP/1.1, which is not one of the pool if
// it must be fresh. What was agreed on last is tried first, so that requests that
// come at once do not each open a connection to find out; each new connection may
// tell otherwise. reused says that the connection has carried others. The errors
// are those of DialHTTP1.
func (e *Endpoint) Connect(shard int, client pool.Client, deadline int64, fresh bool) (s *http2.Stream, c *pool.Conn, reused bool, err error) {
	for range maxChanges {
		if e.agreed.Load() != agreedHTTP1 {
			s, reused, err = e.Stream(shard, client, deadline)
			if errors.Is(err, errNoHTTP2) {
				continue // and a connection for HTTP/1.1 is in the pool
			}
			return s, nil, reused, err
		}
		if !fresh {
			if c = e.Idle(shard); c != nil {
				return nil, c, c.Reused, nil
			}
		}
		if c, err = e.dial(client, deadline, nil); err != nil {
			return nil, nil, false, err
		}
		if c.Reused || spokenOver(c.Net()) != protocolHTTP2 {
			return nil, c, c.Reused, nil
		}
		e.adopt(shard, c)
	}
	return nil, nil, false, &ConnectError{Address: e.address, Err: errFickle}
}

// adopt shares a connection that turned out to speak HTTP/2. It waits until the server
// has said how many streams it takes.
func (e *Endpoint) adopt(shard int, conn *pool.Conn) {
	e.agreed.Store(agreedHTTP2)
	p := &e.streams.shards[shard%len(e.streams.shards)]
	c := p.add(e, conn)
	_ = c.AwaitSettings(e.limit(0))
	p.grownUp(e, c, false)
}
