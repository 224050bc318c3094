package telemetry

import (
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// Label is a name and a value on a gauge.
type Label struct{ Name, Value string }

// maxObserved bounds the points that one reading takes from all registered
// functions.
const maxObserved = 200_000

// Observe registers a function that is called at each reading of the metrics and
// emits gauges of what others own. Names are OpenTelemetry's, with dots. It must
// not block, and its label values must be bounded by the snapshot.
func (r *Recorder) Observe(fn func(emit func(name string, value float64, labels ...Label))) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gauges = append(r.gauges, fn)
}

// observed calls the registered functions and groups what they emit by name.
func (c *collection) observed() []metricdata.Metrics {
	c.rec.mu.Lock()
	functions := slices.Clone(c.rec.gauges)
	c.rec.mu.Unlock()
	var names []string
	byName := make(map[string][]metricdata.DataPoint[float64])
	count := 0
	emit := func(name string, value float64, labels ...Label) {
		if count++; count > maxObserved {
			return
		}
		if byName[name] == nil {
			names = append(names, name)
		}
		byName[name] = append(byName[name], metricdata.DataPoint[float64]{
			Attributes: labelSet(labels), Time: c.now, Value: value,
		})
	}
	for _, fn := range functions {
		fn(emit)
	}
	metrics := make([]metricdata.Metrics, 0, len(names))
	for _, name := range names {
		metrics = append(metrics, metricdata.Metrics{Name: name, Data: metricdata.Gauge[float64]{DataPoints: byName[name]}})
	}
	return metrics
}

func labelSet(labels []Label) attribute.Set {
	attributes := make([]attribute.KeyValue, len(labels))
	for i, l := range labels {
		attributes[i] = attribute.String(l.Name, text([]byte(l.Value)))
	}
	return attribute.NewSet(attributes...)
}
