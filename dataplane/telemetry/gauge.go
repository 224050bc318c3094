package telemetry

import (
	"maps"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// Label is a name and a value on a gauge or counter.
type Label struct{ Name, Value string }

// Instrument says what a gauge or counter is that others own.
type Instrument struct {
	Name        string // OpenTelemetry's, with dots
	Unit        string // of UCUM, such as "s" or "{connection}"
	Description string // one sentence
	Counter     bool   // it only grows while the process lives
}

// maxObserved bounds the points that one reading takes from all registered
// functions.
const maxObserved = 200_000

// Observe registers a function that is called at each reading of the metrics and
// emits what others own, by the names of the instruments. It must not block, and
// its label values must be bounded by the snapshot.
func (r *Recorder) Observe(instruments []Instrument, fn func(emit func(name string, value float64, labels ...Label))) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.observers = append(r.observers, observer{instruments: instruments, emit: fn})
}

// observer is what Observe was given.
type observer struct {
	instruments []Instrument
	emit        func(emit func(name string, value float64, labels ...Label))
}

// observed calls the registered functions and groups what they emit by name.
func (c *collection) observed() []metricdata.Metrics {
	c.rec.mu.Lock()
	observers := slices.Clone(c.rec.observers)
	c.rec.mu.Unlock()
	var metrics []metricdata.Metrics
	count := 0
	for _, o := range observers {
		byName := make(map[string][]metricdata.DataPoint[float64])
		o.emit(func(name string, value float64, labels ...Label) {
			if count++; count > maxObserved {
				return
			}
			byName[name] = append(byName[name], metricdata.DataPoint[float64]{
				Attributes: labelSet(labels), StartTime: c.rec.start, Time: c.now, Value: value,
			})
		})
		for _, i := range o.instruments {
			if points := byName[i.Name]; points != nil {
				metrics = append(metrics, i.metric(points))
				delete(byName, i.Name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(byName)) { // said of none is a gauge
			metrics = append(metrics, (&Instrument{Name: name}).metric(byName[name]))
		}
	}
	return metrics
}

// metric gives points the form that the instrument has.
func (i *Instrument) metric(points []metricdata.DataPoint[float64]) metricdata.Metrics {
	m := metricdata.Metrics{Name: i.Name, Unit: i.Unit, Description: i.Description}
	if !i.Counter {
		m.Data = metricdata.Gauge[float64]{DataPoints: points}
		return m
	}
	whole := make([]metricdata.DataPoint[int64], len(points))
	for j, p := range points {
		whole[j] = metricdata.DataPoint[int64]{Attributes: p.Attributes, StartTime: p.StartTime, Time: p.Time, Value: int64(p.Value)}
	}
	m.Data = metricdata.Sum[int64]{DataPoints: whole, Temporality: metricdata.CumulativeTemporality, IsMonotonic: true}
	return m
}

func labelSet(labels []Label) attribute.Set {
	attributes := make([]attribute.KeyValue, len(labels))
	for i, l := range labels {
		attributes[i] = attribute.String(l.Name, text([]byte(l.Value)))
	}
	return attribute.NewSet(attributes...)
}
