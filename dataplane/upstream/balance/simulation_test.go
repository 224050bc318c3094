package balance

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// simulation is a cluster in made time: requests arrive at random, each server
// answers so many at one time and keeps the others waiting.
type simulation struct {
	rnd     *rand.Rand
	now     int64
	servers []server
	weights []int
	pending arrivals

	position Position
	order    []int32
	alias    Alias[int]
	least    *Least
	latency  []int64 // of the requests that ended
	taken    []int   // requests by server
}

// server takes an exponentially distributed time for a request.
type server struct {
	mean     int64 // nanoseconds
	fails    bool  // at once
	inFlight int64
	free     [4]int64 // when each of its workers is free again
	average  Latency
}

// arrival is the end of a request.
type arrival struct{ at, began, server int64 }

type arrivals []arrival

func (a *arrivals) Len() int           { return len(*a) }
func (a *arrivals) Less(i, j int) bool { return (*a)[i].at < (*a)[j].at }
func (a *arrivals) Swap(i, j int)      { (*a)[i], (*a)[j] = (*a)[j], (*a)[i] }
func (a *arrivals) Push(x any)         { *a = append(*a, x.(arrival)) }

func (a *arrivals) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

func newSimulation(servers []server) *simulation {
	s := &simulation{rnd: rand.New(rand.NewPCG(7, 7)), now: 1, servers: servers, taken: make([]int, len(servers))}
	s.weights = slices.Repeat([]int{1}, len(servers))
	s.order, s.alias, s.least = Sequence(s.weights), NewAlias(s.weights, indices(s.weights)), NewLeast(s.weights)
	return s
}

// tenWithOneSlow is ten servers of 10 ms, the last ten times slower.
func tenWithOneSlow() []server {
	servers := slices.Repeat([]server{{mean: 10e6}}, 10)
	servers[9].mean = 100e6
	return servers
}

// run lets requests arrive, rate a second, chosen for by choose.
func (s *simulation) run(requests int, rate float64, choose func(*simulation) int) {
	for next := s.now; requests > 0 || len(s.pending) > 0; {
		if requests > 0 && (len(s.pending) == 0 || next <= s.pending[0].at) {
			s.now = next
			s.begin(choose(s))
			next += int64(s.rnd.ExpFloat64() / rate * 1e9)
			requests--
			continue
		}
		s.end(heap.Pop(&s.pending).(arrival))
	}
}

func (s *simulation) begin(i int) {
	v := &s.servers[i]
	v.inFlight++
	s.taken[i]++
	s.least.Set(i, v.inFlight)
	end := s.now
	if !v.fails {
		worker := 0
		for w := range v.free {
			if v.free[w] < v.free[worker] {
				worker = w
			}
		}
		end = max(s.now, v.free[worker]) + int64(s.rnd.ExpFloat64()*float64(v.mean))
		v.free[worker] = end
	}
	heap.Push(&s.pending, arrival{at: end, began: s.now, server: int64(i)})
}

func (s *simulation) end(a arrival) {
	s.now = a.at
	v := &s.servers[a.server]
	v.inFlight--
	s.least.Set(int(a.server), v.inFlight)
	took := a.at - a.began
	if v.fails {
		v.average = v.average.Failed(s.now, took)
		return
	}
	v.average = v.average.Succeeded(s.now, took)
	s.latency = append(s.latency, took)
}

// percentile is of the latencies, sorted by this.
func (s *simulation) percentile(p float64) time.Duration {
	slices.Sort(s.latency)
	return time.Duration(s.latency[min(len(s.latency)-1, int(p/100*float64(len(s.latency))))])
}

var policies = map[string]func(*simulation) int{
	"round robin":   func(s *simulation) int { return int(s.order[s.position.Next(len(s.order))]) },
	"random":        func(s *simulation) int { return *s.alias.Draw(s.rnd.Uint64()) },
	"least request": func(s *simulation) int { return s.least.Choose(s.position.Share()) },
	"least of two": func(s *simulation) int {
		a, b := s.two()
		if s.servers[b].inFlight < s.servers[a].inFlight {
			return b
		}
		return a
	},
	"peak EWMA": func(s *simulation) int {
		a, b := s.two()
		if s.cost(b) < s.cost(a) {
			return b
		}
		return a
	},
}

func (s *simulation) two() (a, b int) {
	a, b = *s.alias.Draw(s.rnd.Uint64()), *s.alias.Draw(s.rnd.Uint64())
	for a == b {
		b = *s.alias.Draw(s.rnd.Uint64())
	}
	return a, b
}

func (s *simulation) cost(i int) float64 {
	return s.servers[i].average.Cost(s.now, s.servers[i].inFlight, 1)
}

// One of ten servers is ten times slower. By turns it gets half of what it can
// bear under the light load, and more than twice as much under the heavy one,
// which the others bear with ease. The bounds are parts of round robin's p99.
func TestSlowServerHurtsLess(t *testing.T) {
	for _, load := range []struct {
		rate float64
		most map[string]float64
	}{
		{200, map[string]float64{"least request": 0.8, "least of two": 0.9, "peak EWMA": 0.25}},
		{1000, map[string]float64{"least request": 0.01, "least of two": 0.01, "peak EWMA": 0.01}},
	} {
		p99 := map[string]time.Duration{}
		for name, choose := range policies {
			s := newSimulation(tenWithOneSlow())
			s.run(20_000, load.rate, choose)
			p99[name] = s.percentile(99)
			t.Logf("%4v/s %-14s p50 %8v p99 %8v, the slow one took %.1f%%", load.rate, name,
				s.percentile(50).Round(100*time.Microsecond), p99[name].Round(100*time.Microsecond), float64(s.taken[9])/200)
		}
		for name, most := range load.most {
			if ratio := float64(p99[name]) / float64(p99["round robin"]); ratio > most {
				t.Errorf("%v/s, %s: p99 is %.3f of round robin's, want %v at most", load.rate, name, ratio, most)
			}
		}
	}
}

// Case 24: an endpoint that fails fast looks quick, and must not be loved.
func TestFastFailuresAreNotLoved(t *testing.T) {
	servers := slices.Repeat([]server{{mean: 10e6}}, 10)
	servers[3].fails = true
	s := newSimulation(servers)
	s.run(60_000, 1000, policies["peak EWMA"])
	t.Logf("%d of 60,000 requests went to the one that fails at once", s.taken[3])
	if s.taken[3] > 600 {
		t.Errorf("it took %d of 60,000", s.taken[3])
	}
}

// A slow server that has recovered gets its share again.
func TestRecoveredServerIsFound(t *testing.T) {
	s := newSimulation(tenWithOneSlow())
	s.run(20_000, 1000, policies["peak EWMA"])
	s.servers[9].mean, s.taken[9] = 10e6, 0
	s.run(120_000, 1000, policies["peak EWMA"])
	if share := float64(s.taken[9]) / 120_000; math.Abs(share-0.1) > 0.03 {
		t.Errorf("it took %v after it had recovered", share)
	}
}

func BenchmarkSlowServer(b *testing.B) {
	for name, choose := range policies {
		for _, rate := range []float64{200, 1000} {
			b.Run(fmt.Sprintf("%s at %v a second", name, rate), func(b *testing.B) {
				for b.Loop() {
					s := newSimulation(tenWithOneSlow())
					s.run(20_000, rate, choose)
					b.ReportMetric(float64(s.percentile(99))/1e6, "p99-ms")
				}
			})
		}
	}
}

// Distribution of each balancer over 100,000 picks on an idle cluster.
func TestDistribution(t *testing.T) {
	const picks = 100_000
	weights := []int{1, 2, 3, 4, 10}
	for name, choose := range policies {
		s := newSimulation(make([]server, len(weights)))
		s.weights = weights
		s.order, s.alias, s.least = Sequence(weights), NewAlias(weights, indices(weights)), NewLeast(weights)
		counts := make([]int, len(weights))
		for range picks {
			counts[choose(s)]++
		}
		checkShares(t, name, counts, weights, picks)
	}
	m := NewMaglev([]Member{{ID: 11, Weight: 1, Presence: 100}, {ID: 12, Weight: 2, Presence: 100}, {ID: 13, Weight: 3, Presence: 100}, {ID: 14, Weight: 4, Presence: 100}, {ID: 15, Weight: 10, Presence: 100}})
	counts := make([]int, len(weights))
	for i := range picks {
		counts[m.Choose(Hash(fmt.Sprint("key ", i)))]++
	}
	checkShares(t, "consistent hash", counts, weights, picks)
}

// checkShares allows one percent of all picks, and of its own share too where
// no chance is involved.
func checkShares(t *testing.T, name string, counts, weights []int, picks int) {
	t.Helper()
	for i, w := range weights {
		want := float64(w) / 20
		off := math.Abs(float64(counts[i])/float64(picks) - want)
		if exact := name == "round robin" || name == "least request"; off > 0.01 || exact && off > 0.01*want {
			t.Errorf("%s: weight %d got %d of %d", name, w, counts[i], picks)
		}
	}
}
