package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// serveNumbered serves requests for /0, /1 and so on, each a millisecond later.
func serveNumbered(r *Recorder, shards, from, to int) {
	v := r.current.Load()
	s := testSnapshot("v1", []string{"users"}, []string{"backend"})
	for i := from; i < to; i++ {
		x := Exchange{Shard: i % shards}
		get(&x, s)
		x.Path = fmt.Append(nil, "/", i)
		x.Started, x.Ended = x.Started+int64(i)*int64(time.Millisecond), x.Ended+int64(i)*int64(time.Millisecond)
		v.Begin(&x, nil, nil)
		v.Finish(&x)
	}
}

func paths(list []Recent) string {
	var all []string
	for _, r := range list {
		all = append(all, r.Path)
	}
	return strings.Join(all, " ")
}

func TestRecent(t *testing.T) {
	r := newRecorder(t, Options{})
	s := testSnapshot("v1", []string{"users"}, []string{"backend"})
	s.Telemetry.TracingOn, s.Telemetry.TrustIncoming = true, true
	v := r.View(s)
	var x Exchange
	get(&x, s)
	x.Reason, x.Detail = "client_gone", "the client left"
	x.Host = []byte(strings.Repeat("h", 200))
	v.Begin(&x, []byte(testDropped), nil)
	try(v, &x, "10.0.0.1:80", 200, "")
	v.Finish(&x)
	want := []Recent{{
		Time: goldenTime, Duration: 12 * time.Millisecond, Listener: "web", Client: x.Client,
		Method: "GET", Host: strings.Repeat("h", recentHost), Path: "/v1/users",
		Route: "users", Cluster: "backend", Endpoint: "10.0.0.1:80", Attempts: 1,
		Status: 200, Reason: "client_gone", Detail: "the client left", BytesIn: 5, BytesOut: 1234,
		TraceID: testTrace, Snapshot: "v1",
	}}
	got := r.Recent(nil, 10)
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(x.Client)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text, err := json.Marshal(got)
	if err != nil || strings.Contains(string(text), "page") {
		t.Errorf("%v: the query is told: %s", err, text)
	}
}

// What made several attempts is kept with each of them, of more than MaxAttempts
// the latest; what was overwritten has been counted.
func TestRecentTries(t *testing.T) {
	r := newRecorder(t, Options{})
	s := testSnapshot("v1", []string{"users"}, []string{"backend"})
	v := r.View(s)
	var x Exchange
	get(&x, s)
	v.Begin(&x, nil, nil)
	slow := v.Attempt(&x)
	slow.Endpoint, slow.Started = "10.0.0.1:80", at(0)
	for range MaxAttempts {
		a := v.Hedge(&x)
		a.Endpoint, a.Status, a.Started, a.Ended = "10.0.0.2:80", 200, at(3), at(9)
	}
	if x.Kept(1) != nil || x.Kept(2) == nil || x.Kept(MaxAttempts+2) != nil {
		t.Error("the latest are not those that are kept")
	}
	x.Answered = 3
	v.Finish(&x)
	got := r.Recent(nil, 1)[0]
	if len(got.Tries) != MaxAttempts || got.Attempts != MaxAttempts+1 || got.Endpoint != "10.0.0.2:80" {
		t.Fatalf("%+v", got)
	}
	want := Try{Number: 2, Endpoint: "10.0.0.2:80", After: 3 * time.Millisecond, Duration: 6 * time.Millisecond, Outcome: "200", Hedge: true}
	if got.Tries[0] != want {
		t.Errorf("%+v, want %+v", got.Tries[0], want)
	}
}

func TestRecentIsBoundedAndOrdered(t *testing.T) {
	r := newRecorder(t, Options{Shards: 2})
	s := testSnapshot("v1", []string{"users"}, []string{"backend"})
	s.Telemetry.RecentRequests = 6
	r.Use(r.View(s))
	serveNumbered(r, 2, 0, 21)
	if got := paths(r.Recent(nil, 100)); got != "/20 /19 /18 /17 /16 /15" {
		t.Errorf("all: %s", got)
	}
	if got := paths(r.Recent(nil, 2)); got != "/20 /19" {
		t.Errorf("two: %s", got)
	}
	even := func(one *Recent) bool { return one.Path == "/16" || one.Path == "/18" }
	if got := paths(r.Recent(even, 100)); got != "/18 /16" {
		t.Errorf("filtered: %s", got)
	}
}

// A ring of another size keeps the latest; one of none keeps nothing.
func TestRingIsResized(t *testing.T) {
	r := newRecorder(t, Options{})
	resize := func(n int) {
		s := testSnapshot("v1", []string{"users"}, []string{"backend"})
		s.Telemetry.RecentRequests = n
		r.Use(r.View(s))
	}
	for _, step := range []struct {
		size, from, to int
		want           string
	}{
		{4, 0, 6, "/5 /4 /3 /2"},
		{8, 6, 8, "/7 /6 /5 /4 /3 /2"},
		{3, 8, 8, "/7 /6 /5"},
		{3, 8, 9, "/8 /7 /6"},
		{0, 9, 10, ""},
		{2, 10, 11, "/10"},
	} {
		resize(step.size)
		serveNumbered(r, 1, step.from, step.to)
		if got := paths(r.Recent(nil, 100)); got != step.want {
			t.Errorf("size %d: %q, want %q", step.size, got, step.want)
		}
	}
	resize(1 << 40)
	if n := len((*r.ring.parts.Load())[0].slots); n != maxRecent {
		t.Errorf("%d slots", n)
	}
}

func TestTap(t *testing.T) {
	for _, size := range []int{0, 4} {
		r := newRecorder(t, Options{})
		s := testSnapshot("v1", []string{"users"}, []string{"backend"})
		s.Telemetry.RecentRequests = size
		r.Use(r.View(s))
		ctx, cancel := context.WithCancel(context.Background())
		tap, err := r.Tap(ctx, func(one *Recent) bool { return one.Path != "/1" })
		if err != nil {
			t.Fatal(err)
		}
		serveNumbered(r, 1, 0, 3)
		if first, second := <-tap.C, <-tap.C; first.Path != "/0" || second.Path != "/2" {
			t.Errorf("got %s and %s", first.Path, second.Path)
		}
		cancel()
		if _, open := <-tap.C; open || !errors.Is(tap.Err(), context.Canceled) {
			t.Errorf("open %v, error %v", open, tap.Err())
		}
		if r.ring.taps.list.Load() != nil {
			t.Error("it is still listed")
		}
	}
}

// A reader that does not keep up is cut off, and the others go on.
func TestSlowTap(t *testing.T) {
	r := newRecorder(t, Options{})
	s := testSnapshot("v1", []string{"users"}, []string{"backend"})
	r.Use(r.View(s))
	slow, err := r.Tap(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	picky, err := r.Tap(t.Context(), func(one *Recent) bool { return one.Path == "/0" })
	if err != nil {
		t.Fatal(err)
	}
	serveNumbered(r, 1, 0, tapQueue+5)
	n := 0
	for range slow.C {
		n++
	}
	if n != tapQueue || !errors.Is(slow.Err(), ErrTapSlow) {
		t.Errorf("%d requests, error %v", n, slow.Err())
	}
	if one := <-picky.C; one.Path != "/0" || picky.Err() != nil {
		t.Errorf("the other got %s, error %v", one.Path, picky.Err())
	}
	wantLines(t, scrape(t, r), `headgate_telemetry_lost_total{headgate_telemetry_part="tap"} 1`)
}

func TestTapsAreBounded(t *testing.T) {
	r, err := New(context.Background(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var taps []*Tap
	for range maxTaps {
		tap, err := r.Tap(context.Background(), nil)
		if err != nil {
			t.Fatal(err)
		}
		taps = append(taps, tap)
	}
	if _, err := r.Tap(context.Background(), nil); !errors.Is(err, ErrTooManyTaps) {
		t.Errorf("one too many: %v", err)
	}
	if err := r.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, tap := range taps {
		if _, open := <-tap.C; open || !errors.Is(tap.Err(), ErrShutdown) {
			t.Fatalf("after the end: open %v, error %v", open, tap.Err())
		}
	}
	if _, err := r.Tap(context.Background(), nil); !errors.Is(err, ErrShutdown) {
		t.Errorf("after the end: %v", err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	r2 := newRecorder(t, Options{})
	tap, err := r2.Tap(ended, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, open := <-tap.C; open {
		t.Error("a tap of a context that has ended is open")
	}
}
