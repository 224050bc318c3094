// Package telemetry records what happens to requests: counters and durations,
// an access log, a ring of recent requests, and spans of those that are sampled.
//
// It owns the counters (which outlive snapshots), the OpenTelemetry providers,
// the access log's files and the ring. It must not know how a request is served
// or where a control plane is: the proxy hands it plain facts (Exchange), others
// hand it health records and gauges. The path of a request that is not sampled
// touches no OpenTelemetry code, takes no contended lock and allocates nothing.
package telemetry

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// ErrShutdown says that the Recorder was shut down.
var ErrShutdown = errors.New("telemetry was shut down")

// reopenTimeout bounds Reopen.
const reopenTimeout = 5 * time.Second

// Options are the parameters of New. Zero values work.
type Options struct {
	Service string       // service.name, unless OTEL_SERVICE_NAME says otherwise; default headgate
	Version string       // service.version
	Node    string       // service.instance.id; none if empty
	Shards  int          // of the counters: Exchange.Shard is below it; default 1
	Logger  *slog.Logger // for its own troubles and for health transitions; default: discards
	Stdout  io.Writer    // the access log "-"; default os.Stdout
}

// Recorder is the telemetry of one data plane. All methods are safe for all
// goroutines.
type Recorder struct {
	logger *slog.Logger
	shards int
	start  time.Time

	otel  providers
	spans trace.Tracer // nil: no exporter, so no spans are made
	event log.Logger

	active      activeTable
	unrouted    *routeSeries  // requests that no route matched
	gone        *routeSeries  // late ends of routes that were dropped
	goneCluster *clusterTable // the same of clusters
	current     atomic.Pointer[View]
	ring        ring
	logs        *accessLogs
	registry    *prometheus.Registry
	exporting   bool // metrics go to a reader besides /metrics
	untraced    bool // OTEL_SDK_DISABLED: trace context passes untouched, whatever a snapshot says

	mu        sync.Mutex
	views     uint64 // made so far
	latest    *View  // of them
	routes    map[string]*routeSeries
	clusters  map[string]*clusterSeries
	endpoints int // series of endpoints, of all clusters; not fewer than there are
	observers []observer
	scraped   time.Time // when /metrics was last read
	state     snapshotState
	closed    bool
}

// New makes a Recorder. The OTEL_* variables decide what is exported and where
// to; without them nothing leaves the process.
func New(ctx context.Context, o Options) (*Recorder, error) {
	o.fill()
	r := &Recorder{
		logger: o.Logger, shards: o.Shards, start: time.Now(), untraced: disabled(),
		active: activeTable{make([]activeShard, o.Shards)},
		routes: make(map[string]*routeSeries), clusters: make(map[string]*clusterSeries),
	}
	r.unrouted = &routeSeries{life: r.newLife()}
	r.gone = &routeSeries{name: otherName, life: r.newLife()}
	r.goneCluster = r.table(&clusterSeries{
		name: otherName, life: r.newLife(), endpoints: make(map[string]*endpointSeries),
	}, nil)
	r.endpoints = 0 // goneCluster is none of clusters
	r.latest = &View{rec: r}
	r.current.Store(r.latest)
	if err := r.connect(ctx, &o); err != nil {
		return nil, err
	}
	r.logs = newAccessLogs(o.Stdout, o.Logger, o.Shards)
	return r, nil
}

func (o *Options) fill() {
	if o.Service == "" {
		o.Service = "headgate"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Stdout == nil {
		o.Stdout = os.Stdout
	}
	o.Shards = max(o.Shards, 1)
}

// TracerProvider makes tracers for what is not an exchange, such as the control
// API. It does nothing if no trace exporter is configured.
func (r *Recorder) TracerProvider() trace.TracerProvider { return r.otel.traces }

// Tracer is the data plane's own tracer of TracerProvider.
func (r *Recorder) Tracer() trace.Tracer { return r.otel.traces.Tracer(scopeName) }

// MeterProvider makes meters; what they measure is exported and at /metrics. It
// does nothing if OTEL_SDK_DISABLED is true.
func (r *Recorder) MeterProvider() metric.MeterProvider { return r.otel.metrics }

// LoggerProvider makes loggers of OpenTelemetry records. It does nothing if no
// log exporter is configured.
func (r *Recorder) LoggerProvider() log.LoggerProvider { return r.otel.logs }

// Gatherer yields all metrics for Prometheus.
func (r *Recorder) Gatherer() prometheus.Gatherer { return r.registry }

// Reopen closes the access log's files and opens them anew under their names, as
// wanted after they were moved away. It waits until that is done, but not for a
// disk that hangs.
func (r *Recorder) Reopen() error {
	ctx, cancel := context.WithTimeout(context.Background(), reopenTimeout)
	defer cancel()
	return r.logs.ask(ctx, true)
}

// Flush waits until the lines logged so far are written and the spans and
// records so far are exported.
func (r *Recorder) Flush(ctx context.Context) error {
	return errors.Join(r.logs.ask(ctx, false), r.otel.flush(ctx))
}

// Shutdown exports what is left, closes the files and stops. Exchanges that end
// later are counted and go nowhere. It is called once.
func (r *Recorder) Shutdown(ctx context.Context) error {
	r.mu.Lock()
	again := r.closed
	r.closed = true
	r.mu.Unlock()
	if again {
		return nil
	}
	r.ring.taps.close()
	return errors.Join(r.logs.shutdown(ctx), r.otel.shutdown(ctx))
}
