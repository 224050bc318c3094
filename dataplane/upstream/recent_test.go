package upstream

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dataplane/snapshot"
)

func TestRecent(t *testing.T) {
	var r recent
	if _, ok := r.success(); ok || r.latency() != 0 {
		t.Error("something is known of nothing")
	}
	second := int64(time.Second)
	for i := range int64(100) { // a hundred seconds of 100 requests, 10 of which fail, each of the others in 20 ms
		n := i + 1
		r.look(n*second, counts{successes: 90 * n, failures: 10 * n, waited: 90 * n * 20e6})
	}
	if ratio, _ := r.success(); math.Abs(ratio-0.9) > 1e-9 || r.latency() != 20*time.Millisecond {
		t.Errorf("success %v, latency %v", ratio, r.latency())
	}
	// Ten seconds in which all is well but slower: the past counts for 1/e.
	for i := range int64(10) {
		n := i + 1
		r.look((100+n)*second, counts{successes: 9000 + 100*n, failures: 1000, waited: 9000*20e6 + 100*n*40e6})
	}
	ratio, _ := r.success()
	if want := 1 - 0.1*math.Exp(-1); math.Abs(ratio-want) > 0.005 {
		t.Errorf("success %v, want %v", ratio, want)
	}
	if l := r.latency(); l < 32*time.Millisecond || l > 34*time.Millisecond {
		t.Errorf("latency %v", l)
	}
	// What is long past is not known any more.
	r.look(300*second, r.seen)
	if _, ok := r.success(); ok || r.latency() != 0 {
		t.Error("something is known after minutes without a request")
	}
}

// An endpoint's status tells how it fares by itself.
func TestStatusIsRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRegistry(Options{Dial: newNetwork().dial})
		defer r.Close()
		config := cluster("c", "a")
		config.Outlier = nil
		config.CircuitBreaker = &snapshot.CircuitBreaker{ConsecutiveFailures: 9, OpenFor: time.Second}
		c := apply(t, r, config).Cluster(0)
		for i := range 40 {
			e, ticket, _ := c.Start(&Pick{})
			o := Success
			if i%4 == 0 {
				o = Reset
			}
			e.End(ticket, o, 7e6)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		s := c.Status().Endpoints[0]
		if !s.HasRecent || math.Abs(s.SuccessRatio-0.75) > 1e-9 || s.Latency.Round(time.Microsecond) != 7*time.Millisecond {
			t.Errorf("%+v", s)
		}
	})
}
