package proxy

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/socket"
	"github.com/headgate/headgate/dataplane/upstream/retry"
)

// forward sends the request to a cluster of the route, again where that is
// allowed, and relays the answer.
func (x *exchange) forward() {
	f := x.route.route.Forward
	x.cluster = x.route.cluster()
	x.facts.Cluster = x.cluster.Config()
	x.deadline = after(x.facts.Started, f.Request)
	x.rewrite(&f.Rewrite)
	x.describe()
	if !x.cluster.Begin() {
		x.refuse(503, reasonLimit, "the cluster is over its limit of requests")
		return
	}
	defer x.endCluster()
	fail := x.attempts(&f.Retry)
	x.leaveBudget()
	if fail == nil {
		x.relay()
		return
	}
	x.release()
	if fail.status == statusClientGone {
		x.abandon(fail.reason)
		return
	}
	x.refuse(fail.status, fail.reason, fail.detail)
}

// endCluster leaves the cluster.
func (x *exchange) endCluster() {
	x.leaveBudget()
	x.cluster.End()
}

// leaveBudget gives back the place in the retry budget of the cluster. What is
// retried is over once there is an answer, however long its body takes.
func (x *exchange) leaveBudget() {
	if x.budgeted {
		x.budgeted = false
		x.cluster.Retries().Release()
	}
}

// rewrite makes the path that goes upstream.
func (x *exchange) rewrite(r *snapshot.Rewrite) {
	x.target = x.path
	if !r.HasPrefix && r.Regex == nil {
		return
	}
	x.target = r.Apply(x.targetSpace[:0], x.path, x.match.PrefixLen)
	x.targetSpace = x.target[:0]
}

// attempts tries until there is an answer or nothing more to try. A connection
// of the pool that turns out to be dead costs no retry: the next is fresh.
func (x *exchange) attempts(policy *snapshot.Retry) *failure {
	for fresh := false; ; {
		fail := x.try(fresh)
		if fail == nil {
			return nil
		}
		x.noteFailure(fail)
		switch {
		case fail.stale && !fresh && x.repeatable(fail):
			x.release()
			fresh = true
		case fail.granted || x.grant(fail):
			x.retreat(policy.Backoff)
			if x.clientGone() {
				return clientGone()
			}
		default:
			return fail
		}
	}
}

// noteFailure leaves the failure on the record of the attempt.
func (x *exchange) noteFailure(fail *failure) {
	if x.attempt.facts != nil {
		x.attempt.facts.Reason = fail.reason
	}
}

// retreat ends the failed attempt and waits before the next.
func (x *exchange) retreat(backoff time.Duration) {
	if ep := x.attempt.endpoint; ep != nil && !slices.Contains(x.tried, ep) {
		x.tried = append(x.tried, ep)
	}
	x.release()
	pause := retry.Backoff(x.retries, backoff, rand.Float64())
	if x.deadline != 0 {
		pause = min(pause, time.Duration(x.deadline-socket.Now()))
	}
	time.Sleep(pause)
}

// grant reports whether a failure is tried again: the route wants it, the
// request can be sent again, and the budget of the cluster has room. The budget
// is there to keep retries from multiplying the work of a cluster in trouble: an
// endpoint that takes no connection was given no work, so going on to one that
// was not tried yet costs nothing of it. An exchange that is granted one retry
// holds its place in the budget until there is an answer.
func (x *exchange) grant(fail *failure) bool {
	policy := &x.route.route.Forward.Retry
	wanted := fail.on&policy.On != 0 || slices.Contains(policy.Statuses, fail.status)
	switch {
	case fail.final || !wanted || !x.repeatable(fail):
		return false
	case x.retries >= min(policy.Attempts, maxTries-1):
		return false
	case x.deadline != 0 && socket.Now() >= x.deadline:
		return false
	case fail.on&snapshot.RetryConnectFailure != 0 && !fail.sent && x.othersLeft():
		x.retries++
		return true
	case !x.budgeted && !x.cluster.Retries().Allow(x.cluster.Active(), policy.BudgetPercent):
		return false
	}
	x.budgeted = true
	x.retries++
	return true
}

// othersLeft reports whether the cluster has endpoints that were not tried.
func (x *exchange) othersLeft() bool {
	return len(x.tried)+1 < len(x.cluster.Config().Endpoints)
}

// againOnStatus is the failure of an answer whose status the route wants tried
// again, or nil if it is the answer.
func (x *exchange) againOnStatus(status int) *failure {
	if status < 400 {
		return nil
	}
	on := snapshot.RetryOn(0)
	if status >= 500 {
		on = snapshot.Retry5xx
	}
	if status == 502 || status == 503 || status == 504 {
		on |= snapshot.RetryGatewayError
	}
	policy := &x.route.route.Forward.Retry
	if on&policy.On == 0 && !slices.Contains(policy.Statuses, status) {
		return nil
	}
	fail := &failure{status: status, detail: "the upstream's answer is tried again", on: on, sent: true}
	if fail.granted = x.grant(fail); !fail.granted {
		return nil
	}
	return fail
}

// repeatable reports whether sending the request again does no harm: nothing of
// it was processed, or it is idempotent; and its body is still all there.
func (x *exchange) repeatable(fail *failure) bool {
	switch {
	case x.body.begun:
		return false
	case !fail.sent:
		return true
	}
	return x.req.Idempotent() || x.route.route.Forward.Retry.AllowNonIdempotent
}
