package upstream

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// network is a network in memory, for tests whose time is made: what each
// address answers to a probe can be changed. "" refuses the connection, "hang"
// accepts and never answers.
type network struct {
	mu      sync.Mutex
	answers map[string]string
	asked   map[string]int
	active  int // connections
	most    int // connections at one time
	last    string
	began   time.Time
	times   map[string][]time.Duration // when each address was asked
}

func newNetwork() *network {
	return &network{answers: map[string]string{}, asked: map[string]int{}, times: map[string][]time.Duration{}, began: time.Now()}
}

const (
	okay   = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	broken = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"
)

func (n *network) set(address, answer string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answers[address] = answer
}

func (n *network) count(address string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked[address]
}

func (n *network) dial(_ context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked[address]++
	n.times[address] = append(n.times[address], time.Since(n.began))
	answer := n.answers[address]
	if answer == "" {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	near, far := net.Pipe()
	n.active++
	n.most = max(n.most, n.active)
	go n.serve(far, answer)
	return &counted{Conn: near, network: n}, nil
}

// counted is a connection that is counted out when it is closed.
type counted struct {
	net.Conn
	network *network
	once    sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() {
		c.network.mu.Lock()
		defer c.network.mu.Unlock()
		c.network.active--
	})
	return c.Conn.Close()
}

// serve answers one request and waits until the other side closes.
func (n *network) serve(far net.Conn, answer string) {
	defer far.Close()
	in := bufio.NewReader(far)
	request, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	n.mu.Lock()
	n.last = request.Method + " " + request.URL.String() + " " + request.Host + " " + request.UserAgent()
	n.mu.Unlock()
	if answer != "hang" {
		_, _ = io.Copy(far, strings.NewReader(answer))
		if strings.HasSuffix(answer, "cut") {
			return
		}
	}
	_, _ = io.Copy(io.Discard, in)
}

// all drains the events that are there.
func (v events) all() (list []Event) {
	for {
		select {
		case e := <-v:
			list = append(list, e)
		default:
			return list
		}
	}
}

// told is the events as lines: endpoint, what, why.
func (v events) told() (lines []string) {
	for _, e := range v.all() {
		lines = append(lines, e.Endpoint+" "+e.Kind.String()+" "+e.From.String()+"->"+e.To.String()+": "+e.Cause)
	}
	return lines
}

// must fails the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
