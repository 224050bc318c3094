package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// serve is the address of a backend of net/http.
func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// visitor is a client of net/http.
type visitor struct {
	http.Client
	base string
}

func visit(t testing.TB, g *gate) *visitor {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &visitor{Client: http.Client{Transport: transport, Timeout: patience}, base: "http://" + g.listener.Addr().String()}
}

// post sends a body and returns that of the answer, which must be 200.
func (v *visitor) post(t testing.TB, path string, body io.Reader) []byte {
	t.Helper()
	resp, err := v.Post(v.base+path, "application/octet-stream", body)
	if err != nil {
		t.Fatal(err)
	}
	return whole(t, resp)
}

func whole(t testing.TB, resp *http.Response) []byte {
	t.Helper()
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v", resp.Status, err)
	}
	return data
}
