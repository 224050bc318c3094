package ctl

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// maxMessageBytes bounds each message of the control API, both ways.
const maxMessageBytes = 1 << 20

// maxAnswerBytes bounds an answer that holds a whole snapshot.
const maxAnswerBytes = 64 << 20

// dial makes a connection to where the flags say. The address is not tried
// before the first call.
func (c *CLI) dial() (*grpc.ClientConn, destination, error) {
	d, err := c.destination()
	if err != nil {
		return nil, d, err
	}
	options, err := c.dialOptions(d)
	if err != nil {
		return nil, d, err
	}
	conn, err := grpc.NewClient(grpcTarget(d.address), options...)
	if err != nil {
		return nil, d, fmt.Errorf("%s: %w", d.chosen, err)
	}
	return conn, d, nil
}

// withTimeout bounds a call by --timeout.
func (c *CLI) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.flags.timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.flags.timeout)
}

// grpcTarget is the address as grpc names it. A host name is resolved by the
// dialler of each attempt, so that a change of its address is seen.
func grpcTarget(address string) string {
	if strings.HasPrefix(address, "unix:") {
		return address
	}
	return "passthrough:///" + address
}

func (c *CLI) dialOptions(d destination) ([]grpc.DialOption, error) {
	transport, secure, err := transportCredentials(d)
	if err != nil {
		return nil, err
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithStatsHandler(c.traces.handler()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswerBytes), grpc.MaxCallSendMsgSize(maxMessageBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithUserAgent("headgate-ctl/" + buildVersion()),
	}
	if d.Token == "" {
		return options, nil
	}
	bearer, err := readToken(d, secure)
	if err != nil {
		return nil, err
	}
	return append(options, grpc.WithPerRPCCredentials(bearer)), nil
}

// transportCredentials is TLS if any of its files or --tls is given.
func transportCredentials(d destination) (creds credentials.TransportCredentials, secure bool, err error) {
	if !d.TLS && d.CA == "" && d.Cert == "" && d.Key == "" {
		return insecure.NewCredentials(), false, nil
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if d.CA != "" {
		if settings.RootCAs, err = readAuthorities(d.CA); err != nil {
			return nil, false, err
		}
	}
	if (d.Cert == "") != (d.Key == "") {
		return nil, false, errors.New("--cert and --key go together")
	}
	if d.Cert != "" {
		pair, err := tls.LoadX509KeyPair(d.Cert, d.Key)
		if err != nil {
			return nil, false, fmt.Errorf("client certificate: %w", err)
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(settings), true, nil
}

func readAuthorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--ca: %s holds no certificate in PEM form", file)
	}
	return pool, nil
}

// bearerToken presents a token with each call.
type bearerToken struct {
	token  string
	secure bool // it goes over TLS only
}

func (b bearerToken) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + b.token}, nil
}

func (b bearerToken) RequireTransportSecurity() bool { return b.secure }

// readToken reads the token and makes sure that it does not leave the machine
// in clear.
func readToken(d destination, secure bool) (bearerToken, error) {
	if !secure && !local(d.address) {
		return bearerToken{}, fmt.Errorf("a token is not sent in clear to %s; give --tls or --ca", d.address)
	}
	data, err := os.ReadFile(d.Token)
	if err != nil {
		return bearerToken{}, fmt.Errorf("--token-file: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return bearerToken{}, fmt.Errorf("--token-file: %s must hold one token and nothing else", d.Token)
	}
	return bearerToken{token: token, secure: secure}, nil
}
