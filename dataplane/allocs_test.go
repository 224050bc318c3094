package dataplane

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/headgate/headgate/dataplane/http2"
	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
)

// allocsAllowed is what a request may allocate in steady state, on all sides of this
// process together: nothing where HTTP/1 is spoken in clear on both sides, at most two
// where HTTP/2 is; but the runtime and the collector do something now and then. Over TLS,
// crypto/tls allocates in each read of a socket, at either end.
func allocsAllowed(client, upstream string, secure, secureUpstream bool) float64 {
	allowed := 0.1
	switch {
	case client == "http2":
		allowed = 0.5
	case upstream == "http2":
		allowed = 1.5
	}
	if secure {
		allowed += 3
	}
	if secureUpstream {
		allowed += 4
	}
	return allowed
}

// TestAllocations has requests go through a whole data plane, from and to either
// protocol, in clear and over TLS. The peers of the data plane here allocate nothing.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	k := newKeyring(t)
	k.issue("site", "site.example")
	pair := k.Issue([]string{"up.example"}).TLS(t)
	secure := func(protocol string) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{protocol}}
	}
	backends := []any{
		quietly(t, nil, answerHTTP1), quietly(t, secure("http/1.1"), answerHTTP1), quietly(t, nil, answerHTTP2), quietly(t, secure("h2"), answerHTTP2),
	}
	g := start(t, Options{Folder: k.folder}) // and ends before those do
	g.apply(fmt.Sprintf(`
listeners:
- {name: clear, address: "127.0.0.1:0"}
- {name: tls, address: "127.0.0.1:0", tls: {certificates: [site]}}
certificates: [{name: site, certificateFile: site.crt, privateKeyFile: site.key}]
caBundles: [{name: ca, file: ca.pem}]
clusters:
- {name: http1, endpoints: [{address: "%s"}]}
- {name: http1-tls, endpoints: [{address: "%s"}], http1: {}, tls: {caBundle: ca, serverName: up.example}}
- {name: http2, http2: {}, endpoints: [{address: "%s"}]}
- {name: http2-tls, http2: {}, endpoints: [{address: "%s"}], tls: {caBundle: ca, serverName: up.example}}
routes:
- {name: http1, matches: [{path: {exact: /http1}}], forward: {backends: [{cluster: http1}]}}
- {name: http1-tls, matches: [{path: {exact: /http1-tls}}], forward: {backends: [{cluster: http1-tls}]}}
- {name: http2, matches: [{path: {exact: /http2}}], forward: {backends: [{cluster: http2}]}}
- {name: http2-tls, matches: [{path: {exact: /http2-tls}}], forward: {backends: [{cluster: http2-tls}]}}
`, backends...))
	for _, listener := range []string{"clear", "tls"} {
		for _, client := range []string{"http1", "http2"} {
			for _, to := range []string{"http1", "http1-tls", "http2", "http2-tls"} {
				t.Run(fmt.Sprintf("%s over %s to %s", client, listener, to), func(t *testing.T) {
					conn := k.quietDial(g.at(listener), listener == "tls", client == "http2")
					call := callerHTTP1(t, conn, "/"+to)
					if client == "http2" {
						call = callerHTTP2(t, conn, "/"+to)
					}
					upstream, secure := strings.CutSuffix(to, "-tls")
					limit := allocsAllowed(client, upstream, listener == "tls", secure)
					if each := allocsOf(call); each > limit {
						t.Errorf("%.3f allocations a request, want at most %v", each, limit)
					} else {
						t.Logf("%.3f allocations a request", each)
					}
				})
			}
		}
	}
}

// allocsOf is how often one of many calls allocates.
func allocsOf(call func()) float64 {
	for range 300 {
		call()
	}
	const calls = 3000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		call()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / calls
}

// quietDial connects for site.example, over TLS where that is asked for.
func (k *keyring) quietDial(a net.Addr, secure, http2 bool) net.Conn {
	k.t.Helper()
	c, err := net.Dial(a.Network(), a.String())
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { _ = c.Close() })
	if !secure {
		return c
	}
	config := &tls.Config{RootCAs: k.Pool(), ServerName: "site.example"}
	if http2 {
		config.NextProtos = []string{"h2"}
	}
	over := tls.Client(c, config)
	if err := over.Handshake(); err != nil {
		k.t.Fatal(err)
	}
	return over
}

const quietAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nContent-Type: text/plain\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n0123456789"

// callerHTTP1 is a call that compares its answer with that of the first.
func callerHTTP1(t *testing.T, c net.Conn, path string) func() {
	request := []byte("GET " + path + " HTTP/1.1\r\nHost: site.example\r\n\r\n")
	in := make([]byte, len(quietAnswer))
	return func() {
		if _, err := c.Write(request); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, in); err != nil || string(in[len(in)-10:]) != "0123456789" {
			t.Fatalf("%q, %v", in, err)
		}
	}
}

// callerHTTP2 is a call over our own client.
func callerHTTP2(t *testing.T, c net.Conn, path string) func() {
	client := http2.NewClient(socket.New(c), http2.Options{})
	client.Start()
	t.Cleanup(func() {
		client.Close()
		<-client.Done()
	})
	head := http2.RequestHead{Method: []byte("GET"), Authority: []byte("site.example"), Target: []byte(path), Fields: new(message.Fields)}
	return func() {
		s, err := client.NewStream()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Finish()
		if err := s.WriteRequestHead(&head, true, 0); err != nil {
			t.Fatal(err)
		}
		answer, err := s.ReadHead(0)
		if err != nil || answer.Status != http.StatusOK {
			t.Fatalf("%+v, %v", answer, err)
		}
		for err == nil {
			s.Consume(len(s.Buffered()))
			err = s.Fill(0, 0)
		}
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
}

// quietly is the address of a backend that handles each connection, and allocates
// nothing for a request.
func quietly(t *testing.T, config *tls.Config, handle func(c net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if config != nil {
				c = tls.Server(c, config)
			}
			running.Go(func() { handle(c) })
		}
	})
	t.Cleanup(running.Wait)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// answerHTTP1 answers whatever ends as a head does.
func answerHTTP1(c net.Conn) {
	defer c.Close()
	answer, in, n := []byte(quietAnswer), make([]byte, 4096), 0
	for {
		m, err := c.Read(in[n:])
		if n += m; err != nil {
			return
		}
		if n < 4 || string(in[n-4:n]) != "\r\n\r\n" {
			continue
		}
		n = 0
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// answerHTTP2 answers by our own server.
func answerHTTP2(c net.Conn) {
	if over, ok := c.(*tls.Conn); ok && over.Handshake() != nil {
		_ = c.Close()
		return
	}
	fields, body := new(message.Fields), []byte("0123456789")
	fields.Add([]byte("content-length"), []byte("10"))
	fields.Add([]byte("content-type"), []byte("text/plain"))
	fields.Add([]byte("date"), []byte("Sun, 06 Nov 1994 08:49:37 GMT"))
	_ = http2.NewServer(socket.New(c), http2.Options{}, func(s *http2.Stream) {
		_ = s.WriteResponseHead(200, fields, false, 0)
		_, _ = s.WriteData(body, true, 0)
	}).Serve()
}
