package telemetry

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// The names of our own attributes.
const (
	keyListener        = attribute.Key("headgate.listener")
	keyRoute           = attribute.Key("headgate.route")
	keyCluster         = attribute.Key("headgate.cluster")
	keyEndpoint        = attribute.Key("headgate.endpoint")
	keyAttempts        = attribute.Key("headgate.attempts")
	keyReason          = attribute.Key("headgate.reason")
	keyReused          = attribute.Key("headgate.connection.reused")
	keyNotRetried      = attribute.Key("headgate.retry.refused")
	keyHedge           = attribute.Key("headgate.attempt.hedge")
	keyLost            = attribute.Key("headgate.attempt.lost")
	keyMirror          = attribute.Key("headgate.mirror")
	keyOutcome         = attribute.Key("headgate.outcome")
	keyInjected        = attribute.Key("headgate.fault.injected")
	keySnapshotVersion = attribute.Key("headgate.snapshot.version")
	keySnapshotDigest  = attribute.Key("headgate.snapshot.digest")
	keyGeneration      = attribute.Key("headgate.snapshot.generation")
	keyFrom            = attribute.Key("headgate.from")
	keyTo              = attribute.Key("headgate.to")
	keyState           = attribute.Key("headgate.state")
	keyCause           = attribute.Key("headgate.cause")
	keyEvidence        = attribute.Key("headgate.evidence")
	keyOverflow        = attribute.Key("otel.metric.overflow")
)

// producer hands the counters to one reader of metrics.
type producer struct {
	rec    *Recorder
	reader readers
}

// Produce implements sdkmetric.Producer. Sums are cumulative.
func (p producer) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	c := p.rec.list(p.reader)
	metrics := c.all()
	return []metricdata.ScopeMetrics{{
		Scope:   instrumentation.Scope{Name: scopeName, SchemaURL: semconv.SchemaURL},
		Metrics: slices.DeleteFunc(metrics, empty),
	}}, nil
}

// empty reports whether a metric has no point.
func empty(m metricdata.Metrics) bool {
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		return len(data.DataPoints) == 0
	case metricdata.Histogram[float64]:
		return len(data.DataPoints) == 0
	case metricdata.Gauge[float64]:
		return len(data.DataPoints) == 0
	}
	return false
}

// collection is one reading of all series.
type collection struct {
	rec       *Recorder
	now       time.Time
	routes    []*routeSeries
	clusters  []*clusterSeries
	endpoints map[*clusterSeries][]*endpointSeries
	active    SnapshotRecord
}

// list takes the series to be read. Those whose last value this reader gets are
// dropped here, before they are read, so that what ends later is not lost: it is
// counted elsewhere.
func (r *Recorder) list(reader readers) *collection {
	r.mu.Lock()
	defer r.mu.Unlock()
	if reader == readerPrometheus {
		r.scraped = time.Now()
	}
	c := &collection{rec: r, now: time.Now(), active: r.state.active, endpoints: make(map[*clusterSeries][]*endpointSeries)}
	c.routes = append(slices.Collect(maps.Values(r.routes)), r.unrouted, r.gone)
	c.clusters = append(slices.Collect(maps.Values(r.clusters)), r.goneCluster.series)
	for _, s := range c.clusters {
		c.endpoints[s] = slices.Collect(maps.Values(s.endpoints))
	}
	r.expire(reader)
	return c
}

func (c *collection) all() []metricdata.Metrics {
	metrics := []metricdata.Metrics{
		c.serverDuration(), c.activeRequests(), c.bytes("headgate.request.bytes", "Body bytes read from clients.", requestBytes),
		c.bytes("headgate.response.bytes", "Body bytes written to clients.", responseBytes),
		c.clientDuration(), c.retries(), c.mirrors(), c.upstreamRequests(), c.upstreamFailures(), c.transitions(), c.circuits(),
		c.snapshots(), c.snapshotInfo(), c.snapshotGeneration(), c.own(),
	}
	return append(metrics, c.observed()...)
}

func (c *collection) serverDuration() metricdata.Metrics {
	var points []metricdata.HistogramDataPoint[float64]
	for _, s := range c.routes {
		for o, d := range s.requests.total() {
			points = append(points, c.histogram(&s.life, d, serverLabels(s.name, o)))
		}
	}
	return histograms("http.server.request.duration", "Duration of HTTP server requests.", points)
}

func (c *collection) clientDuration() metricdata.Metrics {
	var points []metricdata.HistogramDataPoint[float64]
	for _, s := range c.clusters {
		for o, d := range s.requests.total() {
			points = append(points, c.histogram(&s.life, d, o.labels(400, keyCluster.String(s.name))))
		}
	}
	return histograms("http.client.request.duration", "Duration of attempts at upstreams.", points)
}

// serverLabels are the labels of a route's outcome; a request without a route has no
// http.route.
func serverLabels(route string, o outcome) attribute.Set {
	if route == "" {
		return o.labels(500)
	}
	return o.labels(500, semconv.HTTPRoute(route))
}

// labels are those of an outcome; first is the lowest status that is an error.
func (o outcome) labels(first int, more ...attribute.KeyValue) attribute.Set {
	if o == outcomeOverflow {
		return attribute.NewSet(append(more, keyOverflow.Bool(true))...)
	}
	more = append(more, semconv.HTTPRequestMethodKey.String(o.method()))
	status, kind := o.status(), errorType(o.reason(), o.status(), first)
	switch {
	case status == statusOther:
		more = append(more, semconv.HTTPResponseStatusCodeKey.String(otherName))
		kind = cmp.Or(o.reason(), otherName)
	case status != 0:
		more = append(more, semconv.HTTPResponseStatusCode(status))
	}
	if kind != "" {
		more = append(more, semconv.ErrorTypeKey.String(kind))
	}
	return attribute.NewSet(more...)
}

func (c *collection) histogram(l *life, d *duration, labels attribute.Set) metricdata.HistogramDataPoint[float64] {
	return metricdata.HistogramDataPoint[float64]{
		Attributes: labels, StartTime: l.created, Time: c.now,
		Count: d.count, Bounds: bounds, BucketCounts: d.counts, Sum: time.Duration(d.sum).Seconds(),
	}
}

func histograms(name, description string, points []metricdata.HistogramDataPoint[float64]) metricdata.Metrics {
	return metricdata.Metrics{Name: name, Description: description, Unit: "s",
		Data: metricdata.Histogram[float64]{DataPoints: points, Temporality: metricdata.CumulativeTemporality}}
}

// points collects the points of one sum; those that are zero are left out.
type points struct {
	c    *collection
	list []metricdata.DataPoint[int64]
}

func (p *points) add(start time.Time, n uint64, labels ...attribute.KeyValue) {
	if n == 0 {
		return
	}
	p.list = append(p.list, metricdata.DataPoint[int64]{
		Attributes: attribute.NewSet(labels...), StartTime: start, Time: p.c.now, Value: int64(n),
	})
}

func (p *points) counter(name, unit, description string) metricdata.Metrics {
	return metricdata.Metrics{Name: name, Description: description, Unit: unit,
		Data: metricdata.Sum[int64]{DataPoints: p.list, Temporality: metricdata.CumulativeTemporality, IsMonotonic: true}}
}

// activeRequests tells zero as well, so that the gauge comes down.
func (c *collection) activeRequests() metricdata.Metrics {
	totals := make(map[attribute.Set]int64)
	for i := range len(methodNames) * schemes {
		n := c.rec.active.total(i)
		totals[attribute.NewSet(
			semconv.HTTPRequestMethodKey.String(methodNames[i/schemes]),
			semconv.URLScheme([]string{"http", "https"}[i%schemes]))] += n
	}
	var list []metricdata.DataPoint[int64]
	for labels, n := range totals {
		list = append(list, metricdata.DataPoint[int64]{Attributes: labels, StartTime: c.rec.start, Time: c.now, Value: n})
	}
	return metricdata.Metrics{Name: "http.server.active_requests", Description: "HTTP requests in flight.", Unit: "{request}",
		Data: metricdata.Sum[int64]{DataPoints: list, Temporality: metricdata.CumulativeTemporality}}
}

func requestBytes(b *byteCell) uint64  { return uint64(b.in.Load()) }
func responseBytes(b *byteCell) uint64 { return uint64(b.out.Load()) }

func (c *collection) bytes(name, description string, value func(*byteCell) uint64) metricdata.Metrics {
	p := points{c: c}
	for _, s := range c.routes {
		var n uint64
		s.bytes.each(func(cell *byteCell) { n += value(cell) })
		if s.name == "" {
			p.add(s.created, n)
			continue
		}
		p.add(s.created, n, semconv.HTTPRoute(s.name))
	}
	return p.counter(name, "By", description)
}

func (c *collection) retries() metricdata.Metrics {
	p := points{c: c}
	for _, s := range c.clusters {
		var n uint64
		s.retries.each(func(cell *countCell) { n += cell.n.Load() })
		p.add(s.created, n, keyCluster.String(s.name))
	}
	return p.counter("headgate.retries", "{attempt}", "Attempts beyond the first of a request.")
}

func (c *collection) upstreamRequests() metricdata.Metrics {
	p := points{c: c}
	for s, e := range c.eachEndpoint {
		var n uint64
		e.requests.each(func(cell *endpointCell) { n += cell.requests.Load() })
		p.add(e.created, n, keyCluster.String(s.name), keyEndpoint.String(e.address))
	}
	return p.counter("headgate.upstream.requests", "{attempt}", "Attempts at an endpoint.")
}

func (c *collection) upstreamFailures() metricdata.Metrics {
	p := points{c: c}
	for s, e := range c.eachEndpoint {
		var n [len(reasons)]uint64
		e.requests.each(func(cell *endpointCell) {
			for i := range n {
				n[i] += cell.failures[i].Load()
			}
		})
		for i, count := range n {
			p.add(e.created, count, keyCluster.String(s.name), keyEndpoint.String(e.address), semconv.ErrorTypeKey.String(reasons[i].name))
		}
	}
	return p.counter("headgate.upstream.failures", "{attempt}", "Attempts at an endpoint that failed, by reason.")
}

func (c *collection) transitions() metricdata.Metrics {
	p := points{c: c}
	for s, e := range c.eachEndpoint {
		for i := range e.transitions {
			p.add(e.created, e.transitions[i].Load(), keyCluster.String(s.name), keyEndpoint.String(e.address), keyTo.String(healthStates[i]))
		}
	}
	return p.counter("headgate.endpoint.transitions", "{transition}", "Changes of an endpoint's health, by the new state.")
}

func (c *collection) circuits() metricdata.Metrics {
	p := points{c: c}
	for s, e := range c.eachEndpoint {
		for i := range e.circuits {
			p.add(e.created, e.circuits[i].Load(), keyCluster.String(s.name), keyEndpoint.String(e.address), keyTo.String(circuitStates[i]))
		}
	}
	return p.counter("headgate.endpoint.circuit.transitions", "{transition}", "Changes of an endpoint's circuit, by the new state.")
}

func (c *collection) eachEndpoint(yield func(*clusterSeries, *endpointSeries) bool) {
	for _, s := range c.clusters {
		for _, e := range c.endpoints[s] {
			if !yield(s, e) {
				return
			}
		}
	}
}

func (c *collection) snapshots() metricdata.Metrics {
	p := points{c: c}
	for i, name := range snapshotStates {
		p.add(c.rec.start, c.rec.state.counts[i].Load(), keyState.String(name))
	}
	return p.counter("headgate.snapshot.transitions", "{transition}", "Steps of snapshots, by the new state.")
}

func (c *collection) snapshotInfo() metricdata.Metrics {
	return c.gauge("headgate.snapshot.info", "The active snapshot.", 1,
		keySnapshotVersion.String(c.active.Version), keySnapshotDigest.String(c.active.Digest))
}

func (c *collection) snapshotGeneration() metricdata.Metrics {
	return c.gauge("headgate.snapshot.generation", "Activations on this node.", float64(c.active.Generation))
}

// gauge is one value about the active snapshot, or nothing before there is one.
func (c *collection) gauge(name, description string, value float64, labels ...attribute.KeyValue) metricdata.Metrics {
	var list []metricdata.DataPoint[float64]
	if c.active.State != "" {
		list = append(list, metricdata.DataPoint[float64]{Attributes: attribute.NewSet(labels...), Time: c.now, Value: value})
	}
	return metricdata.Metrics{Name: name, Description: description, Data: metricdata.Gauge[float64]{DataPoints: list}}
}

// own is what telemetry itself lost.
func (c *collection) own() metricdata.Metrics {
	p := points{c: c}
	p.add(c.rec.start, c.rec.logs.lost.Load(), attribute.String("headgate.telemetry.part", "access_log"))
	p.add(c.rec.start, c.rec.ring.taps.cut.Load(), attribute.String("headgate.telemetry.part", "tap"))
	return p.counter("headgate.telemetry.lost", "{item}", "Access log lines dropped, and taps cut off because they were slow.")
}
