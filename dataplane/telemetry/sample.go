package telemetry

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
)

// Begin counts the exchange as in flight and decides about its trace. It is
// called when the head was read, or was found to be broken; traceparent and
// tracestate are the values of those fields, nil if there is none or, for
// traceparent, more than one; lines of tracestate are joined. They must stay valid until Finish. Every Begin is
// followed by one Finish.
func (v *View) Begin(x *Exchange, traceparent, tracestate []byte) {
	if v.rec.current.Load().generation < v.generation {
		v.rec.Use(v)
	}
	if x.Started == 0 {
		x.Started = socket.Now()
	}
	x.active = v.rec.active.at(x.Shard, x.Method, x.HTTPS)
	x.active.Add(1)
	x.Trace = Trace{}
	if v.tracing {
		v.sample(&x.Trace, traceparent, tracestate)
	}
}

// sample decides before any span is made: a trusted parent's flag is honoured,
// everything else follows the ratio. What is not recorded has an ID all the same
// (OpenTelemetry SDK, "Sampling": a span ID is generated whatever the decision is).
func (v *View) sample(t *Trace, traceparent, tracestate []byte) {
	t.Rewrite = true
	if v.trust {
		if p, ok := parseTraceparent(traceparent); ok {
			t.keep(p, tracestate)
		}
	}
	if !t.kept {
		t.begin(v.bound)
	}
	t.SpanID = newSpanID()
	t.record = t.Sampled && v.rec.spans != nil
}

// keep continues the trace that the client is part of.
func (t *Trace) keep(p parent, tracestate []byte) {
	t.kept, t.KeepState = true, validTracestate(tracestate)
	t.ID, t.Parent, t.flags = p.traceID, p.spanID, p.flags
	t.Sampled = p.flags&flagSampled != 0
	if t.KeepState {
		t.state = tracestate
	}
}

// begin starts a trace. The decision is a function of the trace ID, the same
// that the SDK's TraceIDRatioBased makes.
func (t *Trace) begin(bound uint64) {
	binary.BigEndian.PutUint64(t.ID[:8], rand.Uint64()|1) // never all zero
	low := rand.Uint64()
	binary.BigEndian.PutUint64(t.ID[8:], low)
	if low>>1 < bound {
		t.Sampled, t.flags = true, flagSampled
	}
}

// ratioBound is the exclusive upper bound of the 63 low bits of a sampled trace
// ID.
func ratioBound(ratio float64) uint64 {
	if ratio >= 1 {
		return 1 << 63
	}
	return uint64(max(ratio, 0) * (1 << 63))
}

// newSpanID is a random ID that is not zero. IDs need to be distinct, not
// secret.
func newSpanID() (id [8]byte) {
	for id == [8]byte{} {
		binary.NativeEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}

// Attempt starts the next attempt of an exchange and returns it for the proxy to
// fill in. The one before it must be over.
func (v *View) Attempt(x *Exchange) *Attempt { return v.AttemptAt(x, socket.Now()) }

// AttemptAt is Attempt by a look at the clock that was taken already.
func (v *View) AttemptAt(x *Exchange, now int64) *Attempt {
	if a := x.last(); a != nil && a.Ended == 0 {
		a.Ended = now
	}
	return v.attempt(x, now)
}

// Hedge is Attempt beside those that are under way.
func (v *View) Hedge(x *Exchange) *Attempt {
	a := v.attempt(x, socket.Now())
	a.Hedge = true
	return a
}

func (v *View) attempt(x *Exchange, now int64) *Attempt {
	a := x.At(x.Tries)
	if x.Tries >= MaxAttempts {
		if a.Ended == 0 {
			a.Ended = now
		}
		v.countAttempt(x, a, x.Tries-MaxAttempts)
	}
	x.Tries++
	*a = Attempt{Started: now}
	if x.Trace.Rewrite {
		a.SpanID = newSpanID()
	}
	return a
}

// countedMethod is the method as metrics know it: what is not common is other.
func countedMethod(m message.Method) message.Method {
	if m == message.MethodNone || m > message.MethodOther {
		return message.MethodOther
	}
	return m
}
