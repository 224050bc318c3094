package proxy_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// A stage is how far an exchange has come when its client leaves.
type stage struct {
	name   string
	method string
	status int // that is recorded
}

var stages = []stage{
	{"awaiting the answer", "GET", 499},
	{"behind an interim answer", "GET", 499},
	{"in the middle of the answer", "GET", 200},
	{"awaiting the answer to a body", "POST", 499},
	{"in the middle of the upload", "PUT", 499},
}

// leaver is a client in the middle of an exchange.
type leaver interface {
	begins(s stage)
	sees(s stage) // waits for what the upstream has said so far
	leaves()
}

// holder is an upstream in the middle of an exchange.
type holder interface {
	takes(s stage)
	left() // waits until it hears that nobody wants the answer
}

// TestAbandoned has a client leave at every stage, over every pair of protocols
// and in every way. The upstream hears of it: on HTTP/1 its connection is closed,
// on HTTP/2 the stream is cancelled.
func TestAbandoned(t *testing.T) {
	for _, w := range byteWires {
		for _, way := range waysToLeave[w.client] {
			for _, s := range stages {
				t.Run(fmt.Sprintf("%s to %s/%s/%s", w.client, w.upstream, s.name, way), func(t *testing.T) {
					t.Parallel()
					abandon(t, w, way, s)
				})
			}
		}
	}
}

var waysToLeave = map[string][]string{"HTTP/1": {"close", "reset"}, "HTTP/2": {"cancel", "close"}}

// abandon runs one exchange up to its stage, has the client leave, and returns
// how long the upstream took to hear of it.
func abandon(t testing.TB, w wire, way string, s stage) time.Duration {
	b := newBackend(t)
	g := start(t, singleOver(w.upstream, b.address()))
	client := leaver(&leaver1{peer: g.dial(), reset: way == "reset"})
	if w.client == "HTTP/2" {
		client = &leaver2{framer: g.frames(), close: way == "close"}
	}
	client.begins(s)
	up := holder(&holder2{backend: b})
	if w.upstream == "HTTP/1" {
		up = &holder1{backend: b}
	}
	up.takes(s)
	client.sees(s)
	at := time.Now()
	client.leaves()
	up.left()
	took := time.Since(at)
	if r := g.recent(1)[0]; r.Status != s.status || r.Reason != "client_gone" {
		t.Errorf("recorded as %d %s", r.Status, r.Reason)
	}
	return took
}

const begunBody = "some"

type leaver1 struct {
	*peer
	reset bool
}

func (c *leaver1) begins(s stage) {
	switch s.method {
	case "GET":
		c.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	case "POST":
		c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n" + begunBody)
	default:
		c.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n" + begunBody)
	}
}

func (c *leaver1) sees(s stage) {
	switch s.name {
	case "behind an interim answer":
		c.head()
	case "in the middle of the answer":
		c.head()
		c.peer.sees(begunBody)
	}
}

func (c *leaver1) leaves() {
	if c.reset {
		c.peer.reset()
	} else {
		c.close()
	}
}

type leaver2 struct {
	*framer
	close bool
	id    uint32
}

func (c *leaver2) begins(s stage) {
	switch s.method {
	case "GET":
		c.id = c.open(true, "GET", "/")
	case "POST":
		c.id = c.open(false, "POST", "/", "content-length", "4")
		c.must(c.WriteData(c.id, true, []byte(begunBody)))
	default:
		c.id = c.open(false, "PUT", "/", "content-length", "100")
		c.must(c.WriteData(c.id, false, []byte(begunBody)))
	}
}

func (c *leaver2) sees(s stage) {
	r := &reply{}
	for s.name == "behind an interim answer" && len(r.interim) == 0 || s.name == "in the middle of the answer" && len(r.body) == 0 {
		if frame := c.next(); frame.Header().StreamID == c.id {
			c.take(r, frame)
		}
	}
}

func (c *leaver2) leaves() {
	if c.close {
		_ = c.conn.Close()
	} else {
		c.must(c.WriteRSTStream(c.id, http2.ErrCodeCancel))
	}
}

type holder1 struct {
	*backend
	up *peer
}

func (h *holder1) takes(s stage) {
	h.up = h.accept()
	h.up.head()
	if s.method != "GET" {
		if got, err := h.up.read(len(begunBody)); got != begunBody {
			h.t.Fatalf("%q, %v", got, err)
		}
	}
	switch s.name {
	case "behind an interim answer":
		h.up.send("HTTP/1.1 103 Early Hints\r\n\r\n")
	case "in the middle of the answer":
		h.up.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + begunBody)
	}
}

func (h *holder1) left() { h.up.gone() }

type holder2 struct {
	*backend
	up *framer
	id uint32
}

func (h *holder2) takes(s stage) {
	h.up = h.frames()
	h.id = h.up.request().StreamID
	for got := 0; s.method != "GET" && got < len(begunBody); {
		if data, ok := h.up.next().(*http2.DataFrame); ok {
			got += len(data.Data())
		}
	}
	switch s.name {
	case "behind an interim answer":
		h.up.answer(h.id, false, ":status", "103")
	case "in the middle of the answer":
		h.up.answer(h.id, false, ":status", "200", "content-length", "100")
		h.up.must(h.up.WriteData(h.id, false, []byte(begunBody)))
	}
}

func (h *holder2) left() {
	if code := h.up.resets(h.id); code != http2.ErrCodeCancel {
		h.t.Errorf("cancelled with %v", code)
	}
}

// TestAbandonedSoon says how long it takes until the upstream hears, and holds it
// to 100 ms where the machine is quiet.
func TestAbandonedSoon(t *testing.T) {
	const rounds = 11
	for _, w := range byteWires {
		for _, way := range waysToLeave[w.client] {
			var took []time.Duration
			for range rounds {
				took = append(took, abandon(t, w, way, stages[0]))
			}
			slices.Sort(took)
			t.Logf("%s to %s by %s: %v, at most %v", w.client, w.upstream, way, took[rounds/2], took[rounds-1])
			if os.Getenv("HEADGATE_BARS") == "full" && took[rounds/2] > 100*time.Millisecond {
				t.Errorf("%s to %s by %s: the upstream heard after %v", w.client, w.upstream, way, took[rounds/2])
			}
		}
	}
}
