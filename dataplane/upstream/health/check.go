package health

import "time"

// Thresholds are how many results in a row change a state; values below 1
// count as 1.
type Thresholds struct{ Healthy, Unhealthy int }

// Check is the active health of one endpoint. The zero value is Unknown. The
// first result decides at once, whatever it is: an endpoint that is down when
// it is configured must not get requests until enough probes have failed.
type Check struct {
	state State
	last  bool // the last result
	run   int  // results in a row that are like the last
}

// State is Unknown, Healthy or Unhealthy.
func (c *Check) State() State { return c.state }

// Run is how many results in a row are like the last one.
func (c *Check) Run() int { return c.run }

// Observe takes the result of a probe and reports whether it changed the state.
func (c *Check) Observe(ok bool, t Thresholds) (changed bool) {
	if ok != c.last {
		c.run = 0
	}
	c.last = ok
	c.run++
	target, needed := Unhealthy, t.Unhealthy
	if ok {
		target, needed = Healthy, t.Healthy
	}
	if c.state == target || c.state != Unknown && c.run < needed {
		return false
	}
	c.state = target
	return true
}

// Jitter is by how much of its length an interval is varied, both ways.
const Jitter = 0.1

// Tick is what the times of probes are multiples of, unless a hundredth of the
// interval is less. Those of one tick begin together: waking up costs more than a
// probe does, and so does one that finds the caches cold.
const Tick = 50 * time.Millisecond

// Second is when to probe again after the first probe, which began at start: at
// some time within the interval. Endpoints that were configured together are
// first probed together, and are spread over the whole interval by this. rnd is
// in [0,1).
func Second(start int64, interval time.Duration, rnd float64) int64 {
	return onTick(start+int64(float64(interval)*(Jitter+(1-Jitter)*rnd)), interval)
}

// Next is when to probe again after a probe that began at start. rnd is in
// [0,1). Without variation, endpoints that were configured together would be
// probed together for ever.
func Next(start int64, interval time.Duration, rnd float64) int64 {
	return onTick(start+int64(float64(interval)*(1-Jitter+2*Jitter*rnd)), interval)
}

// onTick is the last tick before at.
func onTick(at int64, interval time.Duration) int64 {
	return at - at%max(1, int64(min(Tick, interval/100)))
}
