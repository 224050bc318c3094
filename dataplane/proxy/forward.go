package proxy

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/socket"
	"github.com/headgate/headgate/dataplane/upstream"
	"github.com/headgate/headgate/dataplane/upstream/retry"
)

// forward sends the request to a cluster of the route, again where that is
// allowed, and relays the answer.
func (x *exchange) forward() {
	f := x.route.route.Forward
	x.cluster = x.route.cluster()
	x.facts.Cluster = x.cluster.Config()
	x.deadline = after(x.facts.Started, f.Request)
	if !x.takeCallDeadline() || !x.mayGoOn() {
		return
	}
	x.rewrite(&f.Rewrite)
	x.describe()
	if !x.cluster.Begin() {
		x.refuse(503, reasonLimit, "the cluster is over its limit of requests")
		return
	}
	x.inCluster = true
	if !x.addLoad() {
		x.refuse(503, reasonLimit, "as many requests wait for the cluster as it can take (adaptiveConcurrency)")
		x.endCluster()
		return
	}
	if x.route.mirror != nil && x.protocol == nil {
		x.mirror()
	}
	if x.req.Body.Length > replayBytes {
		x.replay.drop()
	}
	if fail := x.gather(); fail != nil {
		x.conclude(fail)
		return
	}
	if x.hedges() {
		x.conclude(x.race())
		return
	}
	x.conclude(x.pursue(x.try(false)))
}

// hedges reports whether attempts are made beside each other: the route has it
// so, and the request can be sent twice.
func (x *exchange) hedges() bool {
	return x.route.route.Forward.Hedge != nil && x.body.whole && x.protocol == nil && x.req.Idempotent()
}

// conclude answers the client with what came of the attempts.
func (x *exchange) conclude(fail *failure) {
	if fail == awaits {
		return
	}
	x.endRetry()
	x.endLoad(fail)
	x.replay.drop()
	switch {
	case fail == nil:
		x.relay()
	case fail.status == statusClientGone:
		x.release()
		x.abandon(fail.reason)
	default:
		x.release()
		x.refuse(fail.status, fail.reason, x.explained(fail.detail))
	}
	x.endCluster()
}

// explained adds to what the client is told why it was not tried again, where
// that is for the good of the cluster.
func (x *exchange) explained(detail string) string {
	switch why := x.facts.NotRetried; why {
	case notRetriedBudget, notRetriedLimit:
		return detail + "; not tried again: " + why
	}
	return detail
}

// addLoad takes a place among those that wait for an answer, where their number is
// limited by how long that takes. How long a body takes that streams is the
// client's affair, so such requests are not among them.
func (x *exchange) addLoad() (ok bool) {
	if x.body.streams {
		return true
	}
	x.load, ok = x.cluster.Await(x.now)
	return ok
}

// endLoad leaves that place: there is an answer, or there will be none.
func (x *exchange) endLoad(fail *failure) {
	outcome := x.attempt.outcome
	if fail != nil && outcome == upstream.Success {
		outcome = upstream.Ignored
	}
	x.load.End(x.now, outcome)
}

// endCluster leaves the cluster.
func (x *exchange) endCluster() {
	if x.inCluster {
		x.inCluster = false
		x.endRetry()
		x.load.End(x.now, upstream.Ignored)
		x.copy.abandon()
		x.cluster.End()
	}
}

// endRetry leaves those that retry. What is retried is over once there is an
// answer, however long its body takes.
func (x *exchange) endRetry() {
	if x.place.Held() {
		x.cluster.EndRetry(&x.place)
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

// pursue goes on with what came of the first attempt, until there is an answer or
// nothing more to try. A connection of the pool that turns out to be dead costs no
// retry: the next is fresh.
func (x *exchange) pursue(fail *failure) *failure {
	for anew := 0; ; fail = x.try(anew > 0) {
		if fail == nil || fail == awaits {
			return fail
		}
		x.stepAside()
		x.noteFailure(fail)
		if !fail.granted {
			x.endUpload() // it could read more than is kept
		}
		switch {
		case anew < fail.anew && x.repeatable(fail):
			x.release()
			anew++
		case fail.granted || x.grant(fail):
			if !x.retreat() {
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

// retreat ends the failed attempt and waits before the next. It is false if the
// client has gone meanwhile.
func (x *exchange) retreat() bool {
	if ep := x.attempt.endpoint; ep != nil && !slices.Contains(x.tried, ep) {
		x.tried = append(x.tried, ep)
	}
	x.release()
	return x.pause(x.backoff)
}

// pause waits, holding nothing. It is false if the client has gone meanwhile.
func (x *exchange) pause(length time.Duration) bool {
	x.stepAside()
	x.heed()
	left := newBell()
	if !x.tie(left) {
		return false
	}
	defer x.untie()
	for end := x.tick() + int64(length); x.now < end; x.tick() {
		if waitFor(left, time.Duration(min(end-x.now, watch))) || x.clientGone() {
			return false
		}
	}
	return true
}

// Why what failed was not tried again though the route wants it, for the log.
const (
	notRetriedBudget = "the retry budget is spent"
	notRetriedLimit  = "maxRetries is reached"
	notRetriedBody   = "the request body is gone"
	notRetriedTwice  = "the request is not idempotent"
	notRetriedTime   = "no time is left"
)

// grant reports whether a failure is tried again: the route wants it, the
// request can be sent again, there is time, and the cluster can bear it. An
// exchange that is granted one retry counts among those of the cluster until
// there is an answer.
func (x *exchange) grant(fail *failure) bool {
	policy := &x.route.route.Forward.Retry
	wanted := fail.on&policy.On != 0 || slices.Contains(policy.Statuses, fail.status)
	if fail.final || !wanted || x.retries >= min(policy.Attempts, maxTries-1) {
		return false
	}
	x.backoff = retry.BackoffAsked(x.retries+1, policy.Backoff, rand.Float64(), fail.after)
	if x.facts.NotRetried = x.hindrance(fail); x.facts.NotRetried != "" {
		return false
	}
	x.retries++
	return true
}

// hindrance is why a failure cannot be tried again, or "", and then the retry is
// counted. The budget is there to keep retries from multiplying the work of a
// cluster in trouble: an endpoint that takes no connection was given no work, so
// going on to one that was not tried yet costs nothing of it.
func (x *exchange) hindrance(fail *failure) string {
	switch {
	case !x.harmless(fail): // first, for it does not hang on how the body came
		return notRetriedTwice
	case !x.replayable():
		return notRetriedBody
	case x.deadline != 0 && socket.Now()+int64(x.backoff) >= x.deadline:
		return notRetriedTime
	}
	free := fail.on&snapshot.RetryConnectFailure != 0 && !fail.sent && x.othersLeft()
	switch x.cluster.Retry(&x.place, x.route.route.Forward.Retry.BudgetPercent, free) {
	case retry.OverBudget:
		return notRetriedBudget
	case retry.OverLimit:
		return notRetriedLimit
	}
	return ""
}

// othersLeft reports whether the cluster has endpoints that were not tried.
func (x *exchange) othersLeft() bool {
	return len(x.tried)+1 < x.cluster.Size()
}

// againOnStatus is the failure of an answer whose status the route wants tried
// again, or nil if it is the answer.
func (x *exchange) againOnStatus(status int) *failure {
	if status < 400 || x.branch != nil && x.branch.mirror {
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
	if status == 503 || status == 429 {
		fail.after = x.retryAfter()
	}
	if x.branch != nil {
		fail.answered = true // who made the branch decides
		return fail
	}
	if fail.granted = x.grant(fail); !fail.granted {
		return nil
	}
	return fail
}

// retryAfter is how long the answer asks to wait.
func (x *exchange) retryAfter() time.Duration {
	if value, ok := x.resp.Fields.Lookup([]byte("Retry-After")); ok {
		return retry.After(value, time.Now())
	}
	return 0
}

// repeatable reports whether the request can be sent again: that does no harm,
// and its body is still all there.
func (x *exchange) repeatable(fail *failure) bool {
	return x.replayable() && x.harmless(fail)
}

// harmless reports whether sending the request again does no harm: nothing of it
// was processed, or it is idempotent.
func (x *exchange) harmless(fail *failure) bool {
	return !fail.sent || x.req.Idempotent() || x.route.route.Forward.Retry.AllowNonIdempotent
}
