package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/headgate/headgate/dataplane/certificate"
	"github.com/headgate/headgate/dataplane/socket"
	"github.com/headgate/headgate/dataplane/upstream/pool"
)

// The errors of Endpoint.Dial and DialHTTP1, besides *ConnectError.
var (
	// ErrOverflow: there are as many connections as may be, and as many wait
	// for one as may. The endpoint is not to blame.
	ErrOverflow = errors.New("upstream: too many requests wait for a connection")
	// ErrQueueTimeout is an ErrOverflow: the request waited, but no connection
	// came free in time. The endpoint is not to blame.
	ErrQueueTimeout = fmt.Errorf("upstream: no connection came free in time: %w", ErrOverflow)
	// ErrAbandoned: the client has left while its request waited for a connection.
	ErrAbandoned = errors.New("upstream: the client has left")
	// ErrConnectTimeout: the endpoint did not accept in time.
	ErrConnectTimeout = errors.New("upstream: connect timeout")
)

// ConnectError is a connection that could not be opened.
type ConnectError struct {
	Address string
	Err     error
}

func (e *ConnectError) Error() string {
	return "upstream: connect to " + e.Address + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *ConnectError) Unwrap() error { return e.Err }

// TLS is what a TLS handshake failed of; certificate.NoFault if it was not that.
func (e *ConnectError) TLS() certificate.Fault { return certificate.FaultOf(e.Err) }

// defaultConnectTimeout holds for clusters that say nothing.
const defaultConnectTimeout = 3 * time.Second

// Idle is an idle connection, or nil. The one that went idle last comes first,
// from the caller's own shard if it has any. Nothing is checked on the wire:
// the peer may have closed it.
func (e *Endpoint) Idle(shard int) *pool.Conn { return e.IdleAt(shard, socket.Now()) }

// IdleAt is Idle for those who know the time. One whose peer was verified
// against what counts no more, or that has shown another certificate than it
// would now, is not used again.
func (e *Endpoint) IdleAt(shard int, now int64) *pool.Conn {
	c := e.pool.Idle(shard, now)
	for c != nil && e.outdated(c) {
		c.Discard()
		c = e.pool.Idle(shard, now)
	}
	return c
}

func (e *Endpoint) outdated(c *pool.Conn) bool {
	return e.secure != nil && c.Version != e.secure.Version()
}

// Dial opens a connection, within the cluster's ConnectTimeout and before
// deadline (a time of socket.Now; 0: none). If the cluster or the endpoint has
// as many as it may, it waits its turn for as long before that; what it gets
// then may be a connection that another request has released (Reused). The
// error is ErrOverflow, ErrQueueTimeout, ErrConnectTimeout or a *ConnectError.
func (e *Endpoint) Dial(deadline int64) (*pool.Conn, error) { return e.dial(nil, deadline, nil) }

// DialHTTP1 is Dial for a request that takes HTTP/1.1, also where ALPN decides.
// Its client, if there is one, is looked at now and then while the request waits
// for its turn; ErrAbandoned if it has left.
func (e *Endpoint) DialHTTP1(client pool.Client, deadline int64) (*pool.Conn, error) {
	if e.decides() {
		return e.dial(client, deadline, []string{protocolHTTP1})
	}
	return e.dial(client, deadline, nil)
}

// dial is Dial for a client, that offers these protocols; nil: those of the cluster.
func (e *Endpoint) dial(client pool.Client, deadline int64, protocols []string) (*pool.Conn, error) {
	c, err := e.acquire(client, e.limit(deadline))
	if c != nil || err != nil {
		return c, err
	}
	// Time spent waiting is not held against the endpoint.
	return e.occupy(deadline, protocols)
}

// occupy opens a connection for a place that the caller has taken. If that fails, the
// place is given back.
func (e *Endpoint) occupy(deadline int64, protocols []string) (*pool.Conn, error) {
	used := false
	defer func() {
		if !used { // also by a panic
			e.pool.Cancel()
		}
	}()
	opened, version, err := e.connect(e.limit(deadline), protocols)
	if err != nil {
		return nil, err
	}
	if opened, err = socket.Own(opened); err != nil {
		return nil, &ConnectError{Address: e.address, Err: err}
	}
	used = true
	c := e.pool.Add(socket.New(opened))
	c.Version = version
	return c, nil
}

// acquire takes a place for a connection, or one that came free.
func (e *Endpoint) acquire(client pool.Client, limit int64) (*pool.Conn, error) {
	for {
		c, err := e.pool.Acquire(limit, client)
		switch {
		case err != nil:
			return nil, queueError(err)
		case c == nil || !e.outdated(c):
			return c, nil
		}
		c.Discard()
	}
}

// queueError is why there was no turn, in the words of Dial.
func queueError(err error) error {
	switch err {
	case pool.ErrFull, pool.ErrShed:
		return ErrOverflow
	case pool.ErrLeft:
		return ErrAbandoned
	}
	return ErrQueueTimeout
}

// limit is the connect timeout from now, or the deadline if that is sooner.
func (e *Endpoint) limit(deadline int64) int64 {
	timeout := e.group.connectTimeout.Load()
	if timeout <= 0 {
		timeout = int64(defaultConnectTimeout)
	}
	limit := socket.Now() + timeout
	if deadline != 0 {
		limit = min(limit, deadline)
	}
	return limit
}

// connect opens a connection before limit.
func (e *Endpoint) connect(limit int64, protocols []string) (net.Conn, uint64, error) {
	ctx, cancel := context.WithDeadline(context.Background(), socket.At(limit))
	defer cancel()
	c, version, err := e.open(ctx, protocols)
	if err == nil {
		return c, version, nil
	}
	var timed interface{ Timeout() bool }
	if ctx.Err() != nil || errors.As(err, &timed) && timed.Timeout() {
		return nil, 0, ErrConnectTimeout
	}
	return nil, 0, &ConnectError{Address: e.address, Err: err}
}

// open connects, and speaks TLS if that is how the endpoint is spoken to. version
// is that of the TLS. protocols are offered instead of the usual ones; nil: those.
func (e *Endpoint) open(ctx context.Context, protocols []string) (c net.Conn, version uint64, err error) {
	c, err = e.group.registry.options.Dial(ctx, e.network, e.target)
	if err != nil || e.secure == nil {
		return c, 0, err
	}
	peer := certificate.Peer{Endpoint: e.address, Protocols: protocols}
	if e.network == "tcp" {
		peer.Host, _, _ = net.SplitHostPort(e.target) // an endpoint's address has a port
	}
	secure, version, err := e.secure.Handshake(ctx, c, peer)
	if err != nil {
		return nil, 0, err // and no nil *tls.Conn in an interface
	}
	return secure, version, nil
}
