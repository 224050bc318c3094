package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// verify makes one request with another client than the load's and compares the
// whole answer, so that no proxy is measured while it does something else.
func (e endpoint) verify(ctx context.Context, s *scenario) error {
	transport := e.transport(s)
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	request, want, err := e.example(ctx, s)
	if err != nil {
		return err
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return err
	case answer.StatusCode != http.StatusOK:
		return fmt.Errorf("status %d", answer.StatusCode)
	case !bytes.Equal(body, want):
		return fmt.Errorf("another body than the backend's, of %d bytes", len(body))
	case s.streams > 0 && answer.ProtoMajor != 2:
		return errors.New("not HTTP/2")
	case s.call && answer.Trailer.Get("Grpc-Status") != "0":
		return fmt.Errorf("grpc-status %q", answer.Trailer.Get("Grpc-Status"))
	}
	return nil
}

// transport reaches the endpoint whatever the host of a request.
func (e endpoint) transport(s *scenario) *http.Transport {
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", e.port))
		},
		ForceAttemptHTTP2:  s.streams > 0,
		DisableCompression: true, // an answer that was compressed is another one
	}
	if e.tls != nil {
		t.TLSClientConfig = e.tls.config(s)
	}
	return t
}

// example is a request of the scenario and the body that answers it.
func (e endpoint) example(ctx context.Context, s *scenario) (*http.Request, []byte, error) {
	scheme, method, body := "http", http.MethodGet, []byte(nil)
	want := pattern(s.size())
	if e.tls != nil {
		scheme = "https"
	}
	if s.body > 0 {
		method, body = http.MethodPost, pattern(s.body)
	}
	if s.call {
		method, body, want = http.MethodPost, callMessage, callMessage
	}
	request, err := http.NewRequestWithContext(ctx, method, scheme+"://"+serverName+s.path, bytes.NewReader(body))
	if err == nil && s.call {
		request.Header.Set("Content-Type", "application/grpc")
		request.Header.Set("TE", "trailers")
	}
	return request, want, err
}
