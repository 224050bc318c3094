package proxy_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// A chaos is clients of both protocols that share the connections to a backend which
// does with each request what its path says, and clients that leave meanwhile.
type chaos struct {
	t       *testing.T
	g       *gate
	cancels sync.Map // by path: what the backend calls to have the client give up, or go
	seen    sync.Map // paths that were tried before
	served  sync.Map // paths of which the client has all of the answer
}

// ownAnswer is an answer that cannot be taken for another path's.
func ownAnswer(path string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(path), path)
}

// manners are what a backend does. It reports whether the connection is to be used again.
var manners = []struct {
	name   string
	do     func(c *chaos, up *peer, path string) (again bool)
	status int // that the client must see; 0: whatever
}{
	{"whole", func(_ *chaos, up *peer, path string) bool { return up.write([]byte(ownAnswer(path))) == nil }, 200},
	{"pieces", func(_ *chaos, up *peer, path string) bool {
		answer := ownAnswer(path)
		cut := rand.IntN(len(answer))
		err := up.write([]byte(answer[:cut]))
		runtime.Gosched()
		return err == nil && up.write([]byte(answer[cut:])) == nil
	}, 200},
	{"chunks", func(_ *chaos, up *peer, path string) bool {
		return up.write(fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(path), path)) == nil
	}, 200},
	{"hints", func(_ *chaos, up *peer, path string) bool {
		return up.write([]byte("HTTP/1.1 103 Early Hints\r\n\r\n"+ownAnswer(path))) == nil
	}, 200},
	{"large", func(_ *chaos, up *peer, path string) bool {
		return up.write(fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s%s", len(path)+40000, path, strings.Repeat("x", 40000))) == nil
	}, 200},
	{"closing", func(_ *chaos, up *peer, path string) bool {
		_ = up.write([]byte(strings.Replace(ownAnswer(path), "\r\n", "\r\nConnection: close\r\n", 1)))
		return false
	}, 200},
	{"ending", func(_ *chaos, up *peer, path string) bool { // what its peer finds out as it uses it again
		_ = up.write([]byte(ownAnswer(path)))
		return false
	}, 200},
	{"surplus", func(_ *chaos, up *peer, path string) bool {
		_ = up.write([]byte(ownAnswer(path) + "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong"))
		return false
	}, 200},
	{"failing", func(c *chaos, up *peer, path string) bool {
		if _, again := c.seen.LoadOrStore(path, true); again {
			return up.write([]byte(ownAnswer(path))) == nil
		}
		return up.write([]byte("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")) == nil
	}, 0}, // 200, or 503 where the budget of retries is spent
	{"broken", func(*chaos, *peer, string) bool { return false }, 0},
	{"halved", func(_ *chaos, up *peer, path string) bool {
		answer := ownAnswer(path)
		_ = up.write([]byte(answer[:rand.IntN(len(answer)-1)]))
		return false
	}, 0},
	{"silent", func(_ *chaos, up *peer, _ string) bool {
		_, _ = up.read(1) // until the data plane has had enough
		return false
	}, 504},
	{"left before", func(c *chaos, up *peer, path string) bool {
		c.leave(path)
		return up.write([]byte(ownAnswer(path))) == nil
	}, 0},
	{"left behind", func(c *chaos, up *peer, path string) bool {
		err := up.write([]byte(ownAnswer(path)))
		c.leave(path)
		return err == nil
	}, 0},
	{"left between", func(c *chaos, up *peer, path string) bool {
		answer := ownAnswer(path)
		err := up.write([]byte(answer[:len(answer)-1]))
		c.leave(path)
		return err == nil && up.write([]byte(answer[len(answer)-1:])) == nil
	}, 0},
	{"left and silent", func(c *chaos, up *peer, path string) bool {
		c.leave(path)
		_, _ = up.read(1)
		return false
	}, 0},
}

// leave has the client of a path give up.
func (c *chaos) leave(path string) {
	if cancel, ok := c.cancels.Load(path); ok {
		cancel.(func())()
	}
}

// backend serves a connection of the data plane.
func (c *chaos) backend(up *peer) {
	defer up.close()
	for {
		path, err := requested(up)
		if err != nil {
			return
		}
		var manner int
		_, _ = fmt.Sscanf(path, "/%d/", &manner)
		if !manners[manner].do(c, up, path) {
			return
		}
	}
}

// requested reads the head of a request and returns its path.
func requested(up *peer) (string, error) {
	var head []byte
	for !strings.HasSuffix(string(head), "\r\n\r\n") {
		b, err := up.read(1)
		if err != nil {
			return "", err
		}
		head = append(head, b...)
	}
	return strings.Fields(string(head))[1], nil
}

// client sends requests one after the other.
func (c *chaos) client(v *visitor, name string, n int, lose func()) {
	for i := range n {
		manner := rand.IntN(len(manners))
		c.request(v, manner, fmt.Sprintf("/%d/%s/%d/", manner, name, i), lose)
	}
}

func (c *chaos) request(v *visitor, manner int, path string, lose func()) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if lose != nil && rand.IntN(8) == 0 {
		c.cancels.Store(path, lose)
	} else {
		c.cancels.Store(path, func() { cancel() })
	}
	defer c.cancels.Delete(path)
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, v.base+path, nil)
	resp, err := v.Do(r)
	if err != nil {
		return // it has left, or its connection has
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if resp.StatusCode == http.StatusOK && err == nil {
		c.served.Store(path, true)
	}
	switch want := manners[manner].status; {
	case want != 0 && resp.StatusCode != want && resp.StatusCode != http.StatusGatewayTimeout: // a slow machine
		c.t.Errorf("%s %s: %s: %s", manners[manner].name, path, resp.Status, body)
	case resp.StatusCode == http.StatusOK && err == nil && !strings.HasPrefix(string(body), path):
		c.t.Errorf("%s %s: the answer is %q", manners[manner].name, path, body)
	}
}

// losing is a client of HTTP/2 and what cuts its connections off.
func losing(t *testing.T, g *gate) (*visitor, func()) {
	v := visitOver(t, "HTTP/2", g)
	var mu sync.Mutex
	var conns []net.Conn
	v.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		mu.Lock()
		defer mu.Unlock()
		conns = append(conns, conn)
		return conn, err
	}
	return v, func() {
		mu.Lock()
		defer mu.Unlock()
		for _, conn := range conns {
			if conn != nil {
				_ = conn.Close()
			}
		}
		conns = nil
	}
}

// TestAwaitedChaos has everything happen to awaited answers at the same time, on
// connections that go from one client to the next: each answer belongs to its request,
// each exchange ends once, and nothing is left in the end.
func TestAwaitedChaos(t *testing.T) {
	const clients, each, requests = 4, 6, 30
	b := newBackend(t)
	config := manifest(
		"clusters: [{name: main, outlierDetection: {disabled: true}, endpoints: [{address: '"+b.address()+"'}]}]",
		"routes: [{name: all, forward: {timeouts: {firstByte: 0.3s}, retry: {on: [connect-failure, 5xx], attempts: 1, backoff: 0.001s}, backends: [{cluster: main}]}}]",
	)
	g := start(t, config)
	c := &chaos{t: t, g: g}
	var backends, all sync.WaitGroup
	backends.Go(func() {
		for {
			conn, err := b.listener.Accept()
			if err != nil {
				return
			}
			backends.Go(func() { c.backend(&peer{t: t, name: "backend", conn: conn.(*net.TCPConn)}) })
		}
	})
	t.Cleanup(backends.Wait)
	t.Cleanup(func() { _ = b.listener.Close() })
	for i := range clients {
		v, lose := losing(t, g)
		old := visit(t, g)
		for j := range each {
			all.Go(func() { c.client(v, fmt.Sprint(i, "-", j), requests, lose) })
		}
		all.Go(func() { c.client(old, fmt.Sprint(i, "-old"), requests, nil) })
	}
	all.Go(func() {
		for range 20 {
			g.apply(config)
			runtime.Gosched()
		}
	})
	all.Wait()
	g.settles()
	c.checkRecords()
	if n := g.active(); n != 0 {
		t.Errorf("%v requests are active", n)
	}
	for _, e := range g.registry.Status()[0].Endpoints {
		if e.ConnectionsActive != 0 {
			t.Errorf("%d connections are in use", e.ConnectionsActive)
		}
	}
}

// checkRecords holds that each exchange that was recorded is recorded once, and each that
// its client has the answer of as such.
func (c *chaos) checkRecords() {
	c.t.Helper()
	ended := map[string]int{}
	for _, r := range c.g.recorder.Recent(nil, 100000) {
		if _, answered := c.served.Load(r.Path); ended[r.Path] != 0 || answered && r.Status != http.StatusOK || r.Status == 0 {
			c.t.Errorf("recorded: %+v", r)
		}
		ended[r.Path] = r.Status
	}
	c.served.Range(func(path, _ any) bool {
		if ended[path.(string)] == 0 {
			c.t.Errorf("%s was answered and not recorded", path)
		}
		return true
	})
}

// active is how many requests are in flight, as it is exported.
func (g *gate) active() (n float64) {
	g.t.Helper()
	families, err := prometheus.Gatherers{g.recorder.Gatherer()}.Gather()
	if err != nil {
		g.t.Fatal(err)
	}
	for _, family := range families {
		if strings.HasPrefix(family.GetName(), "http_server_active_requests") {
			for _, m := range family.GetMetric() {
				n += m.GetGauge().GetValue()
			}
		}
	}
	return n
}
