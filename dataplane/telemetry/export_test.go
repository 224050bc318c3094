package telemetry

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collectorlogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"
)

// receiver is an OTLP/HTTP collector that keeps what it is sent.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	traces  []*collectortrace.ExportTraceServiceRequest
	metrics []*collectormetrics.ExportMetricsServiceRequest
	logs    []*collectorlogs.ExportLogsServiceRequest
}

func newReceiver(t *testing.T) *receiver {
	c := new(receiver)
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

// ServeHTTP takes one export.
func (c *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch req.URL.Path {
	case "/v1/traces":
		err = keep(body, &c.traces)
	case "/v1/metrics":
		err = keep(body, &c.metrics)
	case "/v1/logs":
		err = keep(body, &c.logs)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// messageOf is a pointer to a protobuf message M.
type messageOf[M any] interface {
	*M
	proto.Message
}

func keep[M any, P messageOf[M]](body []byte, list *[]P) error {
	m := P(new(M))
	*list = append(*list, m)
	return proto.Unmarshal(body, m)
}

// exporting is a Recorder that exports all signals to a receiver.
func exporting(t *testing.T) (*Recorder, *receiver) {
	t.Helper()
	c := newReceiver(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	return newRecorder(t, Options{Service: "gate", Version: "1.2.3", Node: "n1"}), c
}

func TestExport(t *testing.T) {
	r, c := exporting(t)
	s := testSnapshot("v1", []string{"users"}, []string{"backend"})
	s.Telemetry.TracingOn, s.Telemetry.SampleRatio = true, 1
	var x Exchange
	serve(r.View(s), &x, s)
	r.Health(HealthRecord{
		Cluster: "backend", Endpoint: "10.0.0.1:80", From: "healthy", To: "unhealthy",
		Cause: "2 active probes failed", Evidence: "GET /\xff: status 500", SnapshotVersion: "v1", At: goldenTime,
	})
	r.SnapshotState(context.Background(), SnapshotRecord{Version: "v1", Digest: "d-v1", Generation: 7, State: "ACTIVE"})
	if err := r.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	checkResource(t, c.traces[0].ResourceSpans[0].Resource.Attributes)
	if n := len(c.traces[0].ResourceSpans[0].ScopeSpans[0].Spans); n != 2 {
		t.Errorf("%d spans", n)
	}
	checkMetrics(t, c.metrics[0])
	checkRecords(t, c.logs[0])
}

func checkResource(t *testing.T, attributes []*commonv1.KeyValue) {
	t.Helper()
	for name, want := range map[string]string{
		"service.name": "gate", "service.version": "1.2.3", "service.instance.id": "n1", "deployment.environment.name": "test",
	} {
		if got := valueOf(attributes, name); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
}

func valueOf(attributes []*commonv1.KeyValue, name string) string {
	for _, a := range attributes {
		if a.Key == name {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

func checkMetrics(t *testing.T, got *collectormetrics.ExportMetricsServiceRequest) {
	t.Helper()
	var names []string
	for _, scope := range got.ResourceMetrics[0].ScopeMetrics {
		for _, m := range scope.Metrics {
			names = append(names, m.Name)
		}
	}
	for _, want := range []string{
		"http.server.request.duration", "http.server.active_requests", "http.client.request.duration",
		"headgate.upstream.requests", "headgate.request.bytes", "headgate.response.bytes",
		"headgate.endpoint.transitions", "headgate.snapshot.transitions", "headgate.snapshot.info", "headgate.snapshot.generation",
		"go_goroutines", "process_resident_memory_bytes",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("no %s in %s", want, strings.Join(names, " "))
		}
	}
}

func checkRecords(t *testing.T, got *collectorlogs.ExportLogsServiceRequest) {
	t.Helper()
	records := got.ResourceLogs[0].ScopeLogs[0].LogRecords
	if len(records) != 2 || records[0].EventName != "headgate.endpoint.health" || records[1].EventName != "headgate.snapshot.state" {
		t.Fatalf("records: %v", records)
	}
	health := records[0]
	for name, want := range map[string]string{
		"headgate.cluster": "backend", "headgate.endpoint": "10.0.0.1:80", "headgate.from": "healthy", "headgate.to": "unhealthy",
		"headgate.cause": "2 active probes failed", "headgate.evidence": "GET /\uFFFD: status 500", "headgate.snapshot.version": "v1",
	} {
		if got := valueOf(health.Attributes, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if health.TimeUnixNano != uint64(goldenTime.UnixNano()) || health.SeverityNumber != 13 {
		t.Errorf("time %v, severity %v", time.Unix(0, int64(health.TimeUnixNano)), health.SeverityNumber)
	}
}

// What a name did last is exported to both readers before it goes.
func TestGoneNamesReachBothReaders(t *testing.T) {
	r, c := exporting(t)
	old := testSnapshot("v1", []string{"old"}, []string{"old"})
	var x Exchange
	serve(r.View(old), &x, old)
	scrape(t, r)
	r.Use(r.View(testSnapshot("v2", nil, nil)))
	scrape(t, r)
	if page := scrape(t, r); !strings.Contains(page, `http_route="old"`) {
		t.Error("it went before the exporter had it")
	}
	flushLog(t, r)
	c.mu.Lock()
	sent := len(c.metrics)
	c.mu.Unlock()
	if page := scrape(t, r); sent == 0 || strings.Contains(page, `http_route="old"`) {
		t.Errorf("after %d exports it is still there", sent)
	}
}

// Without a word in the environment nothing leaves, and nothing is made.
func TestNothingIsExportedUnasked(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
		want bool
	}{
		{"nothing set", nil, false},
		{"endpoint", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, true},
		{"endpoint of the signal", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"}, true},
		{"endpoint of another signal", map[string]string{"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://127.0.0.1:1"}, false},
		{"exporter", map[string]string{"OTEL_TRACES_EXPORTER": "console"}, true},
		{"none", map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, false},
		{"disabled", map[string]string{"OTEL_SDK_DISABLED": "TRUE", "OTEL_TRACES_EXPORTER": "console"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			if got := wanted(signalTraces); got != c.want {
				t.Errorf("traces are exported: %v", got)
			}
		})
	}
	r := newRecorder(t, Options{})
	_, span := r.Tracer().Start(context.Background(), "x")
	if span.IsRecording() || r.spans != nil || r.exporting {
		t.Error("spans are recorded for nobody")
	}
}

// OTEL_SDK_DISABLED turns the SDK off: trace context passes untouched, as through
// the tracers of the API without an SDK. /metrics still has our own counters.
func TestDisabled(t *testing.T) {
	c := newReceiver(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	t.Setenv("OTEL_SDK_DISABLED", "true")
	r := newRecorder(t, Options{})
	s := testSnapshot("v1", []string{"users"}, []string{"backend"})
	s.Telemetry.TracingOn, s.Telemetry.SampleRatio = true, 1
	var x Exchange
	serve(r.View(s), &x, s)
	if x.Trace.Rewrite {
		t.Error("it has a part in the trace")
	}
	counter, err := r.MeterProvider().Meter("x").Int64Counter("others")
	if err != nil {
		t.Fatal(err)
	}
	counter.Add(context.Background(), 1)
	flushLog(t, r)
	page := scrape(t, r)
	wantLines(t, page, `headgate_upstream_requests_total{headgate_cluster="backend",headgate_endpoint="10.0.0.1:80"} 1`)
	if strings.Contains(page, "others") {
		t.Error("the SDK is on")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.traces)+len(c.metrics)+len(c.logs) != 0 {
		t.Error("something was sent")
	}
}

func TestBadEnvironment(t *testing.T) {
	for name, value := range map[string]string{
		"OTEL_TRACES_EXPORTER": "carrier-pigeon", "OTEL_METRICS_EXPORTER": "carrier-pigeon", "OTEL_LOGS_EXPORTER": "carrier-pigeon",
		"OTEL_METRICS_PRODUCERS": "prometheus",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv(name, value)
			r, err := New(context.Background(), Options{})
			if err == nil {
				r.Shutdown(context.Background())
				t.Error("accepted")
			}
		})
	}
}

func TestBadResource(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "no value")
	var log bytes.Buffer
	newRecorder(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if !strings.Contains(log.String(), "OTEL_RESOURCE_ATTRIBUTES") && !strings.Contains(log.String(), "missing value") {
		t.Errorf("not reported: %s", log.String())
	}
}

// Health counts under bounded names, whatever it is told.
func TestHealthIsCounted(t *testing.T) {
	r := newRecorder(t, Options{})
	s := testSnapshot("v1", nil, []string{"backend"})
	r.Use(r.View(s))
	for _, e := range []HealthRecord{
		{Cluster: "backend", Endpoint: "10.0.0.1:80", To: "unhealthy"},
		{Cluster: "backend", Endpoint: "10.0.0.1:80", To: "healthy"},
		{Cluster: "backend", Endpoint: "10.0.0.1:80", To: "healthy"},
		{Cluster: "backend", Endpoint: "10.0.0.1:80", To: "on fire"},
		{Cluster: "backend", Endpoint: "10.7.7.7:80", To: "healthy"},
		{Cluster: "unheard of", Endpoint: "10.0.0.1:80", To: "healthy"},
	} {
		r.Health(e)
	}
	r.Circuit(HealthRecord{Cluster: "backend", Endpoint: "10.0.0.1:80", From: "closed", To: "half-open"})
	wantLines(t, scrape(t, r),
		`headgate_endpoint_transitions_total{headgate_cluster="backend",headgate_endpoint="10.0.0.1:80",headgate_to="unhealthy"} 1`,
		`headgate_endpoint_transitions_total{headgate_cluster="backend",headgate_endpoint="10.0.0.1:80",headgate_to="healthy"} 2`,
		`headgate_endpoint_transitions_total{headgate_cluster="backend",headgate_endpoint="10.0.0.1:80",headgate_to="_OTHER"} 1`,
		`headgate_endpoint_transitions_total{headgate_cluster="backend",headgate_endpoint="_OTHER",headgate_to="healthy"} 1`,
		`headgate_endpoint_circuit_transitions_total{headgate_cluster="backend",headgate_endpoint="10.0.0.1:80",headgate_to="half-open"} 1`)
}

func TestSnapshotMetrics(t *testing.T) {
	r := newRecorder(t, Options{})
	if strings.Contains(scrape(t, r), "headgate_snapshot_info") {
		t.Error("there is a snapshot before the first")
	}
	for _, e := range []SnapshotRecord{
		{Version: "v1", Digest: "a", State: "RECEIVED"}, {Version: "v1", Digest: "a", State: "ACTIVE", Generation: 1},
		{Version: "v2", Digest: "b", State: "REJECTED", Generation: 1, Cause: "routes[0]: no such cluster"},
	} {
		r.SnapshotState(context.Background(), e)
	}
	wantLines(t, scrape(t, r),
		`headgate_snapshot_info{headgate_snapshot_digest="a",headgate_snapshot_version="v1"} 1`,
		`headgate_snapshot_generation 1`,
		`headgate_snapshot_transitions_total{headgate_state="ACTIVE"} 1`,
		`headgate_snapshot_transitions_total{headgate_state="REJECTED"} 1`)
}
