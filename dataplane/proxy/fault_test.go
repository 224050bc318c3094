package proxy_test

import (
	"testing"

	"golang.org/x/net/http2"
)

// A client that leaves while its request is held back is noticed, on either wire.
func TestDelayEndsWithTheClient(t *testing.T) {
	held := manifest("routes: [{name: all, respond: {status: 204}, fault: {delay: {duration: 3600s}}}]")
	t.Run("HTTP/1", func(t *testing.T) {
		g := start(t, held)
		client := g.dial()
		client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		client.close()
		if r := g.recent(1)[0]; r.Status != 499 || r.Injected != "delay" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("HTTP/2", func(t *testing.T) {
		g := start(t, held)
		f := g.frames()
		id := f.open(true, "GET", "/")
		f.must(f.WriteRSTStream(id, http2.ErrCodeCancel))
		if r := g.recent(1)[0]; r.Status != 499 || r.Injected != "delay" {
			t.Errorf("%+v", r)
		}
		f.pings()
	})
}

// A call of gRPC is aborted in its own words.
func TestAbortOfGRPC(t *testing.T) {
	g := start(t, manifest("routes: [{name: all, respond: {status: 204}, fault: {abort: {status: 503}}}]"))
	f := g.frames()
	r := f.await(f.open(true, "POST", "/a.B/C", "content-type", "application/grpc", "te", "trailers"))
	if r.status != "200" || r.get("grpc-status") != "14" || r.get("grpc-message") != "a fault that the route injects" {
		t.Errorf("%+v", r)
	}
}
