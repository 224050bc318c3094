package proxy

import (
	"slices"
	"time"

	"github.com/headgate/headgate/dataplane/telemetry"
	"github.com/headgate/headgate/dataplane/upstream"
	"github.com/headgate/headgate/dataplane/upstream/retry"
)

// race is the attempts of an exchange whose route hedges. Each runs as a branch;
// the exchange decides when one begins and which answer is taken, and talks to
// the client alone. All of it is owned by the goroutine of the exchange.
type race struct {
	x       *exchange
	hedge   retry.Hedge
	running []*lane
	results chan *lane // has room for all
	held    *lane      // has an answer that the route would rather not have
	again   int64      // when the retry that was granted begins; 0: there is none
	left    bell       // the client's stream was reset
	timer   *time.Timer
}

// lane is one attempt of a race.
type lane struct {
	h       *exchange
	n       int  // its number among the attempts
	anew    int  // how often the request was sent anew
	counted bool // besides the exchange, among the requests and retries of the cluster
	place   retry.Place
	fail    *failure
}

// race makes attempts until there is an answer or nothing more to try. Only
// complete requests come here that may be sent twice. What loses is cancelled.
func (x *exchange) race() *failure {
	x.stepAside()
	hedge := x.route.route.Forward.Hedge
	r := &race{x: x, hedge: retry.Hedge{After: hedge.After, Max: hedge.Max}, results: make(chan *lane, maxTries), left: newBell()}
	defer r.end()
	x.heed()
	if !x.tie(r.left) {
		return clientGone()
	}
	if fail := r.start(0, nil); fail != nil {
		return fail
	}
	r.timer = time.NewTimer(time.Duration(watch))
	for {
		r.timer.Reset(time.Duration(max(0, min(earlier(r.due(), x.now+watch)-x.now, watch))))
		select {
		case <-r.left:
			return clientGone()
		case l := <-r.results:
			x.tick()
			if over, fail := r.arrived(l); over {
				return fail
			}
		case <-r.timer.C:
			x.tick()
			if x.clientGone() {
				return clientGone()
			}
			if fail := r.advance(); fail != nil {
				return fail
			}
		}
	}
}

// due is when the next attempt begins, 0: none does.
func (r *race) due() int64 {
	if len(r.running) == 0 {
		return r.again
	}
	return r.hedge.Due()
}

// advance begins what is due.
func (r *race) advance() *failure {
	switch now := r.x.now; {
	case len(r.running) == 0 && r.again != 0 && now >= r.again:
		r.again = 0
		return r.start(0, nil)
	case len(r.running) > 0 && r.hedge.Take(now):
		r.beginHedge()
	}
	return nil
}

// beginHedge begins an attempt beside the others, if the cluster can bear it and
// there is an endpoint that none of them is on.
func (r *race) beginHedge() {
	x, l := r.x, &lane{}
	if x.facts.Tries >= maxTries || x.cluster.Retry(&l.place, x.route.route.Forward.Retry.BudgetPercent, false) != retry.Taken {
		r.hedge.Stop()
		return
	}
	if l.counted = x.cluster.Begin(); !l.counted {
		x.cluster.EndRetry(&l.place)
		r.hedge.Stop()
		return
	}
	if r.start(0, l) != nil {
		r.hedge.Stop()
	}
}

// start begins an attempt that was sent anew so often; l is a hedge, nil: it is none.
func (r *race) start(anew int, l *lane) *failure {
	x, hedge := r.x, l != nil
	if !hedge {
		l = &lane{}
	}
	fail := r.place(l, hedge)
	if fail != nil {
		l.leave(x.cluster)
		return fail
	}
	l.anew = anew
	if !x.conn.engine.branches.begin(l.h.branch) {
		l.dispose(x.cluster)
		return unavailable(upstream.NoEndpoints)
	}
	r.hedge.Began(x.now)
	r.running = append(r.running, l)
	results, cluster := r.results, x.cluster // x may be another exchange's by the time
	l.h.runBranch(func() { l.run(results, cluster) }, func() { l.panicked(results, cluster) })
	return nil
}

// place finds an endpoint for an attempt and makes its branch.
func (r *race) place(l *lane, hedge bool) *failure {
	x := r.x
	if x.deadline != 0 && x.now >= x.deadline {
		return overdue()
	}
	x.pick.Tried, x.pick.Now = x.tried, x.now
	ep, ticket, none := x.cluster.Start(&x.pick)
	if ep == nil {
		return unavailable(none)
	}
	if tried := slices.Contains(x.tried, ep); hedge && tried {
		ep.End(ticket, upstream.Ignored, 0)
		return unavailable(upstream.NoEndpoints) // there is no other
	} else if !tried {
		x.tried = append(x.tried, ep)
	}
	l.n = x.facts.Tries + 1
	facts := r.record(hedge)
	facts.Endpoint = ep.Address()
	x.now = facts.Started
	h := x.branchOff(&branch{})
	h.cluster = x.cluster
	*h.facts.At(0), h.facts.Tries = *facts, 1
	h.attempt = attempt{endpoint: ep, ticket: ticket, facts: h.facts.At(0)}
	h.attempt.deadline = earlier(x.deadline, after(x.now, x.route.route.Forward.PerTry))
	l.h = h
	return nil
}

// record opens the record of an attempt.
func (r *race) record(hedge bool) *telemetry.Attempt {
	if hedge || len(r.running) > 0 {
		facts := r.x.gen.View.Hedge(&r.x.facts)
		facts.Hedge = hedge
		return facts
	}
	return r.x.gen.View.Attempt(&r.x.facts)
}

// run is the goroutine of a lane.
func (l *lane) run(results chan<- *lane, c *upstream.Cluster) {
	l.fail = l.h.carryOut(l.anew > 0)
	if l.h.branch.finish() {
		results <- l
		return
	}
	if l.fail == nil || l.fail.answered {
		l.h.attempt.outcome = upstream.Ignored // it was cancelled as it came
	}
	l.dispose(c)
}

// panicked is called when run has panicked and its attempt was ended.
func (l *lane) panicked(results chan<- *lane, c *upstream.Cluster) {
	if l.h.branch.gone() {
		l.leave(c)
		return
	}
	l.fail = &failure{status: 502, reason: reasonInternal, detail: "an attempt failed by a fault of the proxy", final: true}
	results <- l
}

// arrived takes the result of a lane. over means that the race is, with fail if
// there is no answer.
func (r *race) arrived(l *lane) (over bool, fail *failure) {
	x := r.x
	r.running = slices.DeleteFunc(r.running, func(other *lane) bool { return other == l })
	r.note(l)
	fail = l.fail
	switch {
	case fail == nil:
		r.adopt(l)
		return true, nil
	case fail.answered:
		if r.held != nil {
			r.held.dispose(x.cluster)
		}
		r.held = l
	default:
		l.dispose(x.cluster)
	}
	switch {
	case l.anew < fail.anew && x.repeatable(fail):
		if again := r.start(l.anew+1, nil); again == nil {
			return false, nil
		}
	case len(r.running) == 0 && x.grant(fail):
		r.again = x.now + int64(x.backoff)
		return false, nil
	}
	switch {
	case len(r.running) > 0:
		return false, nil
	case r.held != nil:
		r.adopt(r.held)
		r.held = nil
		return true, nil
	}
	return true, fail
}

// note copies what the lane has recorded into the records of the exchange.
func (r *race) note(l *lane) {
	kept := r.x.facts.Kept(l.n)
	if kept == nil {
		return
	}
	hedge := kept.Hedge
	*kept = *l.h.facts.At(0)
	kept.Hedge = hedge
	if l.fail != nil {
		kept.Reason = l.fail.reason
		kept.Ended = r.x.now
	}
}

// adopt makes the attempt of a lane that of the exchange, with its answer.
func (r *race) adopt(l *lane) {
	x, h := r.x, l.h
	x.attempt, h.attempt = h.attempt, attempt{}
	if x.attempt.facts = x.facts.Kept(l.n); x.attempt.facts == nil {
		x.attempt.facts = &telemetry.Attempt{Started: x.now} // overwritten: nobody will read it
	}
	x.attempt.facts.Ended = 0
	x.resp, h.resp = h.resp, x.resp
	x.borrowed, h.borrowed = h.borrowed, x.borrowed
	x.facts.Answered = l.n
	l.leave(x.cluster)
	h.recycle()
	x.tie(&x.attempt) // where the client has left, it takes no answer
}

// end cancels what is left.
func (r *race) end() {
	x := r.x
	for _, l := range r.running {
		finished := !l.h.branch.cancel()
		if kept := x.facts.Kept(l.n); kept != nil {
			kept.Lost, kept.Ended = true, x.now
		}
		if finished {
			l = <-r.results
			l.dispose(x.cluster)
		}
	}
	if r.held != nil {
		r.held.dispose(x.cluster)
	}
	if r.timer != nil {
		r.timer.Stop()
	}
}

// dispose ends a lane whose answer is not used.
func (l *lane) dispose(c *upstream.Cluster) {
	l.h.release()
	l.leave(c)
	l.h.recycle()
}

// leave counts a hedge out of the cluster.
func (l *lane) leave(c *upstream.Cluster) {
	if l.counted {
		l.counted = false
		c.EndRetry(&l.place)
		c.End()
	}
}
