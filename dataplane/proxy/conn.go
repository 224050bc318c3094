package proxy

import (
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dataplane/http2"
	"github.com/headgate/headgate/dataplane/socket"
)

// Conn is one client connection. Serve runs it; Drain may be called from
// anywhere.
type Conn struct {
	engine  *Engine
	slot    int // of the listener in Generation.sites
	shard   int
	sock    *socket.Conn
	peer    netip.Addr // the zero Addr on a unix socket
	port    uint16
	secure  bool  // over TLS
	spoken  bool  // a request of HTTP/1 has come; owned by Serve
	preface bool  // the client has begun to speak HTTP/2; owned by Serve
	now     int64 // when the last exchange ended; owned by Serve
	wait    wait

	http2  atomic.Pointer[http2.Server] // once it is known that HTTP/2 is spoken
	phase  atomic.Int32
	drain  atomic.Bool
	closed atomic.Bool
	tunnel atomic.Pointer[end] // the upstream's end of an open tunnel
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
	return e.NewConnFor(socket.PeerOf(c), c, slot, shard)
}

// NewConnFor is NewConn for a connection that was made for another peer, as a
// proxy before this one said; the zero AddrPort is one without an address. If c
// is a *tls.Conn, the handshake is over.
func (e *Engine) NewConnFor(peer netip.AddrPort, c net.Conn, slot, shard int) *Conn {
	conn := &Conn{
		engine: e, slot: slot, shard: shard, sock: socket.New(c),
		peer: peer.Addr(), port: peer.Port(),
	}
	conn.phase.Store(active) // a drain before Serve must not end the wait for a request that is there
	if secure, ok := c.(*tls.Conn); ok {
		conn.secure = true
		conn.preface = secure.ConnectionState().NegotiatedProtocol == "h2"
	}
	return conn
}

// Close cuts the connection, whatever it is doing.
func (c *Conn) Close() {
	c.closed.Store(true)
	_ = c.sock.Close()
	if up := c.tunnel.Load(); up != nil {
		_ = (*up).Close()
	}
}

// hold has Close close the upstream's end of a tunnel too: a direction may be
// waiting for that alone.
func (c *Conn) hold(up end) {
	c.tunnel.Store(&up)
	if c.closed.Load() {
		_ = up.Close()
	}
}

// letGo ends what hold began.
func (c *Conn) letGo() { c.tunnel.Store(nil) }

// Drain lets the exchange that is under way be the last one, and ends the
// connection at once if there is none.
func (c *Conn) Drain() {
	c.drain.Store(true)
	if s := c.http2.Load(); s != nil {
		s.Shutdown()
		return
	}
	if c.phase.CompareAndSwap(idle, waking) {
		c.sock.Interrupt()
		c.phase.Store(woken)
	}
}

// Serve runs the connection to its end and closes it.
func (c *Conn) Serve() {
	c.now = socket.Now()
	c.sock.Watch(c.engine.crew, c.shard, c)
	c.ended()
}

func (c *Conn) ended() {
	c.engine.lookouts.of(c).leave(c)
	c.Close()
	c.sock.Discard()
}

// Attend is Serve that does not wait: a loop serves the connection, and over is
// called at its end. It reports false if that cannot be.
func (c *Conn) Attend(over func()) bool {
	l := c.engine.Loop(c.shard)
	if l == nil || c.preface {
		return false
	}
	c.now = socket.Now()
	return c.sock.Attend(l, c, func() {
		c.ended()
		over()
	})
}

// Ready serves what the client has sent, and is called by Watch or a loop.
func (c *Conn) Ready() bool {
	c.activate()
	for !c.preface {
		if there, err := c.sock.FillNow(); !there {
			c.hadToWait()
			return err == nil
		}
		if !c.serveOne() && !c.preface {
			return false
		}
		c.sock.Release()
	}
	c.sock.Depart() // a stream may be served on any goroutine
	c.serveHTTP2()
	return false
}

// mayBegin reports whether HTTP/2 may begin here: in clear, with the first bytes
// (RFC 9113 section 3.3). Behind requests the same bytes may be what somebody has
// smuggled past the proxy whose connection this is, and over TLS the peers have
// agreed on HTTP/1.
func (c *Conn) mayBegin() bool { return !c.spoken && !c.secure }

// hadToWait has the idle time of a client begin now that took its time to take an answer.
func (c *Conn) hadToWait() {
	if c.sock.Aside() {
		c.now = socket.Now()
	}
}

// serveOne serves one request and reports whether the connection can carry
// another. A fault of ours ends this connection and no other.
func (c *Conn) serveOne() (again bool) {
	x := exchangePool.Get().(*exchange)
	defer func() {
		if fault := recover(); fault != nil {
			c.engine.logger.Error("an exchange panicked", "fault", fault, "stack", string(debug.Stack()))
			x.forsake()
			again = false
		}
	}()
	again = x.serve(c)
	x.reset()
	exchangePool.Put(x)
	return again
}

// Deadline is when a client that sends no request is sent away.
func (c *Conn) Deadline() int64 { return after(c.now, c.idleTimeout()) }

// Rest lets a drain end the connection from now on, or ends it if there is one.
func (c *Conn) Rest() bool {
	c.phase.Store(idle)
	return !c.drain.Load() || !c.phase.CompareAndSwap(idle, active)
}

// Woken looks why no request came. What came before a drain is served as the
// last.
func (c *Conn) Woken(err error) bool {
	c.activate()
	switch {
	case errors.Is(err, socket.ErrInterrupted):
		return c.sock.FillAhead() || c.sock.Peek() == socket.Readable
	case errors.Is(err, os.ErrDeadlineExceeded):
		return socket.Now() < c.Deadline()
	}
	return false
}

// activate ends the phase in which the connection may be ended by a drain.
func (c *Conn) activate() {
	if c.phase.Load() == active || c.phase.CompareAndSwap(idle, active) {
		return
	}
	for c.phase.Load() != woken {
		runtime.Gosched()
	}
	c.phase.Store(active)
	c.sock.Resume()
}

// idleTimeout is how long a kept-alive connection may be without a request.
func (c *Conn) idleTimeout() time.Duration {
	if s := c.generation().site(c.slot); s != nil {
		return s.listener.IdleTimeout
	}
	return time.Second
}

// generation is what the next request is served with.
func (c *Conn) generation() *Generation {
	return c.engine.live.Load().of(c.slot)
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
	c.sock.StepAside()
	if c.sock.CloseWrite() != nil {
		return
	}
	end := socket.Now() + int64(lingerTime)
	for dropped := 0; dropped < lingerBytes; {
		dropped += len(c.sock.Buffered())
		c.sock.Consume(len(c.sock.Buffered()))
		c.sock.Release()
		if err := c.sock.Fill(0, min(end, socket.Now()+int64(lingerQuiet))); err != nil {
			return
		}
	}
}

var exchangePool = sync.Pool{New: func() any { return newExchange() }}
