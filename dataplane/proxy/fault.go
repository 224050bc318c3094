package proxy

import (
	"math/rand/v2"
	"time"

	"github.com/headgate/headgate/dataplane/filter/fault"
	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/socket"
)

// newFault makes what a route puts in. It begins anywhere, so that a route whose
// snapshot is replaced often has its percentage all the same.
func newFault(f *snapshot.Fault) *fault.Fault {
	if f == nil {
		return nil
	}
	return fault.New(fault.Config{
		DelayPercent: f.DelayPercent, Delay: f.Delay, AbortPercent: f.AbortPercent, AbortStatus: f.AbortStatus,
	}, rand.Uint64())
}

// injects puts in the fault that is this request's, if there is one. It reports
// whether that was the answer. Who is held back holds no connection and no place
// in a limit of a cluster.
func (x *exchange) injects() bool {
	d := x.route.fault.Decide()
	x.facts.Injected = d.String()
	if d.Delay > 0 && !x.pause(x.withinRequest(d.Delay)) {
		x.abandon(reasonClientGone)
		return true
	}
	if d.Status == 0 {
		return false
	}
	x.refuse(d.Status, reasonInjected, "a fault that the route injects")
	return true
}

// withinRequest is a wait, cut to what is left for the whole exchange.
func (x *exchange) withinRequest(wait time.Duration) time.Duration {
	f := x.route.route.Forward
	if f == nil || f.Request == 0 {
		return wait
	}
	return min(wait, time.Duration(x.facts.Started-socket.Now())+f.Request)
}
