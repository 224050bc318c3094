package telemetry

import "github.com/headgate/headgate/dataplane/socket"

// Finish records an exchange that is over: counters, the ring of recent
// requests, the access log and, if it is sampled, its spans. It allocates
// nothing unless spans are made or somebody listens to Tap. The exchange is not
// kept; its slices may be reused when Finish returns.
func (v *View) Finish(x *Exchange) {
	if x.Ended == 0 {
		x.Ended = socket.Now()
	}
	for _, a := range x.Each {
		if a.Ended == 0 {
			a.Ended = x.Ended
		}
	}
	v.count(x)
	v.rec.ring.add(v, x)
	v.rec.logs.write(v, x)
	if x.Trace.record {
		v.record(x)
	}
}

// count adds the exchange to the counters.
func (v *View) count(x *Exchange) {
	if x.active != nil {
		x.active.Add(-1)
		x.active = nil
	}
	shards := v.rec.shards
	route := v.routeOf(x.Route)
	route.requests.add(x.Shard, shards, makeOutcome(x.Method, x.Status, x.Reason), x.Ended-x.Started)
	if x.BytesIn|x.BytesOut != 0 {
		bytes := route.bytes.at(x.Shard, shards)
		bytes.in.Add(x.BytesIn)
		bytes.out.Add(x.BytesOut)
	}
	for n, a := range x.Each {
		v.countAttempt(x, a, n-1)
	}
}

// countAttempt adds an attempt to the counters; retry is its number from 0.
func (v *View) countAttempt(x *Exchange, a *Attempt, retry int) {
	t := v.clusterOf(x.Cluster)
	if t == nil {
		return
	}
	shards := v.rec.shards
	t.series.requests.add(x.Shard, shards, makeOutcome(x.Method, a.Status, a.Reason), a.Ended-a.Started)
	endpoint := t.endpoint(a.Endpoint).requests.at(x.Shard, shards)
	endpoint.requests.Add(1)
	if reason := reasonOf(a.Reason); reason != 0 {
		endpoint.failures[reason].Add(1)
	}
	if retry > 0 {
		t.series.retries.at(x.Shard, shards).n.Add(1)
	}
}
