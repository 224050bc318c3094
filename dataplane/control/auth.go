package control

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// Auth says who may call. The zero value lets everyone call who can connect,
// which is enough for a loopback address and a unix socket only.
type Auth struct {
	// TLS serves over TLS. With ClientAuth RequireAndVerifyClientCert it
	// authenticates callers by itself.
	TLS *tls.Config
	// Token is what callers send as "authorization: Bearer TOKEN". It is
	// never logged.
	Token string
}

// ReadToken reads a bearer token from a file, without the white space around it.
func ReadToken(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	if len(token) < minToken {
		return "", fmt.Errorf("%s: a token has %d characters at least", file, minToken)
	}
	return token, nil
}

// minToken keeps a token from being guessed.
const minToken = 16

// ReadTLS makes a configuration from PEM files. With clientCAs, which may be
// empty, callers need a certificate from one of them.
func ReadTLS(certificate, key, clientCAs string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if clientCAs == "" {
		return c, nil
	}
	data, err := os.ReadFile(clientCAs)
	if err != nil {
		return nil, err
	}
	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !c.ClientCAs.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s: no certificates in it", clientCAs)
	}
	return c, nil
}

// authenticates reports whether a caller has to show something.
func (a Auth) authenticates() bool {
	return a.Token != "" || a.TLS != nil && a.TLS.ClientAuth == tls.RequireAndVerifyClientCert
}

var errNoToken = status.Error(codes.Unauthenticated, "a bearer token is needed: authorization: Bearer TOKEN")

// admit checks the token of a call before anything else of it is read. Hashes
// are compared, so that the time taken says nothing of the token, its length
// included.
func (a Auth) admit(ctx context.Context, call *tap.Info) (context.Context, error) {
	if a.Token == "" {
		return ctx, nil
	}
	values := call.Header.Get("authorization")
	if len(values) != 1 {
		return nil, errNoToken
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "bearer") {
		return nil, errNoToken
	}
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(a.Token))
	if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		return nil, status.Error(codes.Unauthenticated, "the bearer token is not the right one")
	}
	return ctx, nil
}

// writerOf is who calls, as far as that is known: the subject of the client
// certificate, or else the peer's address.
func writerOf(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	if t, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(t.State.PeerCertificates) > 0 {
		if name := t.State.PeerCertificates[0].Subject.CommonName; name != "" {
			return name
		}
	}
	if p.Addr == nil || p.Addr.String() == "" {
		return ""
	}
	return p.Addr.Network() + ":" + p.Addr.String()
}

// Listen binds the address of the control API: host:port, :port or unix:/path.
// Without authentication only a loopback address or a unix socket is bound; the
// socket is its owner's alone.
func Listen(addr string, auth Auth) (net.Listener, error) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return listenUnix(path)
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("control address %q: %w; expected host:port or unix:/path", addr, err)
	}
	if !loopback(host) && !auth.authenticates() {
		return nil, fmt.Errorf("control address %q: not a loopback address, and callers are not authenticated; "+
			"configure TLS with client certificates or a bearer token", addr)
	}
	return net.Listen("tcp", addr)
}

// loopback takes names as what they say only for localhost: what another one
// resolves to may change.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// listenUnix takes the place of a socket that nobody serves any more.
func listenUnix(path string) (net.Listener, error) {
	if path == "" {
		return nil, errors.New("control address unix: needs a path")
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		if c, err := net.Dial("unix", path); err == nil {
			_ = c.Close()
			return nil, fmt.Errorf("control address unix:%s: another process serves it", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}
