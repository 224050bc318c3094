package proxy_test

import (
	"bytes"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
)

// answering is a backend that gives the same answer to every request of the same
// length and allocates nothing meanwhile.
func answering(t testing.TB, request int, answer string) string {
	t.Helper()
	b := newBackend(t)
	go func() {
		for {
			c, err := b.listener.Accept()
			if err != nil {
				return
			}
			go answerAll(c, request, []byte(answer))
		}
	}()
	return b.address()
}

func answerAll(c net.Conn, request int, answer []byte) {
	defer c.Close()
	buf := make([]byte, 64<<10)
	for have := 0; ; {
		n, err := c.Read(buf[have:])
		if err != nil {
			return
		}
		for have += n; have >= request; have -= request {
			copy(buf, buf[request:have])
			if _, err := c.Write(answer); err != nil {
				return
			}
		}
	}
}

// errand is one request that is sent again and again.
type errand struct {
	name    string
	request string
	answer  string // of the backend
	config  string // besides clusters
	cluster string // besides its endpoint
}

const plainRoute = "routes: [{name: all, forward: {backends: [{cluster: main}]}}]"

func errands() []errand {
	small := "HTTP/1.1 200 OK\r\nContent-Length: 100\r\nContent-Type: text/plain\r\n\r\n" + strings.Repeat("x", 100)
	get := "GET /path?q=1 HTTP/1.1\r\nHost: example.com\r\nUser-Agent: test\r\nAccept: */*\r\n\r\n"
	post := fmt.Sprintf("POST /path HTTP/1.1\r\nHost: example.com\r\nContent-Length: %d\r\n\r\n%s", 10<<10, strings.Repeat("x", 10<<10))
	chunked := "POST /path HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
	routes := "routes:\n" +
		"- {name: a, matches: [{path: {prefix: /api}}], forward: {backends: [{cluster: main}]}}\n" +
		"- {name: b, hosts: [example.com], matches: [{path: {prefix: /path}, methods: [GET]}], forward: {backends: [{cluster: main}], rewrite: {prefix: /p}}, requestHeaders: {set: [{name: x-a, value: b}]}, responseHeaders: {remove: [server]}}\n" +
		"- {name: all, forward: {backends: [{cluster: main}]}}\n"
	return []errand{
		{"GET", get, small, plainRoute, ""},
		{"GET 10 KiB", get, "HTTP/1.1 200 OK\r\nContent-Length: 10240\r\n\r\n" + strings.Repeat("x", 10240), plainRoute, ""},
		{"GET chunked", get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", plainRoute, ""},
		{"GET through routes", get, small, routes, ""},
		{"GET through a trusted proxy", strings.Replace(get, "Accept", "X-Forwarded-For: 198.51.100.7, 127.0.0.2\r\nAccept", 1), small, plainRoute, ""},
		{"GET traced at 1%", get, small, plainRoute + "\ntelemetry: {tracing: {sampleRatio: 0.01}}", ""},
		{"GET traced at 0", get, small, plainRoute + "\ntelemetry: {tracing: {sampleRatio: 0}}", ""},
		{"GET by an adaptive limit", get, small, plainRoute, ", limits: {adaptiveConcurrency: {}}"},
		{"POST 10 KiB", post, small, plainRoute, ""},
		{"POST chunked", chunked, small, plainRoute, ""},
	}
}

// caller sends an errand again and again.
type caller struct {
	conn    net.Conn
	request []byte
	answer  []byte
}

// newCaller runs a data plane for an errand, and finds out what goes upstream
// and what comes back.
func newCaller(t testing.TB, e *errand) *caller {
	t.Helper()
	probe := newBackend(t)
	config := func(address string) string {
		return trusting("clusters: [{name: main, endpoints: [{address: '"+address+"'}]"+e.cluster+"}]", e.config)
	}
	g := start(t, config(probe.address()))
	client := g.dial()
	client.send(e.request)
	up := probe.accept()
	head := up.head()
	forwarded := len(head) + len(e.request) - strings.Index(e.request, "\r\n\r\n") - 4
	if _, err := up.read(forwarded - len(head)); err != nil {
		t.Fatal(err)
	}
	up.send(e.answer)
	answer := client.head()
	body, err := client.read(len(e.answer) - strings.Index(e.answer, "\r\n\r\n") - 4)
	if err != nil {
		t.Fatal(err)
	}
	client.close()
	g.apply(config(answering(t, forwarded, e.answer)))
	return &caller{conn: g.dial().conn, request: []byte(e.request), answer: make([]byte, len(answer)+len(body))}
}

// trusting is a manifest whose listener trusts its peers.
func trusting(lines ...string) string {
	return strings.Replace(manifest(lines...), "127.0.0.1:1}", "127.0.0.1:1, trustedProxies: [127.0.0.0/8]}", 1)
}

// call sends the request and reads the answer, and allocates nothing.
func (c *caller) call(t testing.TB) {
	if _, err := c.conn.Write(c.request); err != nil {
		t.Fatal(err)
	}
	for have := 0; have < len(c.answer); {
		n, err := c.conn.Read(c.answer[have:])
		if err != nil {
			t.Fatal(err)
		}
		have += n
	}
	if !bytes.HasPrefix(c.answer, []byte("HTTP/1.1 200 OK\r\n")) {
		t.Fatalf("%q", c.answer)
	}
}

// wantAllocs is what may be allocated a request: nothing, but the runtime and
// the collector do something now and then.
const wantAllocs = 0.05

func TestNoAllocation(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates")
	}
	for _, e := range errands() {
		t.Run(e.name, func(t *testing.T) {
			caller := newCaller(t, &e)
			_ = caller.conn.SetDeadline(time.Time{})
			for range 200 {
				caller.call(t)
			}
			const calls = 5000
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range calls {
				caller.call(t)
			}
			runtime.ReadMemStats(&after)
			if each := float64(after.Mallocs-before.Mallocs) / calls; each > wantAllocs {
				t.Errorf("%.3f allocations a request", each)
			}
		})
	}
}

func BenchmarkExchange(b *testing.B) {
	for _, e := range errands() {
		b.Run(e.name, func(b *testing.B) {
			caller := newCaller(b, &e)
			_ = caller.conn.SetDeadline(time.Time{})
			b.ReportAllocs()
			for b.Loop() {
				caller.call(b)
			}
		})
	}
}
