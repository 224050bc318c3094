package telemetry

import "sync/atomic"

// found is the series of endpoints that no snapshot lists: DNS finds them, and
// others take their place, while the snapshot stays. The zero value has none.
type found struct {
	byAddress atomic.Pointer[map[string]*endpointSeries] // replaced under Recorder.mu, never written
}

func (f *found) all() map[string]*endpointSeries {
	if m := f.byAddress.Load(); m != nil {
		return *m
	}
	return nil
}

func (f *found) endpoint(address string) *endpointSeries { return f.all()[address] }

func (f *found) size() int { return len(f.all()) }

// touch marks the endpoints as part of a generation. Recorder.mu is held.
func (f *found) touch(generation uint64) {
	for _, e := range f.all() {
		e.renew(generation)
	}
}

// Resolved replaces the endpoints of a cluster that are found by DNS. Those that
// are gone are retired. It changes nothing for a cluster that no view has.
func (r *Recorder) Resolved(cluster string, addresses []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.clusters[cluster]
	if s == nil {
		return
	}
	next := make(map[string]*endpointSeries, len(addresses))
	for _, address := range addresses {
		e := r.endpoint(s, address)
		e.renew(r.views)
		next[address] = e
	}
	for address, e := range s.found.all() {
		if next[address] == nil && s.table.endpoints[address] == nil {
			e.generation = 0
		}
	}
	s.found.byAddress.Store(&next)
	r.enforceRetired()
}
