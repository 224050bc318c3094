package proxy

import (
	"strconv"

	"github.com/headgate/headgate/dataplane/http2"
	"github.com/headgate/headgate/dataplane/upstream"
)

// release ends an attempt whose answer is not used.
func (x *exchange) release() {
	a := &x.attempt
	if a.endpoint == nil {
		return
	}
	x.endUpload()
	x.untie()
	a.discard()
	x.settle()
}

// kill breaks the connection, or the stream, so that whoever waits for it wakes up.
func (a *attempt) kill() {
	if a.up != nil {
		_ = a.up.Close()
	}
	if a.stream != nil {
		a.stream.Reset(http2.Cancel)
	}
}

// discard gives the connection up, or the stream.
func (a *attempt) discard() {
	if a.up != nil {
		a.up.Discard()
	}
	if a.stream != nil {
		a.stream.Reset(http2.Cancel)
		a.stream.Finish()
	}
}

// forsake ends what a panic left behind.
func (x *exchange) forsake() {
	if x.attempt.endpoint != nil {
		x.attempt.outcome = upstream.Ignored
		x.release()
	}
	x.endCluster()
}

// settle tells the endpoint how the attempt went. Each attempt is settled once.
func (x *exchange) settle() {
	x.tick()
	x.settleNow()
}

// settleNow is settle by the last look at the clock.
func (x *exchange) settleNow() {
	a := &x.attempt
	a.facts.Ended = x.now
	a.endpoint.EndWith(a.ticket, upstream.Result{Outcome: x.fairOutcome(), Latency: a.latency(), Detail: a.trouble()})
	x.attempt = attempt{}
}

// trouble is what went wrong, in a few words for people.
func (a *attempt) trouble() string {
	switch {
	case a.outcome == upstream.Success || a.outcome == upstream.Ignored:
		return ""
	case a.wrong != nil:
		return bareError(a.wrong)
	case a.facts.Status != 0:
		return "status " + strconv.Itoa(a.facts.Status)
	}
	return ""
}

// latency is how long the endpoint took to answer. What its client takes to read
// the answer says nothing of it.
func (a *attempt) latency() int64 {
	if a.facts.FirstByteAt != 0 {
		return a.facts.FirstByteAt - a.facts.Started
	}
	return a.facts.Ended - a.facts.Started
}
