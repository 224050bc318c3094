package proxy_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/quic-go/quic-go"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/dataplane/http3"
)

// TestQUICHeads is what goes upstream of a request, and what comes back.
func TestQUICHeads(t *testing.T) {
	b := newBackend(t)
	p := start(t, single(b.address())).quicFrames()
	r := p.open(true, "GET", "/a/../b?c=d", "cookie", "a=1", "cookie", "b=2", "x-a", "1", "te", "trailers", "priority", "u=1")
	up := b.accept()
	up.sees("GET /b?c=d HTTP/1.1\r\nHost: h\r\ncookie: a=1; b=2\r\nx-a: 1\r\npriority: u=1\r\n" +
		crlf(strings.Replace(forwarded, "http\n", "https\n", 1)) + "\r\nConnection: TE\r\nTE: trailers\r\n\r\n")
	up.send("HTTP/1.1 200 OK\r\nConnection: close, X-Gone\r\nX-Gone: 1\r\nX-Kept: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 2\r\n\r\n")
	got := r.reply()
	if got.status != "200" || got.body != "ok" || got.fields["x-kept"] != "1" || got.fields["date"] == "" || len(got.fields) != 3 || got.trailers["x-sum"] != "2" {
		t.Errorf("%+v", got)
	}
}

// TestQUICEarlyAnswer is case 9 on a stream of HTTP/3: the answer is there while the
// client still uploads, and the rest is refused without an error.
func TestQUICEarlyAnswer(t *testing.T) {
	b := newBackend(t)
	p := start(t, single(b.address())).quicFrames()
	r := p.open(false, "POST", "/upload", "content-length", fmt.Sprint(10<<20))
	r.data(strings.Repeat("x", 1024))
	up := b.accept()
	up.head()
	if _, err := up.read(1024); err != nil {
		t.Fatal(err)
	}
	up.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nno\n")
	if got := r.reply(); got.status != "413" || got.body != "no\n" || got.reset != 0 {
		t.Errorf("%+v", got)
	}
	if code := r.refused(); code != http3.NoError {
		t.Errorf("the rest is refused with %v", code)
	}
	up.gone()
	p.serves(b)
}

// TestQUICCancelled gives a request up while its answer is awaited, in the middle of
// its body, and while it uploads: the backend's connection is closed, and the
// client's goes on.
func TestQUICCancelled(t *testing.T) {
	stages := []struct {
		name    string
		prepare func(p *quicPeer, b *backend) (*quicRequest, *peer)
		status  int
	}{
		{"awaiting the answer", func(p *quicPeer, b *backend) (*quicRequest, *peer) {
			r := p.open(true, "GET", "/")
			up := b.accept()
			up.head()
			return r, up
		}, 499},
		{"in the middle of the answer", func(p *quicPeer, b *backend) (*quicRequest, *peer) {
			r := p.open(true, "GET", "/")
			up := b.accept()
			up.head()
			up.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome")
			r.head()
			return r, up
		}, 200},
		{"in the middle of the upload", func(p *quicPeer, b *backend) (*quicRequest, *peer) {
			r := p.open(false, "POST", "/", "content-length", "100")
			r.data("some")
			up := b.accept()
			up.head()
			if got, err := up.read(4); got != "some" {
				p.t.Fatal(got, err)
			}
			return r, up
		}, 499},
	}
	for _, stage := range stages {
		t.Run(stage.name, func(t *testing.T) {
			b := newBackend(t)
			g := start(t, single(b.address()))
			p := g.quicFrames()
			r, up := stage.prepare(p, b)
			r.cancel()
			up.gone()
			if r := g.recent(1)[0]; r.Status != stage.status || r.Reason != "client_gone" {
				t.Errorf("recorded as %d %s", r.Status, r.Reason)
			}
			p.serves(b)
		})
	}
}

// TestQUICCut is answers that break off: the stream is reset, and never looks
// complete.
func TestQUICCut(t *testing.T) {
	for name, answer := range map[string]string{
		"length":              "Content-Length: 100\r\n\r\nsome",
		"nothing of a length": "Content-Length: 100\r\n\r\n",
		"chunk":               "Transfer-Encoding: chunked\r\n\r\n64\r\nsome",
		"between chunks":      "Transfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n",
		"in trailers":         "Transfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n0\r\nX-T: 1\r\n",
		"bad chunk size":      "Transfer-Encoding: chunked\r\n\r\n4\r\nsome\r\nzz\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			g := start(t, single(b.address()))
			p := g.quicFrames()
			r := p.open(true, "GET", "/")
			up := b.accept()
			up.head()
			up.send("HTTP/1.1 200 OK\r\n" + answer)
			up.close()
			if got := r.reply(); got.reset != http3.InternalError || !strings.HasPrefix("some", got.body) {
				t.Errorf("%+v", got)
			}
			if r := g.recent(1)[0]; r.Status != 200 || r.Reason != "http_response_incomplete" && r.Reason != "http_protocol_error" {
				t.Errorf("recorded as %d %s", r.Status, r.Reason)
			}
			p.serves(b)
		})
	}
}

// TestQUICRetry is a small body, which is sent again where the first endpoint takes
// no connection.
func TestQUICRetry(t *testing.T) {
	b := newBackend(t)
	p := start(t, manifest(
		"clusters: [{name: main, endpoints: [{address: '"+refusing(t)+"'}, {address: '"+b.address()+"'}]}]",
		"routes: [{name: all, forward: {backends: [{cluster: main}]}}]",
	)).quicFrames()
	for range 2 { // whichever comes first
		r := p.open(false, "POST", "/")
		r.data("small")
		_ = r.Close()
		up := b.accept()
		up.sees("POST / HTTP/1.1\r\nHost: h\r\n" + crlf(strings.Replace(forwarded, "http\n", "https\n", 1)) + "\r\nContent-Length: 5\r\n\r\nsmall")
		up.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
		if got := r.reply(); got.status != "200" || got.body != "ok" {
			t.Errorf("%+v", got)
		}
	}
}

// TestQUICOwnAnswers is answers that the proxy makes, and bounds that it keeps.
func TestQUICOwnAnswers(t *testing.T) {
	g := start(t, manifest(
		"clusters: [{name: main, endpoints: [{address: '"+refusing(t)+"'}]}]",
		"routes:",
		"- {name: dead, matches: [{path: {prefix: /dead}}], forward: {backends: [{cluster: main}]}}",
		"- {name: own, matches: [{path: {prefix: /own}}], respond: {body: own}}",
	))
	p := g.quicFrames()
	for _, c := range []struct{ method, path, status, body string }{
		{"GET", "/own", "200", "own"},
		{"HEAD", "/own", "200", ""},
		{"GET", "/none", "404", "Not Found: no route matches\n"},
		{"GET", "/dead", "502", "Bad Gateway: the upstream refused the connection\n"},
		{"GET", "/" + strings.Repeat("p", 9000), "414", "URI Too Long: request target too long\n"},
	} {
		if got := p.open(true, c.method, c.path).reply(); got.status != c.status || got.body != c.body {
			t.Errorf("%s %.20s: %+v", c.method, c.path, got)
		}
	}
	if got := p.open(true, "GET", "/", "x-a", strings.Repeat("v", 70_000)).reply(); got.status != "431" {
		t.Errorf("%+v", got)
	}
	if got := p.openWith(true, ":method", "CONNECT", ":authority", "h:1").reply(); got.status != "405" {
		t.Errorf("%+v", got)
	}
	if got := p.open(true, "POST", "/dead", "content-type", "application/grpc").reply(); got.status != "200" || got.fields["grpc-status"] != "14" {
		t.Errorf("%+v", got)
	}
}

// TestQUICWebsocket is a websocket on a stream of HTTP/3 (RFC 9220).
func TestQUICWebsocket(t *testing.T) {
	g := start(t, single(handshaker(t, func(w io.Writer, r *http.Request) bool {
		if r.Method != http.MethodGet || r.URL.Path != "/chat" || r.Header.Get("Upgrade") != "websocket" {
			t.Errorf("the backend saw %s %s %v", r.Method, r.URL, r.Header)
		}
		return switches(w, accept(r.Header.Get("Sec-WebSocket-Key")))
	})))
	p := g.quicFrames()
	r := p.openWith(false, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":authority", "h", ":path", "/chat", "sec-websocket-version", "13")
	if status := r.head(); status != "200" {
		t.Fatal(status)
	}
	r.data("hello")
	r.data(", world")
	_ = r.Close()
	if got := r.reply(); got.body != "earlyhello, world" || got.reset != 0 {
		t.Errorf("%+v", got)
	}
}

// TestQUICWebsocketGone is a client that leaves its websocket: the backend hears.
func TestQUICWebsocketGone(t *testing.T) {
	b := newBackend(t)
	p := start(t, single(b.address())).quicFrames()
	r := p.openWith(false, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":authority", "h", ":path", "/chat", "sec-websocket-version", "13")
	up := b.accept()
	_, rest, _ := strings.Cut(up.head(), "Sec-WebSocket-Key: ")
	key, _, _ := strings.Cut(rest, "\r\n")
	switches(up.conn, accept(key))
	if status := r.head(); status != "200" {
		t.Fatal(status)
	}
	r.CancelRead(quic.StreamErrorCode(http3.RequestCancelled))
	up.gone()
}

// TestQUICCall is calls of gRPC to a server of grpc-go.
func TestQUICCall(t *testing.T) {
	c, _, g, _ := callThrough(t)
	p := g.quicFrames()
	call := func(method string, m proto.Message) *quicRequest {
		r := p.open(false, "POST", "/grpc.testing.TestService/"+method, "content-type", "application/grpc", "te", "trailers")
		body, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		r.data(string(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)))
		return r
	}
	r := call("UnaryCall", &testgrpc.SimpleRequest{Payload: &testgrpc.Payload{Body: []byte("hello")}})
	_ = r.Close()
	if got := r.reply(); got.status != "200" || !strings.HasSuffix(got.body, "hello") || got.trailers["grpc-status"] != "0" {
		t.Errorf("%+v", got)
	}
	r = call("UnaryCall", &testgrpc.SimpleRequest{ResponseStatus: &testgrpc.EchoStatus{Code: 5, Message: "none"}})
	_ = r.Close()
	if got := r.reply(); got.fields["grpc-status"] != "5" && got.trailers["grpc-status"] != "5" {
		t.Errorf("%+v", got)
	}
	r = call("FullDuplexCall", &testgrpc.StreamingOutputCallRequest{Payload: &testgrpc.Payload{Body: []byte("first")}})
	within(t, c.began)
	r.head()
	if _, payload, err := r.next(); err != nil || !strings.HasSuffix(string(payload), "first") {
		t.Errorf("%q, %v", payload, err)
	}
	r.cancel()
	if err := within(t, c.ended); err == nil {
		t.Error("the server heard nothing")
	}
}

// TestQUICDrain drains with a request under way: it ends well, and the connection
// after it.
func TestQUICDrain(t *testing.T) {
	b := newBackend(t)
	g := start(t, single(b.address()))
	idle, p := g.quicFrames(), g.quicFrames()
	r := p.open(true, "GET", "/")
	up := b.accept()
	up.head()
	cut := make(chan int)
	go func() { cut <- g.drain() }()
	<-idle.conn.Context().Done()
	up.send(plainAnswer)
	if got := r.reply(); got.status != "200" || got.body != "ok" || got.reset != 0 {
		t.Errorf("%+v", got)
	}
	<-p.conn.Context().Done()
	if n := <-cut; n != 0 {
		t.Errorf("%d connections were cut", n)
	}
}

// TestQUICSilentUpload is a client that stops sending.
func TestQUICSilentUpload(t *testing.T) {
	b := newBackend(t)
	config := strings.Replace(single(b.address()), "127.0.0.1:1}", "127.0.0.1:1, timeouts: {bodyIdle: 1s}}", 1)
	p := start(t, config).quicFrames()
	r := p.open(false, "POST", "/", "content-length", "100")
	r.data("some")
	up := b.accept()
	up.head()
	if got, err := up.read(4); got != "some" {
		t.Fatal(got, err)
	}
	if got := r.reply(); got.status != "408" || got.reset != 0 {
		t.Errorf("%+v", got)
	}
	up.gone()
	p.serves(b)
}
