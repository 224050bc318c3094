package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// MirrorOutcome is what became of the copy of a request.
type MirrorOutcome uint8

// The outcomes of a mirror.
const (
	MirrorAnswered  MirrorOutcome = iota // whatever the answer was
	MirrorFailed                         // there was no answer, or not all of it
	MirrorRefused                        // as many were under way as may be; it was not sent
	MirrorAbandoned                      // the mirror took the body too slowly, or the client left in the middle of it
	mirrorOutcomes
)

var mirrorNames = [mirrorOutcomes]string{"answered", "failed", "refused", "abandoned"}

// Mirrored counts the copy of a request that was sent, or was to be sent, to a
// cluster. x has the facts of the copy, with its one attempt; it is not an
// exchange by itself and is in no log. A sampled one is a span of kind CLIENT
// below that of the request.
func (v *View) Mirrored(x *Exchange, o MirrorOutcome) {
	v.MirrorOutcome(x.Cluster, o)
	a := x.last()
	if a == nil {
		return
	}
	a.Mirror = true
	if a.Ended == 0 {
		a.Ended = x.Ended
	}
	v.countAttempt(x, a, 0)
	if t := &x.Trace; t.record {
		parent := trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: t.ID, SpanID: t.SpanID, TraceFlags: trace.TraceFlags(t.flags), TraceState: spanState(string(t.state)),
		})
		v.recordAttempt(trace.ContextWithSpanContext(context.Background(), parent), x, a, 1)
	}
}

// MirrorOutcome counts a copy of which there is nothing to tell.
func (v *View) MirrorOutcome(c *snapshot.Cluster, o MirrorOutcome) {
	if t := v.clusterOf(c); t != nil {
		t.series.mirrors[o].Add(1)
	}
}

func (c *collection) mirrors() metricdata.Metrics {
	p := points{c: c}
	for _, s := range c.clusters {
		for o, name := range mirrorNames {
			p.add(s.created, s.mirrors[o].Load(), keyCluster.String(s.name), keyOutcome.String(name))
		}
	}
	return p.counter("headgate.mirror.requests", "{request}", "Copies of requests for a cluster, by what became of them.")
}
