package dataplane

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"buf.build/go/protoyaml"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/control"
	"github.com/headgate/headgate/dataplane/upstream"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		os.Exit(runVictims(dir))
	}
	goleak.VerifyTestMain(m)
}

// patience bounds every wait for an event; only what hangs takes as long.
const patience = 60 * time.Second

// gate is a data plane in this process.
type gate struct {
	*Server
	t     testing.TB
	ended chan error
	drain context.CancelFunc // as the first TERM
	hurry context.CancelFunc // as the second
}

// start runs a data plane until the test ends.
func start(t testing.TB, o Options) *gate {
	t.Helper()
	s, err := New(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{Server: s, t: t, ended: make(chan error, 1)}
	var ctx, hurry context.Context
	ctx, g.drain = context.WithCancel(context.Background())
	hurry, g.hurry = context.WithCancel(context.Background())
	go func() {
		defer close(g.ended)
		g.ended <- s.Run(ctx, hurry)
	}()
	t.Cleanup(g.stop)
	return g
}

// stop ends the data plane at once and waits for it; a second call does nothing.
func (g *gate) stop() {
	g.hurry()
	g.finish()
}

// finish drains and waits.
func (g *gate) finish() {
	g.drain()
	if err, ok := <-g.ended; ok && err != nil {
		g.t.Errorf("Run: %v", err)
	}
}

// parse reads a manifest.
func parse(t testing.TB, manifest string) *configv1.Snapshot {
	t.Helper()
	config := new(configv1.Snapshot)
	if err := protoyaml.Unmarshal([]byte(manifest), config); err != nil {
		t.Fatalf("%v\n%s", err, manifest)
	}
	return config
}

func seconds(n int) *durationpb.Duration { return durationpb.New(time.Duration(n) * time.Second) }

func cluster(name string, addresses ...string) *configv1.Cluster {
	c := &configv1.Cluster{Name: name}
	for _, a := range addresses {
		c.Endpoints = append(c.Endpoints, &configv1.Endpoint{Address: a})
	}
	return c
}

// forward is a route of a path to clusters.
func forward(name, path string, clusters ...string) *configv1.Route {
	f := &configv1.Forward{}
	for _, c := range clusters {
		f.Backends = append(f.Backends, &configv1.Backend{Cluster: c})
	}
	return &configv1.Route{
		Name:    name,
		Matches: []*configv1.Match{{Path: &configv1.PathMatch{Kind: &configv1.PathMatch_Exact{Exact: path}}}},
		Action:  &configv1.Route_Forward{Forward: f},
	}
}

// apply makes a manifest active.
func (g *gate) apply(manifest string) *control.Result {
	g.t.Helper()
	return g.applyMessage(parse(g.t, manifest))
}

func (g *gate) applyMessage(m *configv1.Snapshot) *control.Result {
	g.t.Helper()
	result, err := g.Apply(context.Background(), control.Request{Snapshot: m, AllowShrink: true})
	if err != nil {
		g.t.Fatal(err)
	}
	return result
}

// refused applies a manifest that must be refused.
func (g *gate) refused(r control.Request, want control.Reason) *control.Refusal {
	g.t.Helper()
	before, _ := g.applier.Active()
	_, err := g.Apply(context.Background(), r)
	var refusal *control.Refusal
	if !errors.As(err, &refusal) || refusal.Reason != want {
		g.t.Fatalf("refused with %v, not %s", err, want)
	}
	if now, _ := g.applier.Active(); now != before {
		g.t.Errorf("generation %d is active after a refusal, not %d", now.GetGeneration(), before.GetGeneration())
	}
	return refusal
}

// at is where the listener of that name is bound.
func (g *gate) at(name string) net.Addr {
	g.t.Helper()
	g.sockets.mu.Lock()
	defer g.sockets.mu.Unlock()
	for _, b := range g.sockets.bound {
		if b.config.Name == name {
			return b.Addr()
		}
	}
	g.t.Fatalf("no listener %q is bound", name)
	return nil
}

// endpoint is the status of an endpoint.
func (g *gate) endpoint(cluster, address string) upstream.EndpointStatus {
	g.t.Helper()
	for _, c := range g.registry.Status() {
		for _, e := range c.Endpoints {
			if c.Name == cluster && e.Address == address {
				return e
			}
		}
	}
	g.t.Fatalf("no endpoint %s in %s", address, cluster)
	return upstream.EndpointStatus{}
}

// await reads events until one is wanted.
func await(t testing.TB, r *control.EventReader, wanted func(*controlv1.Event) bool) *controlv1.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		events, err := r.Next(ctx, 1)
		if err != nil {
			t.Fatalf("waiting for an event: %v", err)
		}
		if len(events) == 1 && wanted(events[0]) {
			return events[0]
		}
	}
}

// until waits for what no event tells of.
func until(t testing.TB, what string, reached func() bool) {
	t.Helper()
	end := time.After(patience)
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for !reached() {
		select {
		case <-look.C:
		case <-end:
			t.Fatalf("never reached: %s", what)
		}
	}
}

// client is one keep-alive connection to the data plane. It never repeats a
// request by itself.
type client struct {
	net.Conn
	in *bufio.Reader
}

func dial(t testing.TB, a net.Addr) *client {
	t.Helper()
	c, err := connect(a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func connect(a net.Addr) (*client, error) {
	c, err := net.Dial(a.Network(), a.String())
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(10 * patience))
	return &client{Conn: c, in: bufio.NewReader(c)}, nil
}

// answer is a response that was read whole.
type answer struct {
	status int
	header http.Header
	body   string
	last   bool // the connection is closed behind it
}

func (c *client) get(path string) (answer, error) {
	if err := c.send("GET " + path + " HTTP/1.1\r\nHost: gate.example\r\n\r\n"); err != nil {
		return answer{}, err
	}
	return c.receive()
}

func (c *client) send(text string) error {
	_, err := io.WriteString(c, text)
	return err
}

func (c *client) receive() (answer, error) {
	r, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return answer{}, err
	}
	body, err := io.ReadAll(r.Body)
	return answer{status: r.StatusCode, header: r.Header, body: string(body), last: r.Close}, err
}

// mustGet is get where nothing may fail.
func (c *client) mustGet(t testing.TB, path string) answer {
	t.Helper()
	a, err := c.get(path)
	if err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	return a
}

// websocket upgrades the connection. What is sent comes back.
func (c *client) websocket(path string) error {
	if err := c.send("GET " + path + " HTTP/1.1\r\nHost: gate.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"); err != nil {
		return err
	}
	r, err := http.ReadResponse(c.in, nil)
	if err == nil && r.StatusCode != http.StatusSwitchingProtocols {
		err = fmt.Errorf("status %d, not 101", r.StatusCode)
	}
	return err
}

// echo sends bytes through a websocket and compares what comes back.
func (c *client) echo(sent []byte) error {
	if _, err := c.Write(sent); err != nil {
		return err
	}
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(c.in, got); err != nil {
		return err
	}
	if !bytes.Equal(got, sent) {
		return fmt.Errorf("%q came back for %q", got, sent)
	}
	return nil
}

// backend is a server behind the data plane. It answers with its name in X-From
// and the request's X-Marker, and echoes what is upgraded.
type backend struct {
	net.Listener
	name     string
	serving  sync.WaitGroup
	status   atomic.Int64 // of answers
	probe    atomic.Int64 // status of answers to /healthz
	probes   atomic.Int64
	requests atomic.Int64
	hold     chan struct{} // /hold waits for it
	held     chan struct{} // told of each /hold

	mu    sync.Mutex
	conns map[net.Conn]struct{} // nil: closed
}

func serve(t testing.TB, name string) *backend {
	t.Helper()
	return serveAt(t, name, "127.0.0.1:0")
}

func serveAt(t testing.TB, name, address string) *backend {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	b := &backend{
		Listener: l, name: name, conns: map[net.Conn]struct{}{},
		hold: make(chan struct{}), held: make(chan struct{}, 100),
	}
	b.status.Store(http.StatusOK)
	b.probe.Store(http.StatusOK)
	b.serving.Go(b.accept)
	t.Cleanup(b.end)
	return b
}

func (b *backend) address() string { return b.Addr().String() }

// connections is how many are open.
func (b *backend) connections() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.conns)
}

// end closes all connections and waits.
func (b *backend) end() {
	_ = b.Close()
	b.mu.Lock()
	for c := range b.conns {
		_ = c.Close()
	}
	b.conns = nil
	b.mu.Unlock()
	b.serving.Wait()
}

func (b *backend) accept() {
	for {
		c, err := b.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		if b.conns == nil {
			_ = c.Close()
		} else {
			b.conns[c] = struct{}{}
			b.serving.Go(func() { b.talk(c) })
		}
		b.mu.Unlock()
	}
}

func (b *backend) talk(c net.Conn) {
	defer func() {
		_ = c.Close()
		b.mu.Lock()
		delete(b.conns, c)
		b.mu.Unlock()
	}()
	in := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if r.Header.Get("Upgrade") != "" {
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			_, _ = io.Copy(c, in)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		if _, err := io.WriteString(c, b.answer(r)); err != nil || r.Close {
			return
		}
	}
}

func (b *backend) answer(r *http.Request) string {
	status := b.status.Load()
	if r.URL.Path == "/hold" {
		b.held <- struct{}{}
		<-b.hold
	}
	if strings.HasPrefix(r.Header.Get("User-Agent"), "headgate-health") {
		b.probes.Add(1)
		status = b.probe.Load()
	} else {
		b.requests.Add(1)
	}
	return fmt.Sprintf("HTTP/1.1 %d Answer\r\nX-From: %s\r\nX-Seen: %s\r\nContent-Length: 2\r\n\r\nok",
		status, b.name, r.Header.Get("X-Marker"))
}
