package telemetry

import (
	"io"
	"testing"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// costs are the ways to record an exchange that must not allocate.
var costs = []struct {
	name        string
	traceparent string
	set         func(*snapshot.Telemetry)
}{
	{"counters and ring", "", func(*snapshot.Telemetry) {}},
	{"tracing on, not sampled", "", func(t *snapshot.Telemetry) { t.TracingOn = true }},
	{"tracing on, parent not sampled", testDropped, func(t *snapshot.Telemetry) { t.TracingOn, t.TrustIncoming = true, true }},
	{"JSON log", "", func(t *snapshot.Telemetry) { t.AccessLog, t.AccessLogJSON = "-", true }},
	{"combined log", "", func(t *snapshot.Telemetry) { t.AccessLog = "-" }},
}

// recordOne is one exchange with one attempt, as the proxy does it.
func recordOne(v *View, x *Exchange, s *snapshot.Snapshot, traceparent, buf []byte) {
	x.Reset()
	x.Route, x.Cluster = s.Routes[0], s.Clusters[0]
	x.Method, x.MethodName, x.Host, x.Path = 1, methodGet, host, path
	x.Status, x.BytesIn, x.BytesOut, x.Major, x.Minor = 200, 10, 100, 1, 1
	v.Begin(x, traceparent, nil)
	a := v.Attempt(x)
	a.Endpoint, a.Status = "10.0.0.1:80", 200
	if x.Trace.Rewrite {
		x.AppendTraceparent(buf)
	}
	v.Finish(x)
}

var methodGet, host, path = []byte("GET"), []byte("api.example.com"), []byte("/v1/users/42/orders")

func costView(t testing.TB, set func(*snapshot.Telemetry)) (*View, *snapshot.Snapshot) {
	r := newRecorder(t, Options{Stdout: io.Discard})
	s := testSnapshot("v1", []string{"users"}, []string{"backend"})
	s.Telemetry.RecentRequests = 10000
	set(&s.Telemetry)
	v := r.View(s)
	r.Use(v)
	return v, s
}

func TestNoAllocations(t *testing.T) {
	for _, c := range costs {
		v, s := costView(t, c.set)
		x, traceparent, buf := new(Exchange), []byte(c.traceparent), make([]byte, 0, 64)
		for range 2000 { // the buffers of the log reach their size
			recordOne(v, x, s, traceparent, buf)
		}
		if n := testing.AllocsPerRun(1000, func() { recordOne(v, x, s, traceparent, buf) }); n != 0 {
			t.Errorf("%s: %g allocations", c.name, n)
		}
	}
}

func BenchmarkExchange(b *testing.B) {
	for _, c := range costs {
		b.Run(c.name, func(b *testing.B) {
			v, s := costView(b, c.set)
			x, traceparent, buf := new(Exchange), []byte(c.traceparent), make([]byte, 0, 64)
			b.ReportAllocs()
			for b.Loop() {
				recordOne(v, x, s, traceparent, buf)
			}
		})
	}
}

// BenchmarkFinish is the counters, the histogram and the ring alone.
func BenchmarkFinish(b *testing.B) {
	v, s := costView(b, func(*snapshot.Telemetry) {})
	x := new(Exchange)
	recordOne(v, x, s, nil, nil)
	b.ReportAllocs()
	for b.Loop() {
		v.Finish(x)
	}
}

// BenchmarkView is what an apply of 10,000 routes and clusters costs.
func BenchmarkView(b *testing.B) {
	names := make([]string, 10000)
	for i := range names {
		names[i] = string(appendHex(nil, []byte{byte(i >> 8), byte(i)}))
	}
	r := newRecorder(b, Options{})
	s := testSnapshot("v1", names, names)
	for b.Loop() {
		r.Use(r.View(s))
	}
}
