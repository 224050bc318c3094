// Package acme obtains certificates from authorities that speak ACME (RFC
// 8555): it has accounts with them, answers their challenges, and says when a
// certificate is to be asked for again. It owns the accounts and the table of
// challenges that wait for an authority's question.
//
// It opens no socket that listens: whoever accepts connections looks into the
// table. It must not know snapshots, or what a certificate is used for.
//
// The protocol is spoken by acmez, the client within certmagic. certmagic itself
// is not used: it binds ports 80 and 443 when they are free, keeps a goroutine
// for each account that cannot be stopped, and certifies one name at a time.
package acme

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/mholt/acmez/v3"
	protocol "github.com/mholt/acmez/v3/acme"
)

// DefaultDirectory is the authority that is asked if no other is named.
const DefaultDirectory = "https://acme-v02.api.letsencrypt.org/directory"

// Order is what is asked of an authority.
type Order struct {
	Directory string   // URL of its directory; default DefaultDirectory
	Email     string   // the account's contact; "": none
	Domains   []string // to certify, at least one
	Roots     *x509.CertPool
	// HTTP and ALPN say which challenges can be answered: HTTP-01 (RFC 8555
	// section 8.3) and TLS-ALPN-01 (RFC 8737).
	HTTP, ALPN bool
}

// ErrNoChallenge says that an authority could ask nothing that is answered.
var ErrNoChallenge = errors.New("no listener can answer a challenge: it takes one over TLS that shows this certificate, or one in clear text")

// Client obtains certificates. Its methods may be called from any goroutine.
type Client struct {
	storage    *Storage
	challenges *Challenges
	agent      string
	registers  chan struct{} // held while an account is looked up or made
}

// NewClient keeps what it has in storage and answers by way of challenges.
// version is that of the program, for the authorities.
func NewClient(storage *Storage, challenges *Challenges, version string) *Client {
	return &Client{storage: storage, challenges: challenges, agent: "headgate/" + version, registers: make(chan struct{}, 1)}
}

// attemptTime bounds one Obtain: an authority may take a minute or two to ask
// from all the places that it asks from.
const attemptTime = 5 * time.Minute

// Obtain asks for a certificate with a key of its own. The chain has the leaf
// first. Errors are for people.
func (c *Client) Obtain(ctx context.Context, o Order) (chain, key []byte, err error) {
	if !o.HTTP && !o.ALPN {
		return nil, nil, ErrNoChallenge
	}
	if o.Directory == "" {
		o.Directory = DefaultDirectory
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	client := c.connect(&o)
	defer client.HTTPClient.CloseIdleConnections()
	chain, key, err = c.order(ctx, client, &o)
	if hasType(err, protocol.ProblemTypeAccountDoesNotExist) {
		// The authority has forgotten us: begin again, with another key.
		if err = c.storage.Remove(accountName(&o)); err == nil {
			chain, key, err = c.order(ctx, client, &o)
		}
	}
	if err != nil {
		return nil, nil, explain(err)
	}
	return chain, key, nil
}

// connect makes a client of the protocol that can answer what we can.
func (c *Client) connect(o *Order) *acmez.Client {
	solvers := map[string]acmez.Solver{}
	if o.HTTP {
		solvers[protocol.ChallengeTypeHTTP01] = httpSolver{c.challenges}
	}
	if o.ALPN {
		solvers[protocol.ChallengeTypeTLSALPN01] = alpnSolver{c.challenges}
	}
	return &acmez.Client{
		Client: &protocol.Client{
			Directory: o.Directory, UserAgent: c.agent,
			HTTPClient: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
				Proxy:               http.ProxyFromEnvironment,
				TLSClientConfig:     &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12},
				TLSHandshakeTimeout: 10 * time.Second,
				ForceAttemptHTTP2:   true,
			}},
		},
		ChallengeSolvers: solvers,
	}
}

// order goes through one order.
func (c *Client) order(ctx context.Context, client *acmez.Client, o *Order) (chain, key []byte, err error) {
	account, err := c.account(ctx, client, o)
	if err != nil {
		return nil, nil, err
	}
	secret, key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	chains, err := client.ObtainCertificateForSANs(ctx, account, secret, o.Domains)
	if err != nil {
		return nil, nil, err
	}
	if len(chains) == 0 {
		return nil, nil, errors.New("the authority gave no certificate")
	}
	return chains[0].ChainPEM, key, nil
}

// newKey makes a private key, also in PEM.
func newKey() (key *ecdsa.PrivateKey, text []byte, err error) {
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func hasType(err error, kind string) bool {
	var problem protocol.Problem
	return errors.As(err, &problem) && problem.Type == kind
}

// maxReason bounds what is repeated of an authority's words, in bytes.
const maxReason = 300

// explain says what an authority found, without the steps that led there.
func explain(err error) error {
	var problem protocol.Problem
	if !errors.As(err, &problem) {
		return err
	}
	text := strings.TrimPrefix(problem.Type, protocol.ProblemTypeNamespace)
	if problem.Detail != "" {
		text += ": " + problem.Detail
	}
	if authorization, ok := problem.Resource.(protocol.Authorization); ok {
		text = authorization.IdentifierValue() + ": " + text
	}
	for _, sub := range problem.Subproblems {
		text += fmt.Sprintf("; %s: %s", sub.Identifier.Value, sub.Detail)
	}
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "..."
	}
	return errors.New(text)
}
