package http2

import (
	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
)

// Server is the server side of a connection.
type Server struct{ conn conn }

// NewServer makes the server side of a connection that begins, after what
// c.Buffered holds, with the preface of a client. handle is called for each
// request, on a goroutine that serves requests one after the other; the stream is
// finished when it returns, unless it was detached. Requests that came together
// wait for each other until one waits for its stream or calls MayWait. handle must
// not panic.
func NewServer(c *socket.Conn, o Options, handle func(*Stream)) *Server {
	s := &Server{}
	s.conn.handle = handle
	s.conn.init(c, o, false)
	return s
}

// Serve runs the connection on the calling goroutine, and closes it. It returns
// when every handler has returned. The error is nil if the connection ended after
// Shutdown, Close or a GOAWAY of the peer, or had no stream when the peer closed it
// or it was idle for too long; else a *ConnError.
func (s *Server) Serve() error { return s.conn.run() }

// Shutdown lets the requests that are under way, or on their way, be the last,
// and ends the connection after them. It does not wait.
func (s *Server) Shutdown() {
	c := &s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining != 0 || c.ended {
		return
	}
	// The peer is told first that it should stop, and after a round trip which
	// request was the last (RFC 9113 section 6.8).
	c.draining = socket.Now()
	c.reserve(64)
	c.out = appendGoAway(c.out, maxStreamID, NoError, "")
	c.out = appendPing(c.out, 0, pingShutdown)
	c.kick()
	c.sock.Interrupt() // to have it reckon with a new deadline
}

// finalGoAway says which request was the last. mu is held.
func (c *conn) finalGoAway() {
	if !c.goAwaySent {
		c.goAway(NoError, "")
		c.endIfDrained()
	}
}

// Close cuts the connection, whatever it is doing. It does not wait.
func (s *Server) Close() { s.conn.close() }

// close ends the connection at once. A socket that is written to is closed under
// it: nobody waits for the peer.
func (c *conn) close() {
	c.mu.Lock()
	c.end(nil)
	c.mu.Unlock()
	_ = c.sock.Close()
}

// Request is the head of the request; it and its bytes are valid until the
// stream is finished. HTTPS is what :scheme claims. A CONNECT request has no Path
// and no Body unless Upgrade is set: then it is an extended one (RFC 8441), and
// Upgrade is its :protocol. What follows on the stream of either is a tunnel's.
func (s *Stream) Request() *message.Request { return &s.request }

// ReadAt is when the head of the request was read, a time of socket.Now.
func (s *Stream) ReadAt() int64 { return s.readAt }

// Fault is what is wrong with the request, or nil. Such a request must be
// answered with its Status; Request holds what was understood.
func (s *Stream) Fault() *Fault { return s.fault }
