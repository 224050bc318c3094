package proxy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/headgate/headgate/dataplane/upstream"
)

// openMany opens n streams and returns them and their connections to the backend, which
// has read their heads.
func openMany(f *framer, b *backend, n int) (ids []uint32, ups []*peer) {
	f.t.Helper()
	byPath := map[string]*peer{}
	for i := range n {
		ids = append(ids, f.open(true, "GET", fmt.Sprint("/", i)))
	}
	for range n {
		up := b.accept()
		byPath[strings.Fields(up.head())[1]] = up
	}
	for i := range n {
		ups = append(ups, byPath[fmt.Sprint("/", i)])
	}
	return ids, ups
}

// TestAwaitedWithoutGoroutines: streams whose answers are awaited over HTTP/1 cost none,
// once there are connections for them.
func TestAwaitedWithoutGoroutines(t *testing.T) {
	const streams = 80
	b := newBackend(t)
	g := start(t, single(b.address()))
	first := g.frames()
	ids, ups := openMany(first, b, streams)
	answerInTurn(ups)
	first.awaitAll(ids...)
	_ = first.conn.Close()
	f := g.frames()
	f.pings()
	ids = ids[:0]
	for range streams {
		ids = append(ids, f.open(true, "GET", "/"))
	}
	for _, up := range ups {
		up.head()
	}
	const others = 10 + streams/4 // those that there are without streams
	for end := time.Now().Add(patience); runtime.NumGoroutine() > others; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines for %d streams", runtime.NumGoroutine(), streams)
		}
	}
	answerInTurn(ups)
	for i, r := range f.awaitAll(ids...) {
		if r.status != "200" || len(r.body) != 2 {
			t.Errorf("stream %d: %+v", i, r)
		}
	}
}

// answerInTurn answers with the number of each connection.
func answerInTurn(ups []*peer) {
	for i, up := range ups {
		up.send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n%02d", i))
	}
}

// TestAwaitedAnswers come at once or in pieces, with whatever belongs to them, and are
// passed on as they are. The client asks between two pieces whether the data plane lives.
func TestAwaitedAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		method string
		pieces []string
		want   reply
	}{
		"whole":         {"GET", []string{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nall"}, reply{status: "200", body: []byte("all")}},
		"no body":       {"GET", []string{"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}, reply{status: "200"}},
		"204":           {"GET", []string{"HTTP/1.1 204 No Content\r\n\r\n"}, reply{status: "204"}},
		"304":           {"GET", []string{"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"}, reply{status: "304"}},
		"HEAD":          {"HEAD", []string{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"}, reply{status: "200"}},
		"pieces":        {"GET", []string{"HTTP/1.1 2", "00 OK\r\nContent-Le", "ngth: 3\r\n\r", "\n", "al", "l"}, reply{status: "200", body: []byte("all")}},
		"1xx before":    {"GET", []string{"HTTP/1.1 103 Early Hints\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nall"}, reply{interim: []string{"103"}, status: "200", body: []byte("all")}},
		"1xx with it":   {"GET", []string{"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"}, reply{interim: []string{"103"}, status: "204"}},
		"chunked":       {"GET", []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nall\r\n0\r\n\r\n"}, reply{status: "200", body: []byte("all")}},
		"chunks":        {"GET", []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "3\r\nal", "l\r\n", "0\r\n", "\r\n"}, reply{status: "200", body: []byte("all")}},
		"and close":     {"GET", []string{"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nall"}, reply{status: "200", body: []byte("all")}},
		"late bytes":    {"GET", []string{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nall+"}, reply{status: "200", body: []byte("all")}},
		"more than one": {"GET", []string{"HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n", strings.Repeat("x", 20000)}, reply{status: "200", body: []byte(strings.Repeat("x", 20000))}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			f := start(t, single(b.address())).frames()
			id := f.open(true, c.method, "/")
			up := b.accept()
			up.head()
			f.pings()
			for _, piece := range c.pieces[:len(c.pieces)-1] {
				up.send(piece)
				f.must(f.WritePing(false, [8]byte{}))
			}
			up.send(c.pieces[len(c.pieces)-1])
			r := f.await(id)
			if r.reset != nil || r.status != c.want.status || string(r.body) != string(c.want.body) || fmt.Sprint(r.interim) != fmt.Sprint(c.want.interim) {
				t.Errorf("%+v", r)
			}
			if name == "and close" || name == "late bytes" {
				up.gone()
			}
		})
	}
}

// TestAwaitedFails: what comes instead of an answer is found by who awaits it.
func TestAwaitedFails(t *testing.T) {
	for name, c := range map[string]struct {
		do             func(up *peer)
		status, reason string
	}{
		"an end":       {(*peer).close, "502", "connection_terminated"},
		"half an end":  {(*peer).closeWrite, "502", "connection_terminated"},
		"a reset":      {(*peer).reset, "502", "connection_terminated"},
		"half a head":  {func(up *peer) { up.send("HTTP/1.1 200 O"); up.close() }, "502", "connection_terminated"},
		"no HTTP":      {func(up *peer) { up.send("nonsense\r\n\r\n") }, "502", "http_protocol_error"},
		"half a body":  {func(up *peer) { up.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome"); up.close() }, "200", "http_response_incomplete"},
		"only silence": {func(*peer) {}, "504", "http_response_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			g := start(t, manifest(
				"clusters: [{name: main, endpoints: [{address: '"+b.address()+"'}]}]",
				"routes:",
				"- {name: silent, matches: [{path: {exact: /silent}}], forward: {timeouts: {firstByte: 0.3s}, backends: [{cluster: main}]}}",
				"- {name: all, forward: {backends: [{cluster: main}]}}", // where something comes, however late
			))
			f := g.frames()
			path := "/"
			if c.reason == "http_response_timeout" {
				path = "/silent"
			}
			id := f.open(true, "POST", path)
			up := b.accept()
			up.head()
			c.do(up)
			r := f.await(id)
			if r.status != c.status || (r.reset != nil) != (c.status == "200") {
				t.Errorf("%+v", r)
			}
			if got := g.recent(1)[0]; got.Reason != c.reason {
				t.Errorf("recorded as %d %s", got.Status, got.Reason)
			}
			f.serves(b)
		})
	}
}

// TestAwaitedAgain: a connection that was used before and ends instead of an answer is no
// failure of a request that can be sent again.
func TestAwaitedAgain(t *testing.T) {
	b := newBackend(t)
	f := start(t, single(b.address())).frames()
	id := f.open(true, "GET", "/")
	up := b.accept()
	up.head()
	up.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nall")
	f.await(id)
	id = f.open(true, "GET", "/again")
	up.head()
	up.close()
	up = b.accept()
	if head := up.head(); !strings.HasPrefix(head, "GET /again ") {
		t.Errorf("%q", head)
	}
	up.send("HTTP/1.1 204 No Content\r\n\r\n")
	if r := f.await(id); r.status != "204" {
		t.Errorf("%+v", r)
	}
}

// TestAwaitedByNobody: a client that goes takes the connections to the backend with it of
// all its streams.
func TestAwaitedByNobody(t *testing.T) {
	const streams = 20
	b := newBackend(t)
	g := start(t, single(b.address()))
	f := g.frames()
	_, ups := openMany(f, b, streams)
	_ = f.conn.Close()
	for _, up := range ups {
		up.gone()
	}
	for _, r := range g.recent(streams) {
		if r.Status != 499 || r.Reason != "client_gone" {
			t.Errorf("recorded as %d %s", r.Status, r.Reason)
		}
	}
}

// TestAwaitedMeanwhile: an answer that is awaited outlives what happens in between.
func TestAwaitedMeanwhile(t *testing.T) {
	for name, happen := range map[string]func(g *gate){
		"an apply": func(g *gate) {
			g.apply(manifest("routes: [{name: none, respond: {status: 404}}]"))
		},
		"the loops' end": func(g *gate) { g.engine.Close() },
		"a drain": func(g *gate) {
			drained := make(chan struct{})
			g.t.Cleanup(func() { <-drained })
			go func() {
				defer close(drained)
				if cut := g.drain(); cut > 0 {
					g.t.Errorf("%d connections were cut", cut)
				}
			}()
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			g := start(t, single(b.address()))
			f := g.frames()
			ids, ups := openMany(f, b, 3)
			happen(g)
			f.pings()
			for i, up := range ups {
				up.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nall")
				if r := f.await(ids[i]); r.status != "200" || string(r.body) != "all" {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}

// TestAwaitedElsewhere: a connection to an upstream that no loop can know takes the request
// all the same, and its answer is awaited.
func TestAwaitedElsewhere(t *testing.T) {
	b := newBackend(t)
	g := startWith(t, single(b.address()), upstream.Options{
		Shards: gateShards,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			return struct{ net.Conn }{c}, err
		},
	})
	f := g.frames()
	ids, ups := openMany(f, b, 5)
	answerInTurn(ups)
	for i, r := range f.awaitAll(ids...) {
		if r.status != "200" || string(r.body) != fmt.Sprintf("%02d", i) {
			t.Errorf("stream %d: %+v", i, r)
		}
	}
	for _, r := range g.recent(len(ids)) {
		if r.Status != 200 || r.Reason != "" {
			t.Errorf("recorded as %d %s", r.Status, r.Reason)
		}
	}
}

// TestAwaitedStorm has streams reset at any moment while their answers come, in pieces or
// not at all: each of the others is answered, or reset, and nothing is left.
func TestAwaitedStorm(t *testing.T) {
	const rounds, streams = 30, 10
	b := newBackend(t)
	g := start(t, manifest(
		"clusters: [{name: main, endpoints: [{address: '"+b.address()+"'}]}]",
		"routes: [{name: all, forward: {timeouts: {firstByte: 0.1s}, backends: [{cluster: main}]}}]",
	))
	var backends sync.WaitGroup
	backends.Go(func() {
		for {
			c, err := b.listener.Accept()
			if err != nil {
				return
			}
			backends.Go(func() { answerAnyhow(newPeer(t, "backend", c)) })
		}
	})
	t.Cleanup(backends.Wait)
	t.Cleanup(func() { _ = b.listener.Close() })
	f := g.frames()
	for range rounds {
		var waiting []uint32
		for range streams {
			id := f.open(true, "GET", "/")
			if rand.IntN(3) == 0 {
				f.must(f.WriteRSTStream(id, http2.ErrCodeCancel))
				continue
			}
			waiting = append(waiting, id)
		}
		f.awaitAll(waiting...)
	}
	g.recent(rounds * streams)
}

// answerAnyhow serves a connection of the storm until it ends.
func answerAnyhow(up *peer) {
	defer up.close()
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nall"
	for {
		var head []byte
		for !strings.HasSuffix(string(head), "\r\n\r\n") {
			c, err := up.read(1)
			if err != nil {
				return
			}
			head = append(head, c...)
		}
		cut := rand.IntN(len(answer))
		switch rand.IntN(8) {
		case 0:
			return
		case 1:
			_ = up.write([]byte(answer[:cut]))
			return
		case 2:
			_, _ = up.read(1) // until the data plane has had enough
			return
		case 3:
			_ = up.write([]byte(answer[:cut]))
			runtime.Gosched()
			_ = up.write([]byte(answer[cut:]))
		default:
			_ = up.write([]byte(answer))
		}
	}
}
