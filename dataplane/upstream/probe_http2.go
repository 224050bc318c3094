package upstream

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// askHTTP2 is askHTTP over a connection that speaks HTTP/2, which it closes: with
// prior knowledge, in clear text or over the TLS of the endpoint, of which
// net/http knows nothing.
func (r *Registry) askHTTP2(ctx context.Context, conn net.Conn, e *Endpoint, check *snapshot.HealthCheck) (ok bool, result string, err error) {
	defer func() { _ = conn.Close() }()
	transport := &http.Transport{
		DialContext:            func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		Protocols:              new(http.Protocols),
		MaxResponseHeaderBytes: maxProbeHead,
	}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.host(check)+check.Path, http.NoBody)
	if err != nil {
		return false, "", err
	}
	request.Header.Set("User-Agent", r.options.UserAgent)
	request.Header.Set("Accept", "*/*")
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return false, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	if _, err := io.CopyN(io.Discard, answer.Body, maxProbeBody); err != nil && err != io.EOF {
		return false, "", fmt.Errorf("status %d, then the body was cut short: %w", answer.StatusCode, err)
	}
	return expected(answer.StatusCode, check.ExpectedStatuses), fmt.Sprintf("status %d", answer.StatusCode), nil
}
