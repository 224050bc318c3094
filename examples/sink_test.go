package examples_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	collectorlogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	logsv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	metricsv1 "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// sink is a collector: it takes what programs export by OTLP over HTTP and
// keeps it.
type sink struct {
	t      *testing.T
	server *httptest.Server

	mu sync.Mutex
	// guarded by mu
	spans    []*tracev1.Span
	services map[string]string // service.name by the ID of a span
	logs     []*logsv1.LogRecord
	metrics  []*metricsv1.Metric
	changed  chan struct{} // closed when more comes
}

func newSink(t *testing.T) *sink {
	s := &sink{t: t, services: map[string]string{}, changed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", take(s, s.takeSpans))
	mux.HandleFunc("POST /v1/logs", take(s, s.takeLogs))
	mux.HandleFunc("POST /v1/metrics", take(s, s.takeMetrics))
	s.server = httptest.NewServer(mux)
	t.Cleanup(s.server.Close)
	return s
}

// env makes a program export to the sink, without waiting for much to export.
func (s *sink) env() []string {
	return []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + s.server.URL, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
		"OTEL_BSP_SCHEDULE_DELAY=20", "OTEL_BLRP_SCHEDULE_DELAY=20", "OTEL_METRIC_EXPORT_INTERVAL=200",
	}
}

// take reads an export of one kind.
func take[M any, P interface {
	*M
	proto.Message
}](s *sink, keep func(P)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		export := P(new(M))
		if err == nil {
			err = proto.Unmarshal(body, export)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		keep(export)
		close(s.changed)
		s.changed = make(chan struct{})
		w.Header().Set("Content-Type", "application/x-protobuf")
	}
}

func (s *sink) takeSpans(m *collectortrace.ExportTraceServiceRequest) {
	for _, resource := range m.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			s.spans = append(s.spans, scope.Spans...)
			for _, span := range scope.Spans {
				s.services[string(span.SpanId)] = text(resource.Resource.Attributes, "service.name")
			}
		}
	}
}

func (s *sink) takeLogs(m *collectorlogs.ExportLogsServiceRequest) {
	for _, resource := range m.ResourceLogs {
		for _, scope := range resource.ScopeLogs {
			s.logs = append(s.logs, scope.LogRecords...)
		}
	}
}

func (s *sink) takeMetrics(m *collectormetrics.ExportMetricsServiceRequest) {
	for _, resource := range m.ResourceMetrics {
		for _, scope := range resource.ScopeMetrics {
			s.metrics = append(s.metrics, scope.Metrics...)
		}
	}
}

// await waits until something is there of what comes. found is called with mu
// held.
func (s *sink) await(what string, found func() bool) {
	s.t.Helper()
	deadline := time.After(patience)
	for {
		s.mu.Lock()
		there, changed := found(), s.changed
		s.mu.Unlock()
		if there {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			s.mu.Lock()
			defer s.mu.Unlock()
			s.t.Fatalf("the sink waits for %s; it has %d spans, %d log records, %d metrics:\n%s",
				what, len(s.spans), len(s.logs), len(s.metrics), s.names())
		}
	}
}

// names lists what is there, for a reader of a failed test.
func (s *sink) names() string {
	var list string
	for _, span := range s.spans {
		list += s.services[string(span.SpanId)] + ": " + span.Name + "\n"
	}
	for _, record := range s.logs {
		list += record.EventName + ": " + record.Body.GetStringValue() + "\n"
	}
	return list
}

// span waits for a span.
func (s *sink) span(what string, is func(*tracev1.Span) bool) (span *tracev1.Span) {
	s.t.Helper()
	s.await(what, func() bool {
		i := slices.IndexFunc(s.spans, is)
		if i >= 0 {
			span = s.spans[i]
		}
		return i >= 0
	})
	return span
}

// text is an attribute of kind string, "" if there is none.
func text(attributes []*commonv1.KeyValue, key string) string {
	for _, a := range attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}
