package examples_test

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"syscall"
	"testing"

	logsv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	metricsv1 "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
)

func TestOpenTelemetry(t *testing.T) {
	t.Parallel()
	need(t, "curl")
	collector := newSink(t)
	s := newSite(t, "quickstart", collector.env()...)
	red := s.start("backend --name red --address 127.0.0.1:9001")
	s.start("backend --name blue --address 127.0.0.1:9002")
	s.start("dataplane")

	s.must("ctl apply examples/quickstart/routes.yaml")
	t.Run("apply", func(t *testing.T) { applyIsOneTrace(t, collector) })
	t.Run("request", func(t *testing.T) { requestIsTraced(t, s, collector) })
	t.Run("continued", func(t *testing.T) { traceIsContinued(t, s, collector) })
	t.Run("health", func(t *testing.T) {
		red.kill(syscall.SIGKILL)
		healthIsLogged(t, s, collector)
	})
	t.Run("metrics", func(t *testing.T) { metricsArrive(t, collector) })
}

// applyIsOneTrace looks for the spans of ctl and of the data plane in one trace,
// all below the span of ctl's verb.
func applyIsOneTrace(t *testing.T, collector *sink) {
	root := collector.span("ctl apply", func(s *tracev1.Span) bool { return s.Name == "ctl apply" })
	if len(root.ParentSpanId) != 0 {
		t.Errorf("ctl apply has parent %x", root.ParentSpanId)
	}
	// The apply is over before its stream is: the span of the stream comes last.
	for _, name := range []string{
		"headgate.compile", "headgate.prepare", "headgate.persist", "headgate.commit", "headgate.apply",
		"headgate.control.v1.SnapshotService/Push",
	} {
		for parent := inTrace(collector, root, name); string(parent.SpanId) != string(root.SpanId); {
			child := parent
			parent = collector.span("the parent of "+child.Name, func(s *tracev1.Span) bool {
				return string(s.SpanId) == string(child.ParentSpanId)
			})
		}
	}
}

// inTrace waits for a span of the data plane in the trace of a span of ctl.
func inTrace(collector *sink, root *tracev1.Span, name string) *tracev1.Span {
	return collector.span(name+" in the trace of "+root.Name, func(s *tracev1.Span) bool {
		return s.Name == name && string(s.TraceId) == string(root.TraceId) &&
			collector.services[string(s.SpanId)] != collector.services[string(root.SpanId)]
	})
}

var traceparent = regexp.MustCompile(`(?m)^Traceparent: 00-([0-9a-f]{32})-([0-9a-f]{16})-01$`)

// ask asks a backend for the fields that it was sent, and returns the trace and
// the span in its only traceparent.
func ask(t *testing.T, s *site, options string) (trace, span string) {
	t.Helper()
	fields := s.must("curl -sS " + options + " http://127.0.0.1:8080/headers")
	found := traceparent.FindAllStringSubmatch(fields, -1)
	if len(found) != 1 {
		t.Fatalf("want one sampled traceparent:\n%s", fields)
	}
	return found[0][1], found[0][2]
}

// requestIsTraced compares what the backend saw with the spans that come out.
func requestIsTraced(t *testing.T, s *site, collector *sink) {
	trace, attempt := ask(t, s, "")
	client := collector.span("the attempt's span", func(s *tracev1.Span) bool { return hex.EncodeToString(s.SpanId) == attempt })
	server := collector.span("the request's span", func(s *tracev1.Span) bool { return string(s.SpanId) == string(client.ParentSpanId) })
	for _, check := range []struct {
		span *tracev1.Span
		kind tracev1.Span_SpanKind
		name string
	}{
		{server, tracev1.Span_SPAN_KIND_SERVER, "GET colours"},
		{client, tracev1.Span_SPAN_KIND_CLIENT, "GET"},
	} {
		if check.span.Kind != check.kind || check.span.Name != check.name || hex.EncodeToString(check.span.TraceId) != trace {
			t.Errorf("%v in trace %s, want %v %q", check.span, trace, check.kind, check.name)
		}
		for key, want := range map[string]string{
			"headgate.snapshot.version": "quickstart-1", "headgate.cluster": "colours", "http.request.method": "GET",
		} {
			if got := text(check.span.Attributes, key); got != want {
				t.Errorf("%s of %v is %q, want %q", key, check.kind, got, want)
			}
		}
	}
	if len(server.ParentSpanId) != 0 {
		t.Errorf("the request's span has parent %x, though the client sent none", server.ParentSpanId)
	}
	if endpoint := s.there(text(client.Attributes, "headgate.endpoint")); !written.MatchString(endpoint) {
		t.Errorf("the endpoint is %q", endpoint)
	}
}

// traceIsContinued sends a trace of the client's own.
func traceIsContinued(t *testing.T, s *site, collector *sink) {
	const theirs, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	trace, _ := ask(t, s, fmt.Sprintf("-H 'traceparent: 00-%s-%s-01'", theirs, parent))
	if trace != theirs {
		t.Errorf("the backend saw trace %s, the client sent %s", trace, theirs)
	}
	collector.span("a span below the client's", func(s *tracev1.Span) bool {
		return s.Kind == tracev1.Span_SPAN_KIND_SERVER && hex.EncodeToString(s.ParentSpanId) == parent
	})
}

// healthIsLogged waits for the record of an endpoint that has died.
func healthIsLogged(t *testing.T, s *site, collector *sink) {
	t.Helper()
	collector.await("a record of red's death", func() bool {
		return slices.ContainsFunc(collector.logs, func(r *logsv1.LogRecord) bool {
			return r.EventName == "headgate.endpoint.health" && r.SeverityNumber == logsv1.SeverityNumber_SEVERITY_NUMBER_WARN &&
				text(r.Attributes, "headgate.cluster") == "colours" &&
				text(r.Attributes, "headgate.endpoint") == s.at("127.0.0.1:9001")
		})
	})
}

func metricsArrive(t *testing.T, collector *sink) {
	t.Helper()
	for _, name := range []string{"http.server.request.duration", "headgate.upstream.healthy", "process_cpu_seconds_total"} {
		collector.await("metric "+name, func() bool {
			return slices.ContainsFunc(collector.metrics, func(m *metricsv1.Metric) bool { return m.Name == name })
		})
	}
}
