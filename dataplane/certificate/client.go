package certificate

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/dataplane/socket"
)

// ClientOptions are the client's side of TLS as a cluster wants it.
type ClientOptions struct {
	// ServerName is sent as SNI and verified; "": the host of each endpoint,
	// which is verified but not sent if it is an IP address.
	ServerName string
	// Roots is what certificates must chain to; nil: the roots of the system.
	Roots *Bundle
	// Certificate is shown when a server asks for one; nil: none is.
	Certificate *Certificate
	// Insecure accepts any certificate.
	Insecure bool
	// Protocols are offered by ALPN, the preferred one first; default none.
	Protocols []string
}

// Client is the client's side of TLS.
type Client struct {
	store   *Store
	options ClientOptions
	state   atomic.Pointer[clientState]

	mu sync.Mutex // held while state is replaced
}

// clientState is a configuration, and what it was made of.
type clientState struct {
	changes uint64
	version uint64
	roots   *Roots
	pair    *tls.Certificate
	config  *tls.Config
}

// NewClient makes the client's side of TLS with what is in this set.
func (s *Set) NewClient(o ClientOptions) *Client {
	o.Protocols = slices.Clone(o.Protocols)
	return &Client{store: s.store, options: o}
}

// ServerName is the one of the options.
func (c *Client) ServerName() string { return c.options.ServerName }

// Chooses reports whether several protocols are offered, so that the server
// chooses.
func (c *Client) Chooses() bool { return len(c.options.Protocols) > 1 }

// Equal reports whether two clients come to the same: connections of one could
// be used for the other. Either may be nil.
func (c *Client) Equal(other *Client) bool {
	if c == nil || other == nil || c == other {
		return c == other
	}
	a, b := &c.options, &other.options
	return c.store == other.store && a.ServerName == b.ServerName && a.Roots == b.Roots &&
		a.Certificate == b.Certificate && a.Insecure == b.Insecure && slices.Equal(a.Protocols, b.Protocols)
}

// Version grows when what connections are verified against, or the certificate
// that is shown on them, changes: those that were made before must not be used
// again.
func (c *Client) Version() uint64 { return c.current().version }

func (c *Client) current() *clientState {
	if state := c.state.Load(); state != nil && state.changes == c.store.changes.Load() {
		return state
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.state.Load()
	if changes := c.store.changes.Load(); state == nil || state.changes != changes {
		state = c.next(state, changes)
		c.state.Store(state)
	}
	return state
}

// next is the state after old. The caller holds mu.
func (c *Client) next(old *clientState, changes uint64) *clientState {
	state := &clientState{changes: changes}
	if c.options.Roots != nil {
		state.roots = c.options.Roots.Current()
	}
	if c.options.Certificate != nil {
		state.pair = c.options.Certificate.Current()
	}
	if old != nil && old.roots == state.roots && old.pair == state.pair {
		state.version, state.config = old.version, old.config
		return state
	}
	state.version = 1
	if old != nil {
		state.version = old.version + 1
	}
	state.config = c.config(state)
	return state
}

// maxSessions bounds the sessions kept for resumption, one for each endpoint
// and name.
const maxSessions = 128

func (c *Client) config(state *clientState) *tls.Config {
	config := &tls.Config{
		ServerName:         c.options.ServerName,
		InsecureSkipVerify: c.options.Insecure, //nolint:gosec // only where the configuration asks for it
		NextProtos:         c.options.Protocols,
		MinVersion:         tls.VersionTLS12,
		Time:               c.store.options.Now,
		ClientSessionCache: tls.NewLRUClientSessionCache(maxSessions),

		DynamicRecordSizingDisabled: true, // a record is a write, and full ones are fewer
	}
	if state.roots != nil {
		config.RootCAs = state.roots.Pool
	}
	if pair := state.pair; pair != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil }
	}
	return config
}

// errNoName is a client that could not tell whose certificate it verifies.
var errNoName = errors.New("tls: there is no server name to verify")

// Peer is whom a handshake is with.
type Peer struct {
	Host      string   // of the endpoint, without the port
	Endpoint  string   // tells the sessions of one from those of another
	Protocols []string // are offered instead of those of the options; nil: those
}

// Handshake makes a TLS connection of one to an endpoint, within ctx. version is
// that of what was verified. The connection is closed if there is an error.
func (c *Client) Handshake(ctx context.Context, conn net.Conn, peer Peer) (secure *tls.Conn, version uint64, err error) {
	state := c.current()
	config := state.config.Clone()
	if config.ServerName == "" {
		config.ServerName = peer.Host
	}
	if config.ServerName == "" && !config.InsecureSkipVerify {
		_ = conn.Close()
		return nil, 0, errNoName
	}
	if peer.Protocols != nil {
		config.NextProtos = peer.Protocols
	}
	config.ClientSessionCache = sessionsOf{cache: config.ClientSessionCache, endpoint: peer.Endpoint}
	secure = tls.Client(socket.NewUnder(conn), config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, 0, err
	}
	return secure, state.version, nil
}

// sessionsOf is the part of a cache that belongs to one endpoint: another one
// of the same name could not resume its sessions.
type sessionsOf struct {
	cache    tls.ClientSessionCache
	endpoint string
}

func (s sessionsOf) Get(key string) (*tls.ClientSessionState, bool) {
	return s.cache.Get(s.endpoint + " " + key)
}

func (s sessionsOf) Put(key string, state *tls.ClientSessionState) {
	s.cache.Put(s.endpoint+" "+key, state)
}
