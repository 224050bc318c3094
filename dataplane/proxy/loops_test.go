package proxy_test

import (
	"strconv"
	"strings"
	"testing"
)

// TestPipelinedBehindBody is a request that has come in one piece with the end of the
// body before it, which fills the buffer: no event tells of it any more.
func TestPipelinedBehindBody(t *testing.T) {
	const size = 16 << 10 // of the buffer
	b := newBackend(t)
	c := start(t, single(b.address())).dial()
	c.send("POST /first HTTP/1.1\r\nHost: h\r\nContent-Length: " + strconv.Itoa(size) + "\r\n\r\n")
	up := b.accept()
	up.head()
	body := strings.Repeat("x", size)
	c.send(body + "GET /second HTTP/1.1\r\nHost: h\r\n\r\n")
	up.sees(body)
	up.send("HTTP/1.1 204 No Content\r\n\r\n")
	c.head()
	if head := up.head(); !strings.HasPrefix(head, "GET /second ") {
		t.Errorf("%q", head)
	}
	up.send("HTTP/1.1 204 No Content\r\n\r\n")
	c.head()
}

// TestLoopBesideStreams is a client whose answer is to come over HTTP/2, on a connection
// that is there already: those of its loop are served meanwhile.
func TestLoopBesideStreams(t *testing.T) {
	b := newBackend(t)
	g := start(t, manifest(
		"clusters: [{name: main, http2: {}, endpoints: [{address: '"+b.address()+"'}]}]",
		"routes:",
		"- {name: own, matches: [{path: {exact: /own}}], respond: {status: 204}}",
		"- {name: all, forward: {backends: [{cluster: main}]}}",
	))
	waits := g.dial()
	waits.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	up := b.frames()
	up.answer(up.request().StreamID, true, ":status", "204")
	waits.head()
	waits.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	id := up.request().StreamID
	for range gateShards {
		c := g.dial()
		c.send("GET /own HTTP/1.1\r\nHost: h\r\n\r\n")
		c.head()
	}
	up.answer(id, true, ":status", "204")
	waits.head()
}
