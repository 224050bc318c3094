package proxy_test

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/dataplane/upstream/limit"
)

// A cluster whose limit follows latency takes as many requests that wait for an
// answer as the limit says, and the next is told at once. However a wait ends, its
// place is free again.
func TestAdaptiveLimit(t *testing.T) {
	b := newBackend(t)
	g := start(t, manifest(
		"clusters: [{name: main, endpoints: [{address: '"+b.address()+"'}], limits: {adaptiveConcurrency: {minRequests: 64}}}]",
		"routes: [{name: all, forward: {backends: [{cluster: main}], retry: {attempts: 0}}}]"))
	get, answer := "GET / HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
	full := func() (clients, ups []*peer) {
		t.Helper()
		for range limit.Start {
			c := g.dial()
			c.send(get)
			up := b.accept()
			up.head()
			clients, ups = append(clients, c), append(ups, up)
		}
		late := g.dial()
		late.send(get)
		head := late.head()
		if !strings.HasPrefix(head, "HTTP/1.1 503 ") || !strings.Contains(head, "connection_limit_reached") || !strings.Contains(head, "adaptiveConcurrency") {
			t.Fatalf("%s", head)
		}
		return clients, ups
	}
	clients, ups := full()
	for i, up := range ups {
		switch { // with so few answers that the limit learns nothing
		case i < 4: // it is answered
			up.send(answer)
			clients[i].head()
		case i < 8: // a long body: the wait is over with the head
			up.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nx")
			clients[i].head()
		case i%2 == 0: // the upstream breaks
			up.close()
			if head := clients[i].head(); !strings.HasPrefix(head, "HTTP/1.1 502 ") {
				t.Fatalf("%s", head)
			}
		default: // the client goes; the upstream sees it
			clients[i].close()
			if _, err := up.read(1); err == nil {
				t.Fatal("the upstream got more")
			}
		}
	}
	g.recent(limit.Start - 4 + 1) // those that have ended, and the late one
	full()
}

// Requests whose bodies stream wait for their clients as much as for the cluster,
// and are not counted.
func TestAdaptiveLimitIsNotForUploads(t *testing.T) {
	b := newBackend(t)
	g := start(t, manifest(
		"clusters: [{name: main, endpoints: [{address: '"+b.address()+"'}], limits: {adaptiveConcurrency: {}}}]",
		"routes: [{name: all, forward: {backends: [{cluster: main}]}}]"))
	for range limit.Start {
		c := g.dial()
		c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nx")
		b.accept().head()
	}
	c := g.dial()
	c.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	up := b.accept()
	up.head()
	up.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	if head := c.head(); !strings.HasPrefix(head, "HTTP/1.1 200 ") {
		t.Fatalf("%s", head)
	}
}
