package certificate

import (
	"crypto/tls"
	"encoding/hex"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ServerOptions are the server's side of TLS as a listener wants it.
type ServerOptions struct {
	// Name is the listener's: session tickets are good for it alone.
	Name string
	// Certificates are picked from by SNI; the first is the fallback. At least
	// one.
	Certificates []*Certificate
	// MinVersion is a version of crypto/tls; default TLS 1.2.
	MinVersion uint16
	// Clients is what certificates of clients must chain to; nil: they are not
	// asked for one.
	Clients *Bundle
	// Optional lets clients in that have none.
	Optional bool
	// Protocols are offered by ALPN, the preferred one first; default none.
	Protocols []string
}

// Server is the server's side of TLS.
type Server struct {
	store   *Store
	options ServerOptions
	state   atomic.Pointer[serverState]

	mu sync.Mutex // held while state is replaced
}

// serverState is a configuration and how long it holds.
type serverState struct {
	changes uint64
	until   time.Time
	config  *tls.Config
}

// NewServer makes the server's side of TLS with what is in this set.
func (s *Set) NewServer(o ServerOptions) *Server {
	o.Certificates, o.Protocols = slices.Clone(o.Certificates), slices.Clone(o.Protocols)
	return &Server{store: s.store, options: o}
}

// Config is what the next handshake goes by. It must not be changed; a later
// handshake may go by another one.
func (s *Server) Config() *tls.Config {
	now := s.store.options.Now()
	if state := s.state.Load(); state.holds(s.store, now) {
		return state.config
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.state.Load()
	if !state.holds(s.store, now) {
		state = s.build(now)
		s.state.Store(state)
	}
	return state.config
}

func (s *serverState) holds(store *Store, now time.Time) bool {
	return s != nil && s.changes == store.changes.Load() && now.Before(s.until)
}

func (s *Server) build(now time.Time) *serverState {
	state := &serverState{changes: s.store.changes.Load()} // before what changes is looked at
	list := make([]*tls.Certificate, len(s.options.Certificates))
	for i, c := range s.options.Certificates {
		list[i] = c.Current()
	}
	config := &tls.Config{
		GetCertificate: newChoice(list).pick,
		MinVersion:     max(s.options.MinVersion, tls.VersionTLS12),
		NextProtos:     s.options.Protocols,
		Time:           s.store.options.Now,

		DynamicRecordSizingDisabled: true, // a record is a write, and full ones are fewer
	}
	if slices.ContainsFunc(s.options.Certificates, func(c *Certificate) bool { return c.issued != nil }) {
		config.GetConfigForClient = s.challenged
	}
	purpose := s.authenticate(config)
	secrets, until := s.store.tickets.at(now)
	state.until = until
	keys, err := ticketKeys(secrets, purpose)
	if err != nil {
		config.SessionTicketsDisabled = true
	} else {
		config.SetSessionTicketKeys(keys)
	}
	state.config = config
	return state
}

// authenticate asks clients for certificates. It returns what tickets are for: a
// session that began under other rules about clients, or other authorities, is
// not resumed, so that nobody comes in by an old one.
func (s *Server) authenticate(config *tls.Config) (purpose string) {
	if s.options.Clients == nil {
		return "anyone\x00" + s.options.Name
	}
	roots, mode := s.options.Clients.Current(), "required"
	config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, roots.Pool
	if s.options.Optional {
		config.ClientAuth, mode = tls.VerifyClientCertIfGiven, "optional"
	}
	return mode + hex.EncodeToString(roots.Digest[:]) + "\x00" + s.options.Name
}
