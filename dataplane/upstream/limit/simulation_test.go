package limit

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// world is a cluster in made time: requests arrive at random, so many workers
// serve them first come first served, and clients lose patience.
type world struct {
	rnd     *rand.Rand
	now     int64
	workers []int64                  // when each is free again
	service func(*rand.Rand) float64 // seconds
	speed   float64                  // by which the service is divided
	ends    ends

	limit    int       // fixed; 0: adaptive
	adaptive *Adaptive // nil: none at all
	window   Window
	due      int64
	inFlight int

	arrived, refused int
	latencies        []int64 // of those that were answered
	lowest, highest  int     // limits
}

type end struct{ at, began int64 }

type ends []end

func (e *ends) Len() int           { return len(*e) }
func (e *ends) Less(i, j int) bool { return (*e)[i].at < (*e)[j].at }
func (e *ends) Swap(i, j int)      { (*e)[i], (*e)[j] = (*e)[j], (*e)[i] }
func (e *ends) Push(x any)         { *e = append(*e, x.(end)) }
func (e *ends) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func newWorld(workers int, service func(*rand.Rand) float64) *world {
	w := &world{rnd: rand.New(rand.NewPCG(3, 5)), workers: make([]int64, workers), service: service, speed: 1, now: 1}
	w.adaptive = NewAdaptive(w.now, 8)
	return w
}

// run lets requests arrive for so long, rate a second, and forgets what it has
// measured before.
func (w *world) run(d time.Duration, rate float64) {
	w.arrived, w.refused, w.latencies = 0, 0, nil
	w.lowest, w.highest = w.allowed(), w.allowed()
	stop := w.now + int64(d)
	for next := w.now; ; {
		if len(w.ends) > 0 && w.ends[0].at <= next {
			w.end(heap.Pop(&w.ends).(end))
			continue
		}
		if next >= stop {
			w.now = stop
			return
		}
		w.now = next
		w.begin()
		next += int64(w.rnd.ExpFloat64() / rate * 1e9)
	}
}

func (w *world) allowed() int {
	switch {
	case w.limit > 0:
		return w.limit
	case w.adaptive != nil:
		return w.adaptive.Limit()
	}
	return 1 << 30
}

func (w *world) begin() {
	w.arrived++
	if w.inFlight >= w.allowed() {
		w.refused++
		w.window.Refused = true
		return
	}
	w.inFlight++
	w.window.Peak = max(w.window.Peak, w.inFlight)
	free := 0
	for i, at := range w.workers {
		if at < w.workers[free] {
			free = i
		}
	}
	at := max(w.now, w.workers[free]) + int64(w.service(w.rnd)/w.speed*1e9)
	w.workers[free] = at
	heap.Push(&w.ends, end{at, w.now})
}

func (w *world) end(e end) {
	w.now = e.at
	w.inFlight--
	w.latencies = append(w.latencies, e.at-e.began)
	if w.adaptive == nil {
		return
	}
	w.window.Add(e.at - e.began)
	if w.now < w.due {
		return
	}
	closed, due := w.adaptive.Observe(w.now, &w.window)
	if w.due = due; closed {
		w.window = Window{Peak: w.inFlight}
	}
	w.lowest, w.highest = min(w.lowest, w.allowed()), max(w.highest, w.allowed())
}

// goodput is how many were answered in time.
func (w *world) goodput(patience time.Duration) (n int) {
	for _, l := range w.latencies {
		if l <= int64(patience) {
			n++
		}
	}
	return n
}

func (w *world) percentile(p float64) time.Duration {
	sorted := slices.Clone(w.latencies)
	slices.Sort(sorted)
	return time.Duration(sorted[int(p/100*float64(len(sorted)-1))]).Round(100 * time.Microsecond)
}

var services = map[string]func(*rand.Rand) float64{
	"constant":    func(*rand.Rand) float64 { return 0.02 },
	"exponential": func(r *rand.Rand) float64 { return 0.02 * r.ExpFloat64() },
	"bimodal": func(r *rand.Rand) float64 { // nine of ten take a hundredth of the tenth
		if r.IntN(10) == 0 {
			return 0.2 * 0.917
		}
		return 0.002 * 0.917
	},
}

const patience = time.Second // of clients

// bestFixed is the best that a limit which knows the cluster reaches.
func bestFixed(workers int, service func(*rand.Rand) float64, rate float64) (goodput int, p99 time.Duration) {
	for _, limit := range []int{workers, workers + workers/4, workers * 2, workers * 4} {
		w := newWorld(workers, service)
		w.adaptive, w.limit = nil, limit
		w.run(20*time.Second, rate)
		if n := w.goodput(patience); float64(n) > 1.02*float64(goodput) {
			goodput, p99 = n, w.percentile(99)
		}
	}
	return goodput, p99
}

// A quiet cluster gets more than it can do, and then less again. Nobody has told
// the limit how many workers there are or how long they take.
func TestOverload(t *testing.T) {
	for name, service := range services {
		for _, workers := range []int{4, 16, 64} {
			for _, load := range []float64{1.2, 2, 5} {
				capacity := float64(workers) / 0.02
				best, bestP99 := bestFixed(workers, service, load*capacity)
				w := newWorld(workers, service)
				w.run(10*time.Second, capacity/2)
				w.run(10*time.Second, load*capacity)
				w.run(20*time.Second, load*capacity)
				part, p99 := float64(w.goodput(patience))/float64(best), w.percentile(99)
				t.Logf("%-11s %2d workers, load %.1f: %.2f of the best goodput, p99 %v where that has %v; limit %d to %d",
					name, workers, load, part, p99, bestP99, w.lowest, w.highest)
				if part < 0.8 || p99 > 3*bestP99 {
					t.Errorf("%s, %d workers, load %v: %.2f of the best goodput, p99 %v where that has %v", name, workers, load, part, p99, bestP99)
				}
				w.run(5*time.Second, capacity/2)
				w.run(10*time.Second, capacity/2)
				if refused := float64(w.refused) / float64(w.arrived); refused > 0.05 {
					t.Errorf("%s, %d workers: %.2f refused after the load had gone", name, workers, refused)
				}
			}
		}
	}
}

// What TestOverload is for: without a limit nobody is answered in time.
func TestOverloadWithoutLimit(t *testing.T) {
	w := newWorld(16, services["exponential"])
	w.adaptive = nil
	w.run(10*time.Second, 1600)
	w.run(10*time.Second, 1600)
	if n := w.goodput(patience); n > 0 {
		t.Errorf("%d of %d answered in time", n, w.arrived)
	}
}

// A cluster that becomes three times slower, and can still do what it is asked
// to, is not starved. One that is quick again is not forgotten.
func TestSlowdownIsFollowed(t *testing.T) {
	for name, service := range services {
		w := newWorld(64, service)
		rate := 0.25 * 64 / 0.02
		w.run(10*time.Second, rate)
		for _, speed := range []float64{1.0 / 3, 1, 1.0 / 3} {
			w.speed = speed
			w.run(10*time.Second, rate)
			first := float64(w.refused) / float64(w.arrived)
			w.run(20*time.Second, rate)
			later := float64(w.refused) / float64(w.arrived)
			t.Logf("%s: speed %.2f: %.3f refused at first, %.3f later; limit %d to %d, baseline %v", name, speed, first, later, w.lowest, w.highest, w.adaptive.Baseline())
			if first > 0.3 || later > 0.01 {
				t.Errorf("%s: at speed %.2f %.3f were refused at first, %.3f later", name, speed, first, later)
			}
		}
	}
}

// A cluster whose floor is too low for it, since it has become both larger and
// slower while it was overloaded, comes off the floor.
func TestFloorIsLeft(t *testing.T) {
	w := newWorld(4, services["exponential"])
	w.run(20*time.Second, 1000)
	w.workers, w.speed = make([]int64, 200), 1.0/3
	w.run(60*time.Second, 1000)
	w.run(20*time.Second, 1000)
	if refused := float64(w.refused) / float64(w.arrived); refused > 0.2 {
		t.Errorf("%.2f refused, limit %d to %d, baseline %v", refused, w.lowest, w.highest, w.adaptive.Baseline())
	}
}

// With a request now and then, however long it takes, nobody is refused.
func TestFewRequests(t *testing.T) {
	for name, service := range services {
		w := newWorld(4, service)
		for _, speed := range []float64{1, 0.1, 1} {
			w.speed = speed
			if w.run(5*time.Minute, 3); w.refused > 0 {
				t.Errorf("%s: %d of %d refused", name, w.refused, w.arrived)
			}
		}
	}
}
