package proxy_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/headgate/headgate/dataplane/upstream"
)

// TestCancelledBeforeSent resets a stream while there is no connection for its
// request: nothing of it ever reaches the upstream.
func TestCancelledBeforeSent(t *testing.T) {
	for _, protocol := range []string{"HTTP/1", "HTTP/2"} {
		t.Run(protocol, func(t *testing.T) {
			b := newBackend(t)
			dials, goOn := make(chan struct{}, 8), make(chan struct{})
			g := startWith(t, singleOver(protocol, b.address()), upstream.Options{Shards: gateShards,
				Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
					dials <- struct{}{}
					<-goOn
					return new(net.Dialer).DialContext(ctx, network, address)
				}})
			f := g.frames()
			id := f.open(true, "GET", "/cancelled")
			<-dials
			f.must(f.WriteRSTStream(id, http2.ErrCodeCancel))
			f.pings()
			close(goOn)
			if r := g.recent(1)[0]; r.Status != 499 || r.Reason != "client_gone" {
				t.Errorf("recorded as %d %s", r.Status, r.Reason)
			}
			next := f.open(true, "GET", "/next")
			if path := firstPath(b, protocol); path != "/next" {
				t.Errorf("the upstream saw %s", path)
			}
			if r := f.await(next); r.status != "204" {
				t.Errorf("%+v", r)
			}
		})
	}
}

// firstPath answers the first request that comes over a new connection with 204,
// and returns what it was for.
func firstPath(b *backend, protocol string) string {
	if protocol == "HTTP/2" {
		up := b.frames()
		head := up.request()
		up.answer(head.StreamID, true, ":status", "204")
		return head.PseudoValue("path")
	}
	up := b.accept()
	path := strings.Fields(up.head())[1]
	up.send("HTTP/1.1 204 No Content\r\n\r\n")
	return path
}

// TestCancelledInQueue resets a stream whose request waits for its turn: the
// connection that comes free goes to the next.
func TestCancelledInQueue(t *testing.T) {
	b := newBackend(t)
	g := start(t, manifest(
		"clusters: [{name: main, endpoints: [{address: '"+b.address()+"'}], limits: {maxConnections: 1}, timeouts: {connect: 60s}}]",
		"routes: [{name: all, forward: {backends: [{cluster: main}]}}]",
	))
	f := g.frames()
	first := f.open(true, "GET", "/first")
	up := b.accept()
	up.head()
	f.must(f.WriteRSTStream(f.open(true, "GET", "/cancelled"), http2.ErrCodeCancel))
	f.pings()
	third := f.open(true, "GET", "/third")
	f.pings()
	up.send("HTTP/1.1 204 No Content\r\n\r\n")
	if r := f.await(first); r.status != "204" {
		t.Errorf("%+v", r)
	}
	up.sees(once("GET /third", "", ""))
	up.send("HTTP/1.1 204 No Content\r\n\r\n")
	if r := f.await(third); r.status != "204" {
		t.Errorf("%+v", r)
	}
}

// TestCancelledBackoff resets a stream between two attempts: there is no second.
func TestCancelledBackoff(t *testing.T) {
	b := newBackend(t)
	g := start(t, manifest(
		"clusters: [{name: main, endpoints: [{address: '"+b.address()+"'}]}]",
		"routes: [{name: all, forward: {timeouts: {request: 3600s}, retry: {on: [5xx], attempts: 3}, backends: [{cluster: main}]}}]",
	))
	f := g.frames()
	id := f.open(true, "GET", "/")
	up := b.accept()
	up.head()
	up.send("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 30\r\nContent-Length: 0\r\n\r\n")
	up.gone()
	f.must(f.WriteRSTStream(id, http2.ErrCodeCancel))
	if r := g.recent(1)[0]; r.Status != 499 || r.Attempts != 1 {
		t.Errorf("recorded as %s", recordLine(&r))
	}
	b.untouched()
}

// TestCancelledTunnel resets the stream of a websocket: the upstream hears.
func TestCancelledTunnel(t *testing.T) {
	t.Run("HTTP/1", func(t *testing.T) {
		b := newBackend(t)
		f := start(t, single(b.address())).frames()
		id := f.openWith(false, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":authority", "h", ":path", "/", "sec-websocket-version", "13")
		up := b.accept()
		_, rest, _ := strings.Cut(up.head(), "Sec-WebSocket-Key: ")
		key, _, _ := strings.Cut(rest, "\r\n")
		switches(up.conn, accept(key))
		f.head(id)
		f.must(f.WriteRSTStream(id, http2.ErrCodeCancel))
		up.gone()
	})
	t.Run("HTTP/2", func(t *testing.T) {
		b := newBackend(t)
		f := start(t, singleOver("HTTP/2", b.address())).frames()
		id := f.openWith(false, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":authority", "h", ":path", "/", "sec-websocket-version", "13")
		up := b.frames(connectAllowed)
		head := up.request()
		up.answer(head.StreamID, false, ":status", "200")
		f.head(id)
		f.must(f.WriteRSTStream(id, http2.ErrCodeCancel))
		if code := up.resets(head.StreamID); code != http2.ErrCodeCancel {
			t.Error(code)
		}
	})
}
