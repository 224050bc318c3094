package telemetry

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// View is a Recorder seen from one snapshot: tables from its routes and clusters
// to the counters. Counters belong to names, not to snapshots, so they live on
// when the same name is in the next one. A View is never written after it was
// made and is safe for all goroutines.
type View struct {
	rec        *Recorder
	generation uint64 // order of creation
	version    string
	digest     string
	routes     []*routeSeries
	clusters   []*clusterTable
	places     map[string]int // of clusters, by name: one that did not change may come from an older snapshot and have another index
	tracing    bool
	trust      bool
	bound      uint64 // of the sampled trace IDs
	log        *logFile
	logJSON    bool
	recent     int
	size       int // series of its routes, clusters and endpoints
}

// life is the part of a series that decides when it goes. A series whose
// generation is older than the view in use is retired: it goes once every
// exporter has had its last value.
type life struct {
	dropped atomic.Bool // no longer exported; count elsewhere
	created time.Time

	// Guarded by Recorder.mu.
	generation uint64
	exported   readers
}

func (l *life) base() *life { return l }

// lived is any series.
type lived interface{ base() *life }

type routeSeries struct {
	life
	name     string
	requests durations
	bytes    sharded[byteCell]
}

// byteCell counts the body bytes of a route.
type byteCell struct {
	in, out atomic.Int64
	_       [48]byte
}

type clusterSeries struct {
	life
	name     string
	requests durations
	retries  sharded[countCell]
	mirrors  [mirrorOutcomes]atomic.Uint64

	endpoints map[string]*endpointSeries // guarded by Recorder.mu
	table     *clusterTable              // of the latest view; guarded by Recorder.mu
	found     found                      // those that no snapshot lists
}

type countCell struct {
	n atomic.Uint64
	_ [56]byte
}

type endpointSeries struct {
	life
	address     string
	requests    sharded[endpointCell]
	transitions [len(healthStates)]atomic.Uint64
	circuits    [len(circuitStates)]atomic.Uint64
}

type endpointCell struct {
	requests atomic.Uint64
	failures [len(reasons)]atomic.Uint64
	_        [64 - (len(reasons)+1)*8%64]byte
}

// clusterTable is a cluster as one or more views see it; never written.
type clusterTable struct {
	series    *clusterSeries
	list      []*endpointSeries          // as in the snapshot
	endpoints map[string]*endpointSeries // the same by address
	other     *endpointSeries            // stands for all others
}

// otherName labels what belongs to no name that is known.
const otherName = "_OTHER"

// View makes the view of a snapshot. It changes nothing for the others until
// Use, or the first Begin, puts it to use.
func (r *Recorder) View(s *snapshot.Snapshot) *View {
	t := &s.Telemetry
	v := &View{
		rec: r, version: s.Version, digest: s.Digest,
		tracing: t.TracingOn && !r.untraced, trust: t.TrustIncoming, bound: ratioBound(t.SampleRatio),
		logJSON: t.AccessLogJSON, recent: t.RecentRequests,
		routes: make([]*routeSeries, len(s.Routes)), clusters: make([]*clusterTable, len(s.Clusters)),
	}
	if t.AccessLog != "" {
		v.log = r.logs.open(t.AccessLog)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.views++
	v.generation = r.views
	for i, route := range s.Routes {
		v.routes[i] = r.route(route.Name, inPlace(r.latest.routes, i))
	}
	for i, cluster := range s.Clusters {
		v.clusters[i] = r.cluster(cluster, inPlace(r.latest.clusters, i))
		v.size += 1 + len(v.clusters[i].endpoints) + 1 // and what stands for all others
		v.size += v.clusters[i].series.found.size()
	}
	v.size += len(v.routes)
	v.place(r.latest)
	r.latest = v
	return v
}

// inPlace is an element, or nil beyond the end.
func inPlace[T any](list []*T, i int) *T {
	if i < len(list) {
		return list[i]
	}
	return nil
}

// place fills in the places of the clusters. They are those of another view if it
// has the same clusters in the same order.
func (v *View) place(other *View) {
	sameSeries := func(a, b *clusterTable) bool { return a.series == b.series }
	if slices.EqualFunc(v.clusters, other.clusters, sameSeries) {
		v.places = other.places
		return
	}
	v.places = make(map[string]int, len(v.clusters))
	for i, t := range v.clusters {
		v.places[t.series.name] = i
	}
}

// Err is why the access log of the view cannot be written now, or nil. The view
// works without it: its lines are dropped and counted.
func (v *View) Err() error {
	if v.log == nil {
		return nil
	}
	return v.log.err()
}

// route finds or makes the series of a name. likely is what the latest view has
// in its place: most often it is the one. No series of that view has been
// dropped. r.mu is held.
func (r *Recorder) route(name string, likely *routeSeries) *routeSeries {
	s := likely
	if s == nil || s.name != name {
		s = r.routes[name]
	}
	if s == nil {
		s = &routeSeries{name: name, life: r.newLife()}
		r.routes[name] = s
	}
	s.renew(r.views)
	return s
}

// cluster finds or makes the series of a cluster and its endpoints. likely is as
// for route. r.mu is held.
func (r *Recorder) cluster(c *snapshot.Cluster, likely *clusterTable) *clusterTable {
	var s *clusterSeries
	if likely != nil && likely.series.name == c.Name {
		s = likely.series
	} else {
		s = r.clusters[c.Name]
	}
	if s == nil {
		s = &clusterSeries{name: c.Name, life: r.newLife(), endpoints: make(map[string]*endpointSeries, len(c.Endpoints))}
		r.clusters[c.Name] = s
	}
	s.renew(r.views)
	if s.table == nil || !s.table.lists(c.Endpoints) {
		s.table = r.table(s, c.Endpoints)
	}
	s.table.touch(r.views)
	if c.DNS != nil {
		s.found.touch(r.views)
	}
	return s.table
}

func (r *Recorder) table(s *clusterSeries, endpoints []snapshot.Endpoint) *clusterTable {
	t := &clusterTable{series: s, endpoints: make(map[string]*endpointSeries, len(endpoints))}
	for i := range endpoints {
		e := r.endpoint(s, endpoints[i].Address)
		t.list = append(t.list, e)
		t.endpoints[e.address] = e
	}
	t.other = r.endpoint(s, otherName)
	return t
}

// endpoint finds or makes the series of an address. r.mu is held.
func (r *Recorder) endpoint(s *clusterSeries, address string) *endpointSeries {
	e := s.endpoints[address]
	if e == nil {
		e = &endpointSeries{address: address, life: r.newLife()}
		s.endpoints[address] = e
		r.endpoints++
	}
	return e
}

// lists reports whether the table is of these endpoints, and all of them are
// still exported.
func (t *clusterTable) lists(endpoints []snapshot.Endpoint) bool {
	return !t.other.dropped.Load() && slices.EqualFunc(t.list, endpoints, func(e *endpointSeries, c snapshot.Endpoint) bool {
		return e.address == c.Address && !e.dropped.Load()
	})
}

// touch marks the endpoints as part of a generation. Recorder.mu is held.
func (t *clusterTable) touch(generation uint64) {
	t.other.renew(generation)
	for _, e := range t.list {
		e.renew(generation)
	}
}

func (r *Recorder) newLife() life { return life{created: time.Now()} }

// find is the series of an address that the snapshot lists, or nil.
func (t *clusterTable) find(address string) *endpointSeries {
	if len(t.list) <= 4 { // a map costs more
		for _, e := range t.list {
			if e.address == address {
				return e
			}
		}
		return nil
	}
	return t.endpoints[address]
}

// endpoint is the series of an address of the cluster.
func (t *clusterTable) endpoint(address string) *endpointSeries {
	e := t.find(address)
	if e == nil {
		e = t.series.found.endpoint(address)
	}
	if e != nil && !e.dropped.Load() {
		return e
	}
	return t.other
}

// routeOf is where the exchanges of a route are counted; nil is no route.
func (v *View) routeOf(route *snapshot.Route) *routeSeries {
	if route == nil || route.Index >= len(v.routes) {
		return v.rec.unrouted
	}
	if s := v.routes[route.Index]; !s.dropped.Load() {
		return s
	}
	return v.rec.gone
}

// clusterOf is where the attempts at a cluster are counted, or nil.
func (v *View) clusterOf(c *snapshot.Cluster) *clusterTable {
	if c == nil {
		return nil
	}
	if c.Index < len(v.clusters) { // most often it is this snapshot's
		if t := v.clusters[c.Index]; t.series.name == c.Name && !t.series.dropped.Load() {
			return t
		}
	}
	if i, ok := v.places[c.Name]; ok && !v.clusters[i].series.dropped.Load() {
		return v.clusters[i]
	}
	return v.rec.goneCluster
}
