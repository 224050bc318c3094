package telemetry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/otlptranslator"
	prometheusbridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/attribute"
	prometheusexporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/log"
	lognoop "go.opentelemetry.io/otel/log/noop"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
)

// scopeName is the instrumentation scope of everything that is ours.
const scopeName = "github.com/headgate/headgate/dataplane"

// providers are the ways out; those that are not configured do nothing.
type providers struct {
	traces  trace.TracerProvider
	metrics metric.MeterProvider
	logs    log.LoggerProvider

	flushes, stops []func(context.Context) error
}

func (p *providers) flush(ctx context.Context) error { return all(ctx, p.flushes) }

func (p *providers) shutdown(ctx context.Context) error { return all(ctx, p.stops) }

// all calls every function, whatever the others return.
func all(ctx context.Context, calls []func(context.Context) error) error {
	var errs []error
	for _, call := range calls {
		errs = append(errs, call(ctx))
	}
	return errors.Join(errs...)
}

// The signals, as the variables name them.
const (
	signalTraces  = "TRACES"
	signalMetrics = "METRICS"
	signalLogs    = "LOGS"
)

// wanted reports whether the environment asks for the export of a signal. The
// default of the OpenTelemetry specification is to dial localhost:4317 unasked;
// ours is silence.
func wanted(signal string) bool {
	if disabled() {
		return false
	}
	if exporter := os.Getenv("OTEL_" + signal + "_EXPORTER"); exporter != "" {
		return exporter != "none"
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" ||
		os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
}

func disabled() bool { return strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") }

// connect builds the providers as the environment asks.
func (r *Recorder) connect(ctx context.Context, o *Options) (err error) {
	res, err := resourceOf(ctx, o)
	switch {
	case errors.Is(err, resource.ErrPartialResource):
		// The specification has it reported, and the bad variable ignored.
		o.Logger.Warn("OpenTelemetry resource is incomplete", "error", err)
	case err != nil:
		return fmt.Errorf("OpenTelemetry resource: %w", err)
	}
	r.otel = providers{
		traces: tracenoop.NewTracerProvider(), metrics: metricnoop.NewMeterProvider(), logs: lognoop.NewLoggerProvider(),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.otel.shutdown(ctx))
		}
	}()
	if err := r.connectTraces(ctx, res); err != nil {
		return fmt.Errorf("trace exporter: %w", err)
	}
	if err := r.connectLogs(ctx, res); err != nil {
		return fmt.Errorf("log exporter: %w", err)
	}
	if err := r.connectMetrics(ctx, res); err != nil {
		return fmt.Errorf("metric exporter: %w", err)
	}
	r.event = r.otel.logs.Logger(scopeName)
	return nil
}

// resourceOf describes the process; OTEL_SERVICE_NAME and
// OTEL_RESOURCE_ATTRIBUTES have the last word.
func resourceOf(ctx context.Context, o *Options) (*resource.Resource, error) {
	attributes := []attribute.KeyValue{semconv.ServiceName(o.Service)}
	if o.Version != "" {
		attributes = append(attributes, semconv.ServiceVersion(o.Version))
	}
	if o.Node != "" {
		attributes = append(attributes, semconv.ServiceInstanceID(o.Node))
	}
	return resource.New(ctx, resource.WithAttributes(attributes...), resource.WithTelemetrySDK(), resource.WithFromEnv())
}

func (r *Recorder) connectTraces(ctx context.Context, res *resource.Resource) error {
	if !wanted(signalTraces) {
		return nil
	}
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return err
	}
	r.traceTo(sdktrace.NewBatchSpanProcessor(exporter), res)
	return nil
}

// traceTo records spans into a processor. The sampler never thins out: the
// snapshot decided before, and what is not an exchange follows its parent.
func (r *Recorder) traceTo(processor sdktrace.SpanProcessor, res *resource.Resource) {
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithResource(res), sdktrace.WithSpanProcessor(processor),
		sdktrace.WithIDGenerator(chosenIDs{}), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())),
	)
	r.otel.traces = provider
	r.otel.flushes = append(r.otel.flushes, provider.ForceFlush)
	r.otel.stops = append(r.otel.stops, provider.Shutdown)
	r.spans = provider.Tracer(scopeName, trace.WithSchemaURL(semconv.SchemaURL))
}

func (r *Recorder) connectLogs(ctx context.Context, res *resource.Resource) error {
	if !wanted(signalLogs) {
		return nil
	}
	exporter, err := autoexport.NewLogExporter(ctx)
	if err != nil {
		return err
	}
	r.logTo(sdklog.NewBatchProcessor(exporter), res)
	return nil
}

func (r *Recorder) logTo(processor sdklog.Processor, res *resource.Resource) {
	provider := sdklog.NewLoggerProvider(sdklog.WithResource(res), sdklog.WithProcessor(processor))
	r.otel.logs = provider
	r.otel.flushes = append(r.otel.flushes, provider.ForceFlush)
	r.otel.stops = append(r.otel.stops, provider.Shutdown)
	r.event = provider.Logger(scopeName)
}

// connectMetrics always serves /metrics, and exports elsewhere if asked.
// OTEL_SDK_DISABLED leaves /metrics with our own counters, for they need no SDK
// to be counted and go nowhere unless they are read.
func (r *Recorder) connectMetrics(ctx context.Context, res *resource.Resource) error {
	process := prometheus.NewRegistry()
	process.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r.registry = prometheus.NewRegistry()
	r.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	scrape, err := prometheusexporter.New(
		prometheusexporter.WithRegisterer(r.registry), prometheusexporter.WithoutScopeInfo(),
		prometheusexporter.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes),
		prometheusexporter.WithProducer(producer{r, readerPrometheus}),
	)
	if err != nil {
		return err
	}
	options := []sdkmetric.Option{sdkmetric.WithResource(res), sdkmetric.WithReader(scrape)}
	if wanted(signalMetrics) {
		bridge := prometheusbridge.NewMetricProducer(prometheusbridge.WithGatherer(process))
		reader, err := newReader(ctx, both{producer{r, readerOTLP}, bridge})
		if err != nil {
			return err
		}
		r.exporting = true
		options = append(options, sdkmetric.WithReader(reader))
	}
	provider := sdkmetric.NewMeterProvider(options...)
	r.otel.stops = append(r.otel.stops, provider.Shutdown)
	if !disabled() {
		r.otel.metrics = provider
		r.otel.flushes = append(r.otel.flushes, provider.ForceFlush)
	}
	return nil
}

// readerMu guards autoexport's fallback producer, which is global.
var readerMu sync.Mutex

// newReader makes the reader that the environment asks for, fed by a producer.
// OTEL_METRICS_PRODUCERS, which would put another in its place, is refused.
func newReader(ctx context.Context, p sdkmetric.Producer) (sdkmetric.Reader, error) {
	if os.Getenv("OTEL_METRICS_PRODUCERS") != "" {
		return nil, errors.New("OTEL_METRICS_PRODUCERS is not supported: it would leave out the data plane's own metrics")
	}
	readerMu.Lock()
	defer readerMu.Unlock()
	autoexport.WithFallbackMetricProducer(func(context.Context) (sdkmetric.Producer, error) { return p, nil })
	return autoexport.NewMetricReader(ctx)
}

// both is two producers as one.
type both [2]sdkmetric.Producer

// Produce returns the metrics of both.
func (b both) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	first, err1 := b[0].Produce(ctx)
	second, err2 := b[1].Produce(ctx)
	return append(first, second...), errors.Join(err1, err2)
}
