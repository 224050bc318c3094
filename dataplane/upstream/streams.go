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
}

// Stream is a stream to the endpoint over HTTP/2, on a connection that is there
// or on a new one. reused says that the connection has carried others. The errors
// are those of Dial.
func (e *Endpoint) Stream(shard int, deadline int64) (s *http2.Stream, reused bool, err error) {
	shards := e.streams.shards
	p := &shards[shard%len(shards)]
	for {
		s, wait := p.take(e)
		if s != nil {
			return s, true, nil
		}
		if wait == nil {
			return e.openStream(p, deadline)
		}
		if err := p.await(wait, e.limit(deadline)); err != nil {
			return nil, false, err
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
		} else if s, err := c.NewStream(); err == nil {
			return s
		}
	}
	return nil
}

// take makes a stream on a connection that has room. Without one, wait is what to
// wait for; nil: the caller is the one that opens a connection.
func (p *streamShard) take(e *Endpoint) (s *http2.Stream, wait chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.open(e); s != nil {
		return s, nil
	}
	if p.dialing != nil {
		return nil, p.dialing
	}
	p.dialing = make(chan struct{})
	return nil, nil
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

// openStream opens a connection for the shard, and a stream on it. Those who wait
// for the connection are told, also if this panics.
func (e *Endpoint) openStream(p *streamShard, deadline int64) (s *http2.Stream, reused bool, err error) {
	var conn *pool.Conn
	err = &ConnectError{Address: e.address, Err: errDialLost}
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		close(p.dialing)
		p.dialing, p.err = nil, err
		if err != nil {
			return
		}
		if s, err = p.add(e, conn).NewStream(); err != nil {
			err = &ConnectError{Address: e.address, Err: err}
		}
	}()
	conn, err = e.dialHTTP2(deadline)
	return nil, false, err
}

var errDialLost = errors.New("connecting ended by a fault of the proxy")

// add makes a connection one that many requests share. The caller holds mu.
func (p *streamShard) add(e *Endpoint, conn *pool.Conn) *http2.Client {
	c := http2.NewClient(conn.Conn, http2.Options{IdleTimeout: e.pool.KeepAlive(), PingAfter: pingAfter})
	c.Start()
	go p.follow(c, conn)
	p.clients = append(p.clients, shared{c, conn})
	if p.retired {
		c.Shutdown()
	}
	return c
}

// dialHTTP2 opens a connection to an endpoint that has agreed, where there is TLS,
// to speak HTTP/2.
func (e *Endpoint) dialHTTP2(deadline int64) (*pool.Conn, error) {
	conn, err := e.Dial(deadline)
	if err != nil {
		return nil, err
	}
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
func (p *streamShard) follow(c *http2.Client, conn *pool.Conn) {
	<-c.Done()
	conn.Discard()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients = slices.DeleteFunc(p.clients, func(other shared) bool { return other.Client == c })
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
