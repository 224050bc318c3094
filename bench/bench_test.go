package main

import (
	"bufio"
	"math/rand/v2"
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

// The load on the backend itself, nothing between them, in every scenario.
func TestLoadReachesTheBackend(t *testing.T) {
	b, err := startBackend()
	if err != nil {
		t.Fatal(err)
	}
	defer b.listener.Close()
	for _, s := range scenarios {
		s.connections = 3
		l, err := connect(b.listener.Addr().String(), s)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		before := b.served.Load()
		if sum := l.once(); sum.fault != nil || sum.latency.total != 3 || b.served.Load()-before != 3 {
			t.Errorf("%s: %d answered, %d served, want 3; %v", s.name, sum.latency.total, b.served.Load()-before, sum.fault)
		}
		before = b.served.Load()
		if sum := l.slice(10 * time.Millisecond); sum.fault != nil || sum.latency.total != b.served.Load()-before {
			t.Errorf("%s: %d answered, %d served; %v", s.name, sum.latency.total, b.served.Load()-before, sum.fault)
		}
		l.close()
	}
}

func TestWrongAnswersAreFaults(t *testing.T) {
	b, err := startBackend()
	if err != nil {
		t.Fatal(err)
	}
	defer b.listener.Close()
	for _, s := range []scenario{
		{name: "no such path", request: get("/b101"), size: 100},
		{name: "another length", request: get("/b10k"), size: 100},
	} {
		s.connections = 1
		l, err := connect(b.listener.Addr().String(), s)
		if err != nil {
			t.Fatal(err)
		}
		defer l.close()
		if sum := l.once(); sum.fault == nil || sum.failed != 1 {
			t.Errorf("%s: no fault", s.name)
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
