package upstream

import (
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/socket"
	"github.com/headgate/headgate/dataplane/upstream/limit"
)

func adaptiveCluster(least int) *snapshot.Cluster {
	c := cluster("c", "127.0.0.1:1")
	c.AdaptiveMinimum = least
	return c
}

// Without a limit that follows latency nothing is counted; with one that comes,
// changes and goes by applies, what waits leaves where it entered.
func TestAdaptiveOverApplies(t *testing.T) {
	r := start(t, Options{})
	c := apply(t, r, adaptiveCluster(0)).Cluster(0)
	if w, ok := c.Await(1); !ok || w.in != nil || c.Status().Adaptive != 0 {
		t.Error("a limit without being asked for")
	}
	c = apply(t, r, adaptiveCluster(8)).Cluster(0)
	w, ok := c.Await(1)
	if !ok || c.Status().Adaptive != limit.Start {
		t.Fatalf("limit %d", c.Status().Adaptive)
	}
	in := w.in
	c = apply(t, r, adaptiveCluster(100)).Cluster(0)
	if c.Status().Adaptive != 100 || c.group.adaptive.Load() != in {
		t.Errorf("limit %d, with a higher minimum", c.Status().Adaptive)
	}
	apply(t, r, adaptiveCluster(0))
	w.End(2, Success)
	w.End(3, Success)
	if n := in.waiting.Load(); n != 0 || in.count.Load() != 1 {
		t.Errorf("%d wait, %d samples", n, in.count.Load())
	}
}

// Failures that are quick say nothing of how long requests take.
func TestAdaptiveSamples(t *testing.T) {
	c := only(t, Options{}, adaptiveCluster(8))
	a := c.group.adaptive.Load()
	a.due.Store(1 << 62)
	for _, o := range []Outcome{Success, ConnectFailure, Reset, Timeout, ServerError, Ignored} {
		w, _ := c.Await(0)
		w.End(1024, o)
	}
	if n, sum := a.count.Load(), a.sum.Load(); n != 2 || sum != 2*limit.Log(1024) {
		t.Errorf("%d samples, sum %d", n, sum)
	}
}

// Under contention nobody is let in beyond the limit, none is lost, and the limit
// follows.
func TestAdaptiveUnderContention(t *testing.T) {
	c := only(t, Options{}, adaptiveCluster(8))
	a, began := c.group.adaptive.Load(), socket.Now()
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 20_000 {
				now := began + int64(g*7+i)*int64(time.Millisecond)
				w, ok := c.Await(now)
				if !ok {
					t.Error("4 at one time are over a limit of 64")
					return
				}
				w.End(now+int64(10*time.Millisecond), Success)
			}
		})
	}
	all.Wait()
	if a.waiting.Load() != 0 || a.baseline.Load() == 0 || a.count.Load() < 0 {
		t.Errorf("%d wait, baseline %v, %d samples", a.waiting.Load(), time.Duration(a.baseline.Load()), a.count.Load())
	}
	if most := a.most.Load(); most != limit.Start {
		t.Errorf("the limit is %d", most)
	}
}

func TestAdaptiveAllocatesNothing(t *testing.T) {
	c := only(t, Options{}, adaptiveCluster(8))
	now := int64(0)
	if n := testing.AllocsPerRun(1000, func() {
		now += int64(time.Millisecond)
		w, _ := c.Await(now)
		w.End(now+int64(time.Millisecond), Success)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
