package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestBucketsHoldTheirValuesWithinASixteenth(t *testing.T) {
	for range 10_000 {
		v := rand.Uint64() >> (1 + rand.IntN(63))
		end := upperEnd(bucketOf(v))
		if end < v || end-v > v/16 {
			t.Fatalf("%d is in the bucket that ends at %d", v, end)
		}
	}
}

func TestBucketsAreInOrder(t *testing.T) {
	for v := uint64(1); v < 1<<16; v++ {
		if step := bucketOf(v) - bucketOf(v-1); step != 0 && step != 1 {
			t.Fatalf("from %d to %d the bucket goes from %d to %d", v-1, v, bucketOf(v-1), bucketOf(v))
		}
	}
}

func TestQuantiles(t *testing.T) {
	var h, half histogram
	for i := 1; i <= 1000; i++ {
		to := &h
		if i%2 == 0 {
			to = &half
		}
		to.add(time.Duration(i) * time.Microsecond)
	}
	h.merge(&half)
	for _, tt := range []struct {
		q    float64
		want time.Duration
	}{{0, time.Microsecond}, {0.5, 501 * time.Microsecond}, {0.99, 991 * time.Microsecond}} {
		if got := h.quantile(tt.q); got < tt.want || got > tt.want+tt.want/16 {
			t.Errorf("quantile %v is %v, want about %v", tt.q, got, tt.want)
		}
	}
	if got := (&histogram{}).quantile(0.5); got != 0 {
		t.Errorf("of nothing it is %v", got)
	}
}

func TestContentLength(t *testing.T) {
	for _, tt := range []struct {
		head string
		size int
		ok   bool
	}{
		{"HTTP/1.1 200 OK\r\nContent-Length: 42\r\n\r\n", 42, true},
		{"HTTP/1.1 200 OK\r\ndate: x\r\ncontent-length:0 \r\n\r\n", 0, true},
		{"HTTP/1.1 200 OK\r\nX-Content-Length: 42\r\n\r\n", 0, false},
		{"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", 0, false},
	} {
		if size, ok := contentLength([]byte(tt.head)); size != tt.size || ok != tt.ok {
			t.Errorf("%q: %d, %v; want %d, %v", tt.head, size, ok, tt.size, tt.ok)
		}
	}
}

func TestHeadsLargerThanTheBufferAreRefused(t *testing.T) {
	in := bufio.NewReaderSize(strings.NewReader(strings.Repeat("x", 100)), 16)
	if _, err := peekHead(in); err == nil {
		t.Error("no error")
	}
}

// site starts a backend until the test ends.
func startSite(t *testing.T) (*backend, *authority) {
	t.Helper()
	b, err := startBackend(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	a, err := newAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return b, a
}

// behindTLS is a port whose connections go on in clear to another, so that the
// load over TLS can be tried without a proxy.
func behindTLS(t *testing.T, a *authority, protocol string, port int) endpoint {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(a.certificate, a.key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{protocol}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go accept(l, func(in net.Conn) {
		out, err := endpoint{port: port}.dial(nil)
		if err != nil {
			return
		}
		defer out.Close()
		go func() {
			_, _ = io.Copy(out, in)
			_ = out.(*net.TCPConn).CloseWrite()
		}()
		_, _ = io.Copy(in, out)
	})
	return endpoint{port: portOf(l), tls: a}
}

// straight is where the load of s goes if no proxy is between it and the backend.
func straight(t *testing.T, b *backend, a *authority, s *scenario) endpoint {
	t.Helper()
	port, protocol := portOf(b.http1), "http/1.1"
	if s.streams > 0 {
		port, protocol = portOf(b.http2), "h2"
	}
	if !s.tls {
		return endpoint{port: port}
	}
	return behindTLS(t, a, protocol, port)
}

// The load on the backend itself, in every scenario. The backend's HTTP/2 has
// calls alone.
func TestLoadReachesTheBackend(t *testing.T) {
	b, a := startSite(t)
	for _, s := range scenarios {
		if s.streams > 0 && !s.call {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			s.connections = 3
			at := straight(t, b, a, &s)
			if err := at.verify(t.Context(), &s); err != nil {
				t.Fatal(err)
			}
			l, err := connect(at, s)
			if err != nil {
				t.Fatal(err)
			}
			defer l.close()
			before := b.served.Load()
			if sum := l.once(); sum.fault != nil || sum.latency.total != 3 || b.served.Load()-before != 3 {
				t.Errorf("%d answered, %d served, want 3; %v", sum.latency.total, b.served.Load()-before, sum.fault)
			}
			if s.share > 0 {
				l.rate = 2000
			}
			before = b.served.Load()
			if sum := l.slice(10 * time.Millisecond); sum.fault != nil || sum.latency.total != b.served.Load()-before {
				t.Errorf("%d answered, %d served; %v", sum.latency.total, b.served.Load()-before, sum.fault)
			}
		})
	}
}

// What is due while nobody answers is late when it is answered.
func TestOpenLoopChargesAStallToAllThatWaited(t *testing.T) {
	l := &load{rate: 10_000, clients: []client{stall(30 * time.Millisecond)}}
	sum := l.open(time.Now().Add(20 * time.Millisecond))
	if sum.fault != nil || sum.latency.total < 20 {
		t.Fatalf("%d arrivals in 20 ms, want about 200; %v", sum.latency.total, sum.fault)
	}
	if p50 := sum.latency.quantile(0.5); p50 < 10*time.Millisecond {
		t.Errorf("half of them waited less than %v, and all were stalled for 30 ms", p50)
	}
}

// stall is a client that answers nothing for so long, then all at once.
type stall time.Duration

func (s stall) close() {}

func (s stall) run(next arrivals, t *tally) error {
	time.Sleep(time.Duration(s))
	for {
		due, more := next()
		if !more {
			return nil
		}
		t.latency.add(time.Since(due))
	}
}

func TestWrongAnswersAreFaults(t *testing.T) {
	b, _ := startSite(t)
	at := endpoint{port: portOf(b.http1)}
	for _, s := range []scenario{
		{name: "no such path", path: "/b101"},
		{name: "another length", path: "/b10k"},
	} {
		conn, err := at.dial(&s)
		if err != nil {
			t.Fatal(err)
		}
		c := newKept(conn, &s)
		c.size = 100
		if err := c.exchange(); err == nil {
			t.Errorf("%s: no fault", s.name)
		}
		c.close()
	}
	if err := at.verify(t.Context(), &scenario{path: "/b101"}); err == nil {
		t.Error("no fault in the answer of a path that there is none of")
	}
}

func TestFrames(t *testing.T) {
	var out []byte
	want := []frame{
		{frameData, flagEndStream, 7, []byte("seven")},
		{frameHeaders, flagEndHeaders, 1<<31 - 1, []byte{indexedOK}},
		{framePing, 0, 0, make([]byte, 8)},
	}
	for _, f := range want {
		out = appendFrame(out, f)
	}
	in := bufio.NewReader(bytes.NewReader(out))
	for _, w := range want {
		f, err := nextFrame(in)
		if err != nil || f.kind != w.kind || f.flags != w.flags || f.stream != w.stream || !bytes.Equal(f.payload, w.payload) {
			t.Errorf("%v, %v; want %v", f, err, w)
		}
	}
}

func TestStatusBehindUpdatesOfTheTable(t *testing.T) {
	for _, tt := range []struct {
		block []byte
		want  bool
	}{
		{[]byte{indexedOK}, true},
		{[]byte{0x20, indexedOK}, true},
		{[]byte{0x3f, 0xe1, 0x1f, indexedOK, 0x00}, true},
		{[]byte{indexed | 13}, false}, // 404
		{[]byte{0x3f, 0xe1}, false},
		{nil, false},
	} {
		if got := startsWithOK(tt.block); got != tt.want {
			t.Errorf("%x: %v", tt.block, got)
		}
	}
}

func TestConfigurationsFill(t *testing.T) {
	s := &setting{Name: "x", Port: 1, TLSPort: 2, Cores: 2, Log: true, Large: true, Traced: true}
	for _, target := range proxies("build/dataplane", true) {
		if text, err := target.filled(s); err != nil || strings.Contains(text, "{{") {
			t.Errorf("%s: %v", target.name, err)
		}
		for _, list := range [][]string{target.command, target.environment} {
			if filled, err := words(list, s); err != nil || strings.Contains(strings.Join(filled, " "), "{{") {
				t.Errorf("%s: %v, %v", target.name, filled, err)
			}
		}
	}
}

func TestRatiosAreToTheBestPeerOfTheSameRound(t *testing.T) {
	used := func(micros ...int) []sample {
		samples := make([]sample, len(micros))
		for i, n := range micros {
			samples[i] = sample{cpu: time.Duration(n) * time.Microsecond, requests: 1}
		}
		return samples
	}
	r := result{
		targets: []target{{name: "a", peer: true}, {name: "b", peer: true}, {name: "c"}},
		rounds:  [][]sample{used(10, 20, 5), used(30, 20, 60), used(10, 20, 8)},
	}
	best := r.best((*sample).perRequest)
	if best != 0 {
		t.Fatalf("the best is %d, want the first: its median is 10", best)
	}
	if got, want := r.ratios(2, best, (*sample).perRequest), []float64{0.5, 2, 0.8}; !slices.Equal(got, want) {
		t.Errorf("ratios are %v, want %v", got, want)
	}
	if got, want := spreadOf([]float64{0.5, 2, 0.8, 1}), (spread{0.5, 0.9, 2}); got != want {
		t.Errorf("spread is %v, want %v", got, want)
	}
}

func TestCPUTimeOfThisProcessGrows(t *testing.T) {
	pids := descendants(os.Getpid())
	if pids[0] != os.Getpid() {
		t.Fatalf("the tree of %d begins with %d", os.Getpid(), pids[0])
	}
	before := cpuTimes(pids[:1])
	for cpuTimes(pids[:1])-before < time.Millisecond {
		continue // time passes by reading it
	}
	if residentBytes(pids[:1]) < 1<<20 {
		t.Error("this process seems to hold less than a megabyte")
	}
}

func TestOnlyNamesScenarios(t *testing.T) {
	if list, err := chosen("get-10k,idle"); err != nil || len(list) != 2 || list[0].name != "get-10k" {
		t.Errorf("%v, %v", list, err)
	}
	if list, err := chosen("all"); err != nil || len(list) != len(scenarios) {
		t.Errorf("all: %d, %v", len(list), err)
	}
	if _, err := chosen("get-11k"); err == nil {
		t.Error("no error for a name that is none")
	}
}
