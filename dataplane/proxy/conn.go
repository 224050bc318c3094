package proxy

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dataplane/socket"
)

// Conn is one client connection. Serve runs it; Drain may be called from
// anywhere.
type Conn struct {
	engine *Engine
	slot   int // of the listener in Generation.sites
	shard  int
	sock   *socket.Conn
	peer   netip.Addr // the zero Addr on a unix socket
	port   uint16

	phase atomic.Int32
	drain atomic.Bool
}

// The phases of a connection. Only the connection leaves and enters idle, and
// only Drain turns idle into waking and that into woken, so that a wait is
// ended but never a request.
const (
	idle int32 = iota
	active
	waking
	woken
)

// NewConn wraps an accepted connection. slot is the listener's, shard spreads
// connections over what is kept for each core.
func (e *Engine) NewConn(c net.Conn, slot, shard int) *Conn {
	conn := &Conn{engine: e, slot: slot, shard: shard, sock: socket.New(c)}
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		ap := a.AddrPort()
		conn.peer, conn.port = ap.Addr().Unmap(), ap.Port()
	}
	return conn
}

// Close cuts the connection, whatever it is doing.
func (c *Conn) Close() { _ = c.sock.Close() }

// Drain lets the exchange that is under way be the last one, and ends the
// connection at once if there is none.
func (c *Conn) Drain() {
	c.drain.Store(true)
	if c.phase.CompareAndSwap(idle, waking) {
		c.sock.Interrupt()
		c.phase.Store(woken)
	}
}

// Serve runs the connection to its end and closes it.
func (c *Conn) Serve() {
	defer c.sock.Discard()
	defer c.Close()
	for c.awaitRequest() {
		x := exchangePool.Get().(*exchange)
		again := x.serve(c)
		x.reset()
		exchangePool.Put(x)
		if !again {
			return
		}
		c.sock.Release()
	}
}

// awaitRequest waits until there is something to read. It reports false when
// the connection is to be closed.
func (c *Conn) awaitRequest() bool {
	if len(c.sock.Buffered()) > 0 {
		return true
	}
	c.phase.Store(idle)
	if c.drain.Load() {
		return false
	}
	err := c.sock.Fill(0, socket.Now()+int64(c.idleTimeout()))
	if err == nil && !c.phase.CompareAndSwap(idle, active) {
		// Drain came while bytes arrived: they are served, as the last.
		for c.phase.Load() != woken {
			pause()
		}
		c.sock.Resume()
	}
	c.phase.Store(active)
	return err == nil
}

// idleTimeout is how long a kept-alive connection may be without a request.
func (c *Conn) idleTimeout() time.Duration {
	if s := c.engine.Live().site(c.slot); s != nil {
		return s.listener.IdleTimeout
	}
	return time.Second
}

// Bounds of a lingering close.
const (
	lingerTime  = 30 * time.Second
	lingerQuiet = 2 * time.Second
	lingerBytes = 64 << 20
)

// linger lets a client that is still sending read the answer: closing at once
// would reset the connection and lose what the client has not read yet
// (RFC 9112 section 9.6).
func (c *Conn) linger() {
	if c.sock.CloseWrite() != nil {
		return
	}
	end := socket.Now() + int64(lingerTime)
	for dropped := 0; dropped < lingerBytes; {
		dropped += len(c.sock.Buffered())
		c.sock.Consume(len(c.sock.Buffered()))
		if err := c.sock.Fill(socket.SmallBuffer, min(end, socket.Now()+int64(lingerQuiet))); err != nil {
			if errors.Is(err, socket.ErrInterrupted) {
				c.sock.Resume()
				continue
			}
			return
		}
	}
}

var exchangePool = sync.Pool{New: func() any { return newExchange() }}
