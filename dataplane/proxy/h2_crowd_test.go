package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/headgate/headgate/dataplane/upstream"
)

// crowded is a backend of HTTP/2 that takes so many streams a connection.
func crowded(t *testing.T, streams int, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: streams}
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// TestUpstreamCrowded has more requests at once than an upstream takes streams on a
// connection: all are answered, over more connections where there may be more, and
// over those that there are where not, whichever core a request is of.
func TestUpstreamCrowded(t *testing.T) {
	for _, limit := range []string{"", "limits: {maxConnections: 1}, ", "limits: {maxConnectionsPerEndpoint: 2}, "} {
		for _, client := range []string{"HTTP/1", "HTTP/2"} {
			t.Run(limit+client, func(t *testing.T) {
				const streams, visitors, each = 4, 24, 20
				h := func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) }
				config := singleOver("HTTP/2", crowded(t, streams, h))
				g := start(t, strings.Replace(config, "http2: {}, ", "http2: {}, timeouts: {connect: 60s}, "+limit, 1))
				var all sync.WaitGroup
				for n := range visitors {
					v := visitOver(t, client, g)
					all.Go(func() { visits(t, v, n, each) })
				}
				all.Wait()
			})
		}
	}
}

// TestUpstreamsTakeTurns has two upstreams and one connection: that to the one ends
// when nobody uses it and requests wait for the other.
func TestUpstreamsTakeTurns(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) }
	config := strings.Replace(singleOver("HTTP/2", crowded(t, 4, h)), "[{address", "[{address: '"+crowded(t, 4, h)+"'}, {address", 1)
	g := start(t, strings.Replace(config, "http2: {}, ", "http2: {}, timeouts: {connect: 60s}, limits: {maxConnections: 1}, ", 1))
	var all sync.WaitGroup
	for n := range 8 {
		v := visitOver(t, "HTTP/2", g)
		all.Go(func() { visits(t, v, n, 20) })
	}
	all.Wait()
}

// visits asks a backend that says what it was asked for, again and again.
func visits(t *testing.T, v *visitor, n, times int) {
	for i := range times {
		path := fmt.Sprintf("/%d/%d", n, i)
		resp, err := v.Get(v.base + path)
		if err != nil {
			t.Error(err)
			return
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || string(body) != path {
			t.Errorf("%s: %d %q, %v", path, resp.StatusCode, body, err)
			return
		}
	}
}

// TestUpstreamFull has one connection, with room for one stream. Who waits for it is
// served by the end of the stream before, unless its client has left meanwhile; and
// who cannot even wait gets a 503 that says why.
func TestUpstreamFull(t *testing.T) {
	b := newBackend(t)
	g := start(t, strings.Replace(singleOver("HTTP/2", b.address()), "http2: {}, ",
		"http2: {}, timeouts: {connect: 60s}, limits: {maxConnections: 1, maxPendingRequests: 2}, ", 1))
	near, far := g.frames(), g.frames() // of two cores
	first := near.open(true, "GET", "/first")
	up := b.frames(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
	asked := up.request()
	up.pings() // the limit is known
	gone := far.open(true, "GET", "/gone")
	far.must(far.WriteRSTStream(gone, http2.ErrCodeCancel))
	if r := g.recent(1)[0]; r.Path != "/gone" || r.Status != 499 {
		t.Errorf("recorded as %s", recordLine(&r))
	}
	second, third := far.open(true, "GET", "/second"), near.open(true, "GET", "/third")
	for waiting, end := 0, time.Now().Add(patience); waiting < 2; runtime.Gosched() {
		e, _ := g.registry.Endpoint("main", b.address())
		if waiting = e.Waiting; time.Now().After(end) {
			t.Fatalf("%d requests wait", waiting)
		}
	}
	if r := near.await(near.open(true, "GET", "/refused")); r.status != "503" || !strings.Contains(r.get("proxy-status"), "connection_limit_reached") {
		t.Errorf("%+v", r)
	}
	paths := ""
	for range 3 {
		paths += asked.PseudoValue("path")
		up.answer(asked.StreamID, true, ":status", "204")
		if len(paths) < len("/first/second/third") {
			asked = up.request()
		}
	}
	if paths != "/first/second/third" && paths != "/first/third/second" {
		t.Errorf("the upstream saw %s", paths)
	}
	for _, r := range append(near.awaitAll(first, third), far.await(second)) {
		if r.status != "204" {
			t.Errorf("%+v", r)
		}
	}
	b.untouched()
}

// awaitAll is await for several streams, whichever is answered first.
func (f *framer) awaitAll(ids ...uint32) (list []*reply) {
	f.t.Helper()
	replies := map[uint32]*reply{}
	for _, id := range ids {
		replies[id] = &reply{}
		list = append(list, replies[id])
	}
	for left := len(ids); left > 0; {
		frame := f.next()
		r := replies[frame.Header().StreamID]
		if r == nil {
			continue
		}
		if f.take(r, frame); r.clean || r.reset != nil {
			left--
		}
	}
	return list
}

// TestUpstreamSaysFirst has a second request wait for a connection that is being opened.
// It has a stream when the server has said how many it takes, and here that is one: it
// goes over a connection of its own, and is not sent to be refused.
func TestUpstreamSaysFirst(t *testing.T) {
	b := newBackend(t)
	dials, goOn := make(chan struct{}, 8), make(chan struct{})
	g := startWith(t, singleOver("HTTP/2", b.address()), upstream.Options{Shards: gateShards,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			dials <- struct{}{}
			<-goOn
			return new(net.Dialer).DialContext(ctx, network, address)
		}})
	f := g.frames()
	ids := []uint32{f.open(true, "GET", "/"), f.open(true, "GET", "/")}
	<-dials
	f.pings()
	close(goOn)
	var ups []*framer
	for range ids {
		up := b.frames(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
		up.request()
		ups = append(ups, up)
	}
	for _, up := range ups {
		up.answer(1, true, ":status", "204")
	}
	for _, r := range f.awaitAll(ids...) {
		if r.status != "204" {
			t.Errorf("%+v", r)
		}
	}
	for _, r := range g.recent(2) {
		if r.Attempts != 1 {
			t.Errorf("recorded as %s", recordLine(&r))
		}
	}
}

// TestUpstreamGoesAway has a server take one of two requests and go away: that one is
// answered, the other goes over a new connection, whatever its method, and so do those
// that come.
func TestUpstreamGoesAway(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		b := newBackend(t)
		f := start(t, singleOver("HTTP/2", b.address())).frames()
		taken := f.open(true, method, "/taken")
		up := b.frames()
		first := up.request()
		up.pings() // our settings are known there, so that the next comes over this connection
		left := f.open(true, method, "/left")
		up.request()
		up.must(up.WriteGoAway(first.StreamID, http2.ErrCodeNo, nil))
		other := b.frames()
		for _, path := range []string{"/left", "/later"} {
			if path == "/later" {
				left = f.open(true, method, path)
			}
			asked := other.request()
			if got := asked.PseudoValue("path"); got != path {
				t.Errorf("%s: the new connection carries %s", method, got)
			}
			other.answer(asked.StreamID, true, ":status", "204")
			if r := f.await(left); r.status != "204" {
				t.Errorf("%s %s: %+v", method, path, r)
			}
		}
		up.answer(first.StreamID, true, ":status", "204")
		if r := f.await(taken); r.status != "204" {
			t.Errorf("%s: %+v", method, r)
		}
	}
}

// TestUpstreamKeepsGoingAway has connection after connection end before it has looked at
// a request: that is sent on, over the next, as often as is reasonable.
func TestUpstreamKeepsGoingAway(t *testing.T) {
	for _, hedge := range []string{"", ", hedge: {after: 3600s}"} {
		for _, method := range []string{"GET", "PUT"} {
			for _, test := range []struct {
				times  int
				status string
			}{{4, "204"}, {5, "502"}} {
				b := newBackend(t)
				once := strings.Replace(singleOver("HTTP/2", b.address()), "{cluster: main}]", "{cluster: main}], retry: {attempts: 0}"+hedge, 1)
				g := start(t, once)
				f := g.frames()
				id := f.open(true, method, "/")
				for range test.times {
					up := b.frames()
					up.request()
					up.must(up.WriteGoAway(0, http2.ErrCodeNo, nil))
				}
				if test.status == "204" {
					up := b.frames()
					up.answer(up.request().StreamID, true, ":status", "204")
				}
				if r := f.await(id); r.status != test.status {
					t.Errorf("%s%s after %d that went away: %+v", method, hedge, test.times, r)
				}
				b.untouched()
			}
		}
	}
}
