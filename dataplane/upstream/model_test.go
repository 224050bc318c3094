package upstream

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// model is a registry with one cluster, to which random things happen.
type model struct {
	registry *Registry
	cluster  *Cluster
	clusters []*Cluster // in which a request was counted in
	attempts []begun
	revision int
}

// begun is an attempt under way. Some of them were begun without a ticket.
type begun struct {
	*Endpoint
	ticket *Ticket
}

func (m *model) endpoints() (list []*Endpoint) {
	for _, a := range m.attempts {
		list = append(list, a.Endpoint)
	}
	return list
}

// Whatever happens, what is in flight is what was begun and not ended, there is
// an endpoint as long as one has a weight, and applies leave nothing behind.
func TestRegistryAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{registry: NewRegistry(Options{})}
		defer m.registry.Close()
		m.apply(t)
		t.Repeat(map[string]func(*rapid.T){
			"":      m.check,
			"begin": m.begin,
			"end":   m.end,
			"apply": m.apply,
			"abort": func(t *rapid.T) { m.registry.Abort(m.prepare(t)) },
		})
	})
}

func (m *model) prepare(t *rapid.T) *Generation {
	m.revision++
	config := cluster("c")
	config.Identity = fmt.Sprint(m.revision)
	config.PanicThreshold = rapid.SampledFrom([]int{0, 50}).Draw(t, "panic threshold")
	config.MaxRequests = 8
	config.Outlier.ConsecutiveFailures = 2
	names := slices.Sorted(maps.Keys(policies))
	policy := rapid.SampledFrom(names).Draw(t, "policy")
	if policy == "consistent hash" { // whose tables take their time
		policy = rapid.SampledFrom(names).Draw(t, "policy again")
	}
	config.Balancing = policies[policy]
	if rapid.Bool().Draw(t, "breaker") {
		config.CircuitBreaker = &snapshot.CircuitBreaker{ConsecutiveFailures: 2, OpenFor: time.Microsecond, HalfOpenRequests: 1}
	}
	priorities := rapid.IntRange(1, 2).Draw(t, "priorities")
	for i := range 4 {
		if weight := rapid.IntRange(-1, 3).Draw(t, "weight"); weight >= 0 {
			config.Endpoints = append(config.Endpoints, snapshot.Endpoint{Address: fmt.Sprintf("s%d:1", i), Weight: weight, Priority: i % priorities})
		}
	}
	return m.registry.Prepare([]*snapshot.Cluster{config})
}

func (m *model) apply(t *rapid.T) {
	g := m.prepare(t)
	m.registry.Commit(g)
	m.cluster = g.Cluster(0)
}

func (m *model) begin(t *rapid.T) {
	if !m.cluster.Begin() {
		if len(m.clusters) < 8 {
			t.Fatalf("refused with %d in flight", len(m.clusters))
		}
		return
	}
	m.clusters = append(m.clusters, m.cluster)
	p := Pick{Hash: rapid.Uint64().Draw(t, "hash"), HasHash: rapid.Bool().Draw(t, "has hash")}
	if rapid.Bool().Draw(t, "retry") {
		p.Tried = m.endpoints()
	}
	if rapid.Bool().Draw(t, "by Pick") {
		if e, why := m.cluster.Choose(&p); why == 0 {
			e.Begin()
			m.attempts = append(m.attempts, begun{Endpoint: e})
		}
		return
	}
	if e, ticket, why := m.cluster.Start(&p); why == 0 {
		m.attempts = append(m.attempts, begun{e, &ticket})
	}
}

func (m *model) end(t *rapid.T) {
	if len(m.clusters) == 0 {
		t.Skip("nothing in flight")
	}
	m.clusters[0].End()
	m.clusters = m.clusters[1:]
	if len(m.attempts) > 0 {
		a, o := m.attempts[0], Outcome(rapid.IntRange(int(Success), int(Ignored)).Draw(t, "outcome"))
		m.attempts = m.attempts[1:]
		if a.ticket != nil {
			a.End(*a.ticket, o, int64(time.Millisecond))
		} else {
			a.Done(o, int64(time.Millisecond))
		}
	}
}

func (m *model) check(t *rapid.T) {
	s := m.cluster.Status()
	if s.InFlight != int64(len(m.clusters)) {
		t.Fatalf("%d requests in flight, want %d", s.InFlight, len(m.clusters))
	}
	inFlight := map[string]int64{}
	for _, a := range m.attempts {
		inFlight[a.Address()]++
	}
	weighted, available := 0, 0
	for i, e := range s.Endpoints {
		// Attempts on one that has left and come back count there, not here.
		if e.InFlight > inFlight[e.Address] {
			t.Fatalf("%s: %d in flight, want %d", e.Address, e.InFlight, inFlight[e.Address])
		}
		if m.cluster.config.Endpoints[i].Weight > 0 {
			weighted++
			if e.State != StateEjected && e.Circuit == CircuitClosed {
				available++
			}
		}
	}
	e, why := m.cluster.Pick(nil)
	switch {
	case weighted == 0 && why != NoEndpoints, weighted > 0 && why == NoEndpoints, weighted > 0 && available > 0 && e == nil:
		t.Fatalf("%d with a weight, %d available: %v, %v", weighted, available, e, why)
	}
	m.checkTree(t)
	if n := len(m.cluster.group.views); n != 1 {
		t.Fatalf("%d views", n)
	}
	if n := len(m.cluster.group.endpoints); n != len(m.cluster.endpoints) {
		t.Fatalf("%d endpoints known, %d configured", n, len(m.cluster.endpoints))
	}
}

// checkTree looks whether the trees of loads know what is in flight: whom they
// choose has the least.
func (m *model) checkTree(t *rapid.T) {
	k := m.cluster.picker.Load()
	for i := range k.levels {
		l := &k.levels[i]
		if l.least == nil {
			continue
		}
		chosen := l.least.Choose(rapid.Uint64().Draw(t, "share"))
		for place, w := range l.weights {
			n, least := l.endpoints[place].InFlight(), l.endpoints[chosen].InFlight()
			if w > 0 && n*int64(l.weights[chosen]) < least*int64(w) {
				t.Fatalf("the tree chose %d with %d in flight, %d has %d", chosen, least, place, n)
			}
		}
	}
}

func TestRequestsDoNotAllocate(t *testing.T) {
	c := only(t, Options{}, cluster("c", accepting(t), "b:1 0"))
	first, _ := c.Pick(nil)
	conn, err := first.Dial(0)
	must(t, err)
	conn.Release(0)
	tried := []*Endpoint{c.endpoints[1]}
	allocs := testing.AllocsPerRun(100, func() {
		c.Begin()
		e, _ := c.Pick(tried)
		e.Begin()
		e.Idle(0).Release(0)
		e.Done(Success, 1)
		c.End()
	})
	if allocs != 0 {
		t.Fatalf("%v allocations", allocs)
	}
}

// many is so many clusters of two endpoints each.
func many(n int) []*snapshot.Cluster {
	list := make([]*snapshot.Cluster, n)
	for i := range list {
		list[i] = cluster(fmt.Sprintf("c%d", i), fmt.Sprintf("10.0.%d.%d:80", i/256, i%256), "10.1.1.1:80")
	}
	return list
}

// An apply makes what changed and nothing else, and no cluster has a goroutine.
func TestApplyCostsWhatChanged(t *testing.T) {
	list := many(2000)
	r := start(t, Options{})
	goroutines := runtime.NumGoroutine()
	apply(t, r, list...)
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, %d before", n, goroutines)
	}
	revision := 0
	allocs := testing.AllocsPerRun(3, func() {
		revision++
		changed := *list[77]
		changed.Identity = fmt.Sprint(revision)
		list[77] = &changed
		r.Commit(r.Prepare(list))
	})
	if allocs > 100 {
		t.Errorf("%v allocations for one changed cluster among 2,000", allocs)
	}
}

func BenchmarkApply(b *testing.B) {
	list := many(10_000)
	b.Run("10000 clusters", func(b *testing.B) {
		for b.Loop() {
			r := NewRegistry(Options{})
			r.Commit(r.Prepare(list))
			b.StopTimer()
			r.Close()
			b.StartTimer()
		}
	})
	b.Run("one of 10000 changed", func(b *testing.B) {
		r := start(b, Options{})
		r.Commit(r.Prepare(list))
		next := many(10_000) // equal, but not the same objects
		for i := 0; b.Loop(); i++ {
			changed := *next[77]
			changed.Identity = fmt.Sprint(i)
			next[77] = &changed
			r.Commit(r.Prepare(next))
		}
	})
}

func BenchmarkPick(b *testing.B) {
	config := cluster("c")
	for i := range 1000 {
		config.Endpoints = append(config.Endpoints, snapshot.Endpoint{Address: fmt.Sprintf("s%d:1", i), Weight: 1 + i%3})
	}
	c := only(b, Options{}, config)
	for b.Loop() {
		c.Pick(nil)
	}
}

func BenchmarkAttempt(b *testing.B) {
	c := only(b, Options{}, cluster("c", "a:1"))
	for b.Loop() {
		c.Begin()
		e, _ := c.Pick(nil)
		e.Begin()
		e.Done(Success, 1)
		c.End()
	}
}
