package upstream

import (
	"time"

	"github.com/headgate/headgate/dataplane/socket"
	"github.com/headgate/headgate/dataplane/upstream/balance"
)

// startRamp has an endpoint begin with little, if the cluster wants that. The
// caller holds mu.
func (g *group) startRamp(e *Endpoint, now int64) {
	if g.current == nil || g.current.config.SlowStart <= 0 {
		return
	}
	e.rampFrom = now
	if !g.ramping {
		g.ramping = true
		g.registry.schedule.ringAt(&g.ramp, now+int64(balance.RampStep(g.current.config.SlowStart)))
	}
}

// rampStep gives the endpoints that are growing their next share.
func (g *group) rampStep(now int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ramping = false
	if g.current == nil {
		return
	}
	window := g.current.config.SlowStart
	for _, e := range g.endpoints {
		if e.rampFrom == 0 {
			continue
		}
		if now-e.rampFrom >= int64(window) {
			e.rampFrom = 0
			continue
		}
		g.ramping = true
	}
	g.rebuild()
	if g.ramping {
		g.registry.schedule.ringAt(&g.ramp, now+int64(balance.RampStep(window)))
	}
}

// rampPercent is the part of its weight that an endpoint has at the moment. The
// caller holds group.mu.
func (e *Endpoint) rampPercent(window time.Duration) int {
	if e.rampFrom == 0 {
		return 100
	}
	return balance.Ramp(socket.Now(), e.rampFrom, window)
}
