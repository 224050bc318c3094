package upstream

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/dataplane/http2"
	"github.com/headgate/headgate/dataplane/socket"
	"github.com/headgate/headgate/dataplane/upstream/pool"
)

// streams are the connections of an endpoint that speak HTTP/2. Each core has its
// own, so that cores do not meet; many requests share one.
type streams struct {
	shards []streamShard
}

type streamShard struct {
	mu sync.Mutex
	// guarded by mu
	clients []shared
	dialing chan struct{} // closed when the connection that is being opened is there, or is not
	err     error         // of the last that could not be opened
	retired bool
	_       [16]byte
}

// shared is a connection that many requests share.
type shared struct {
	*http2.Client
	conn *pool.Conn
	// young says that the server has not said yet how many streams it takes. It
	// refuses what is over that, so only the request that opened the connection
	// has one.
	young bool
}

// Stream is a stream to the endpoint over HTTP/2, on a connection that is there
// or on a new one. reused says that the connection has carried others. Where there
// may be no more connections, and none has room, its client, if there is one, waits
// for room. The errors are those of DialHTTP1.
func (e *Endpoint) Stream(shard int, client pool.Client, deadline int64) (s *http2.Stream, reused bool, err error) {
	shards := e.streams.shards
	p, limit, place := &shards[shard%len(shards)], e.limit(deadline), false
	for {
		s, wait, opens := p.take(e, place)
		switch {
		case s != nil:
			return s, true, nil
		case opens:
			return e.openStream(p, deadline)
		case wait != nil:
			place = false
			if err := p.await(wait, limit); err != nil {
				return nil, false, err
			}
		default:
			if s, place, err = e.awaitRoom(client, limit); s != nil || err != nil {
				return s, s != nil, err
			}
		}
	}
}

// ReadyStream is a stream on a connection that is there, or nil. It does not wait.
func (e *Endpoint) ReadyStream(shard int) *http2.Stream {
	p := &e.streams.shards[shard%len(e.streams.shards)]
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open(e)
}

// open makes a stream on a connection that has room, or returns nil. Those that
// are outdated end with the streams they have. mu is held.
func (p *streamShard) open(e *Endpoint) *http2.Stream {
	for _, c := range p.clients {
		if e.outdated(c.conn) {
			c.Shutdown()
		} else if c.young {
			continue
		} else if s, err := c.NewStream(); err == nil {
			return s
		}
	}
	return nil
}

// take makes a stream on a connection that has room. Without one, wait is what to
// wait for; or else opens says that the caller has a place for one more connection and
// is the one that opens it. place says that it has one already, which is given back
// if it is not that.
func (p *streamShard) take(e *Endpoint, place bool) (s *http2.Stream, wait chan struct{}, opens bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s = p.open(e)
	if s == nil && p.dialing == nil {
		if !place && !e.pool.Reserve() {
			return nil, nil, false
		}
		p.dialing = make(chan struct{})
		return nil, nil, true
	}
	if place {
		e.pool.Cancel()
	}
	return s, p.dialing, false
}

// await waits for the connection that another opens. The error is why it is not
// there, or ErrConnectTimeout.
func (p *streamShard) await(wait <-chan struct{}, limit int64) error {
	timer := time.NewTimer(time.Duration(limit - socket.Now()))
	defer timer.Stop()
	select {
	case <-wait:
	case <-timer.C:
		return ErrConnectTimeout
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// awaitRoom waits until there is a stream on a connection of any shard, or a place
// for one more connection. It may return with neither; then the caller looks again.
func (e *Endpoint) awaitRoom(client pool.Client, limit int64) (s *http2.Stream, place bool, err error) {
	look := func() bool {
		s = e.streams.any(e)
		return s != nil
	}
	if look() {
		return s, false, nil
	}
	c, err := e.pool.AcquireShared(limit, client, look)
	switch {
	case err == pool.ErrRoom:
		if s != nil || look() {
			e.pool.Room() // and perhaps for one more
		}
		return s, false, nil
	case err != nil:
		return nil, false, queueError(err)
	case c != nil:
		_, err = e.overHTTP2(c) // one for HTTP/1.1: what is shared is not in the pool
		return nil, false, err
	}
	return nil, true, nil
}

// any makes a stream on a connection of any shard that has room, or returns nil.
func (t *streams) any(e *Endpoint) *http2.Stream {
	for i := range t.shards {
		p := &t.shards[i]
		p.mu.Lock()
		s := p.open(e)
		p.mu.Unlock()
		if s != nil {
			return s
		}
	}
	return nil
}

// openStream opens a connection for the shard, and a stream on it. Those who wait
// for the connection are told, also if this panics.
func (e *Endpoint) openStream(p *streamShard, deadline int64) (s *http2.Stream, reused bool, err error) {
	opened := false
	err = &ConnectError{Address: e.address, Err: errDialLost}
	defer func() {
		if !opened {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.dialed(err)
		}
	}()
	conn, err := e.occupy(deadline, nil)
	if err == nil {
		conn, err = e.overHTTP2(conn)
	}
	if err != nil {
		return nil, false, err
	}
	c := p.add(e, conn)
	opened = true
	if s, err = c.NewStream(); err != nil {
		err = &ConnectError{Address: e.address, Err: err}
	}
	go func() {
		_ = c.AwaitSettings(e.limit(0))
		p.grownUp(e, c, true)
	}()
	return s, false, err
}

// dialed tells those who wait for the connection that is being opened that it is there,
// or why not. mu is held.
func (p *streamShard) dialed(err error) {
	close(p.dialing)
	p.dialing, p.err = nil, err
}

var errDialLost = errors.New("connecting ended by a fault of the proxy")

// add makes a connection one that many requests share, once it is grown up.
func (p *streamShard) add(e *Endpoint, conn *pool.Conn) *http2.Client {
	c := http2.NewClient(conn.Conn, http2.Options{IdleTimeout: e.pool.KeepAlive(), PingAfter: pingAfter, OnRoom: e.pool.Room})
	p.mu.Lock()
	defer p.mu.Unlock()
	c.Start()
	e.pool.Share(e.streams.yield)
	go p.follow(e, c, conn)
	p.clients = append(p.clients, shared{c, conn, true})
	if p.retired {
		c.Shutdown()
	}
	return c
}

// grownUp lets requests share a connection. dialed says that those of the shard wait
// for it.
func (p *streamShard) grownUp(e *Endpoint, c *http2.Client, dialed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.IndexFunc(p.clients, func(other shared) bool { return other.Client == c }); i >= 0 {
		p.clients[i].young = false
	}
	if dialed {
		p.dialed(nil)
	}
	e.pool.Room()
}

// overHTTP2 is a connection to an endpoint that has agreed, where there is TLS, to
// speak HTTP/2. Another one goes to the pool, if that is agreed on too.
func (e *Endpoint) overHTTP2(conn *pool.Conn) (*pool.Conn, error) {
	if e.secure == nil || spokenOver(conn.Net()) == protocolHTTP2 {
		e.agreed.Store(agreedHTTP2)
		return conn, nil
	}
	if e.decides() {
		e.agreed.Store(agreedHTTP1)
		conn.Spare(0)
	} else {
		conn.Discard()
	}
	return nil, &ConnectError{Address: e.address, Err: errNoHTTP2}
}

var errNoHTTP2 = errors.New("the endpoint did not agree to speak HTTP/2 (ALPN)")

// pingAfter is the silence after which an upstream is asked whether it is still
// there while requests wait for it.
const pingAfter = 15 * time.Second

// follow forgets a connection when it has ended. Until then it counts among those
// of the cluster.
func (p *streamShard) follow(e *Endpoint, c *http2.Client, conn *pool.Conn) {
	<-c.Done()
	e.pool.Unshare()
	conn.Discard()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients = slices.DeleteFunc(p.clients, func(other shared) bool { return other.Client == c })
}

// yield ends a connection that nobody uses, and reports whether there was one.
func (t *streams) yield() bool {
	for i := range t.shards {
		if t.shards[i].yield() {
			return true
		}
	}
	return false
}

func (p *streamShard) yield() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.clients, func(c shared) bool { return !c.young && c.Yield() })
}

// shutdown lets the streams that are open be the last.
func (t *streams) shutdown() {
	for i := range t.shards {
		p := &t.shards[i]
		p.mu.Lock()
		p.retired = true
		for _, c := range p.clients {
			c.Shutdown()
		}
		p.mu.Unlock()
	}
}
