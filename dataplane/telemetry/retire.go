package telemetry

import "time"

// readers is a set of those who collect metrics.
type readers uint8

const (
	readerOTLP readers = 1 << iota
	readerPrometheus
)

const (
	// maxRetired bounds the series kept only to be exported once more.
	maxRetired = 4096
	// scrapeMemory is how long a scraper that has stopped coming is waited for.
	scrapeMemory = 10 * time.Minute
)

// Use puts a view to use: its access log and ring are the ones written from now
// on, and the names that it lacks are retired. The first Begin of a view does
// it too; an older view than the one in use changes nothing. The names of a view
// cannot have been dropped before: that takes a newer view in use.
func (r *Recorder) Use(v *View) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current.Load().generation >= v.generation {
		return
	}
	r.ring.resize(v.recent, r.shards)
	r.current.Store(v)
	r.logs.use(v.log, v.logJSON)
	r.enforceRetired()
}

// renew marks the series as part of a generation.
func (l *life) renew(generation uint64) {
	l.generation = max(l.generation, generation)
	l.exported = 0
}

// retired reports whether the view in use lacks the name. r.mu is held.
func (r *Recorder) retired(l *life) bool {
	return l.generation < r.current.Load().generation
}

// enforceRetired drops retired series beyond maxRetired. r.mu is held.
func (r *Recorder) enforceRetired() {
	if all := len(r.routes) + len(r.clusters) + r.endpoints; all-r.current.Load().size <= maxRetired {
		return // so few can be retired that none needs to be looked at
	}
	kept := 0
	r.visitRetired(func(*life) bool {
		kept++
		return kept > maxRetired
	})
}

// expire notes that a reader is about to get the retired series, and drops those
// that nobody else waits for. r.mu is held; the caller has listed the series
// before and still exports what is dropped here.
func (r *Recorder) expire(reader readers) {
	awaited := r.awaited()
	r.visitRetired(func(l *life) bool {
		l.exported |= reader
		return l.exported&awaited == awaited
	})
}

// awaited is the set of readers that must have seen a series before it goes.
func (r *Recorder) awaited() (set readers) {
	if r.exporting {
		set |= readerOTLP
	}
	if !r.scraped.IsZero() && time.Since(r.scraped) < scrapeMemory {
		set |= readerPrometheus
	}
	return set
}

// visitRetired offers each retired series and drops those it is told to.
func (r *Recorder) visitRetired(drop func(*life) bool) {
	sweep(r, r.routes, drop)
	sweep(r, r.clusters, drop)
	r.endpoints = 0
	for _, c := range r.clusters {
		if c.mayHaveRetired() {
			sweep(r, c.endpoints, drop)
		}
		r.endpoints += len(c.endpoints)
	}
}

// mayHaveRetired is false if all endpoints are those of the latest view, which is
// what most clusters look like at any time.
func (c *clusterSeries) mayHaveRetired() bool {
	return len(c.endpoints) != len(c.table.endpoints)+1 || c.found.size() > 0
}

func sweep[S lived](r *Recorder, series map[string]S, drop func(*life) bool) {
	for name, s := range series {
		if l := s.base(); r.retired(l) && drop(l) {
			l.dropped.Store(true)
			delete(series, name)
		}
	}
}
