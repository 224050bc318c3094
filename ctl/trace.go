package ctl

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/propagators/autoprop"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc/stats"
)

// flushTime bounds how long the program's end waits for spans to leave.
const flushTime = 2 * time.Second

// tracerName is the instrumentation scope of this package's spans.
const tracerName = "github.com/headgate/headgate/ctl"

// traces is where spans go, and how their context goes to the node.
type traces struct {
	provider   trace.TracerProvider
	propagator propagation.TextMapPropagator
}

// startTracing sends spans where the OTEL_ variables say, and nowhere if they
// name no exporter. A parent in TRACEPARENT is continued either way. flush
// sends what is left.
func (c *CLI) startTracing(ctx context.Context) (traced context.Context, flush func()) {
	c.traces = traces{provider: noop.NewTracerProvider(), propagator: autoprop.NewTextMapPropagator()}
	ctx = c.traces.propagator.Extract(ctx, propagation.MapCarrier{
		"traceparent": c.env.get("TRACEPARENT"), "tracestate": c.env.get("TRACESTATE"),
	})
	if !c.exports() {
		return ctx, func() {}
	}
	exporter, err := c.newExporter(ctx)
	if err != nil {
		c.say("warning: no traces are sent: %v", err)
		return ctx, func() {}
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(traceResource(ctx)))
	c.traces.provider = provider
	return ctx, func() {
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
		defer cancel()
		if err := provider.Shutdown(limit); err != nil {
			c.say("warning: traces were not sent: %v", err)
		}
	}
}

// exports reports whether the environment names a place for spans. The
// defaults of the specification, which would dial localhost, do not count.
func (c *CLI) exports() bool {
	if strings.EqualFold(c.env.get("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	if exporter := c.env.get("OTEL_TRACES_EXPORTER"); exporter != "" {
		return exporter != "none"
	}
	return c.env.get("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || c.env.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// newExporter is the one that the environment names. The console's writes to
// stderr, since stdout is for data.
func (c *CLI) newExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	if c.env.get("OTEL_TRACES_EXPORTER") == "console" {
		return stdouttrace.New(stdouttrace.WithWriter(c.stderr))
	}
	return autoexport.NewSpanExporter(ctx)
}

// traceResource describes this program. OTEL_SERVICE_NAME and
// OTEL_RESOURCE_ATTRIBUTES win over what is said here.
func traceResource(ctx context.Context) *resource.Resource {
	described, err := resource.New(ctx, resource.WithAttributes(serviceName, serviceVersion()),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil && described == nil {
		return resource.Empty()
	}
	return described
}

// startSpan begins the span of a verb, the parent of its calls.
func (c *CLI) startSpan(ctx context.Context, verb string) (context.Context, trace.Span) {
	return c.traces.provider.Tracer(tracerName).Start(ctx, "ctl "+verb)
}

// endSpan ends the span of a verb, which failed if err is not nil.
func endSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// handler makes the spans of calls. There are no metrics: the program ends
// before anyone could read them.
func (t traces) handler() stats.Handler {
	return otelgrpc.NewClientHandler(otelgrpc.WithTracerProvider(t.provider),
		otelgrpc.WithPropagators(t.propagator), otelgrpc.WithMeterProvider(metricnoop.NewMeterProvider()))
}
