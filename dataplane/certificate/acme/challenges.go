package acme

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mholt/acmez/v3"
	protocol "github.com/mholt/acmez/v3/acme"
)

// Protocol is what is agreed on by ALPN when an authority asks by TLS-ALPN-01
// (RFC 8737 section 6.2).
const Protocol = acmez.ACMETLS1Protocol

// PathPrefix is where an authority asks by HTTP-01 (RFC 8555 section 8.3). A
// token follows.
const PathPrefix = "/.well-known/acme-challenge/"

// maxChallenges bounds the challenges that wait at a time. Certificates have at
// most a hundred names, and few are asked for at a time.
const maxChallenges = 2000

// Challenges are the questions that authorities may ask now, with the answers.
// The zero value is ready.
type Challenges struct {
	waiting atomic.Int64 // entries of http: no request looks further while it is 0

	mu sync.RWMutex
	// guarded by mu
	http map[string]string           // key authorizations by token
	alpn map[string]*tls.Certificate // by domain, in lower case
}

// Answer is the answer to a request for a path by HTTP-01, or nil if no
// authority was told to ask that.
func (c *Challenges) Answer(path []byte) []byte {
	if c.waiting.Load() == 0 || !bytes.HasPrefix(path, []byte(PathPrefix)) {
		return nil
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	answer, ok := c.http[string(path[len(PathPrefix):])]
	if !ok {
		return nil
	}
	return []byte(answer)
}

// Certificate is the answer to a handshake by TLS-ALPN-01, or nil if it is none
// or no authority was told to ask that.
func (c *Challenges) Certificate(hello *tls.ClientHelloInfo) *tls.Certificate {
	if len(hello.SupportedProtos) != 1 || hello.SupportedProtos[0] != Protocol {
		return nil
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.alpn[strings.ToLower(hello.ServerName)]
}

var errChallenges = errors.New("too many challenges wait for an authority")

// httpSolver lets an authority ask by HTTP-01.
type httpSolver struct{ table *Challenges }

func (s httpSolver) Present(_ context.Context, ch protocol.Challenge) error {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	if s.table.http == nil {
		s.table.http = map[string]string{}
	}
	if len(s.table.http) >= maxChallenges {
		return errChallenges
	}
	s.table.http[ch.Token] = ch.KeyAuthorization
	s.table.waiting.Store(int64(len(s.table.http)))
	return nil
}

func (s httpSolver) CleanUp(_ context.Context, ch protocol.Challenge) error {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	delete(s.table.http, ch.Token)
	s.table.waiting.Store(int64(len(s.table.http)))
	return nil
}

// alpnSolver lets an authority ask by TLS-ALPN-01.
type alpnSolver struct{ table *Challenges }

func (s alpnSolver) Present(_ context.Context, ch protocol.Challenge) error {
	answer, err := acmez.TLSALPN01ChallengeCert(ch)
	if err != nil {
		return err
	}
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	if s.table.alpn == nil {
		s.table.alpn = map[string]*tls.Certificate{}
	}
	if len(s.table.alpn) >= maxChallenges {
		return errChallenges
	}
	s.table.alpn[strings.ToLower(ch.Identifier.Value)] = answer
	return nil
}

func (s alpnSolver) CleanUp(_ context.Context, ch protocol.Challenge) error {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	delete(s.table.alpn, strings.ToLower(ch.Identifier.Value))
	return nil
}
