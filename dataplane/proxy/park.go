package proxy

import (
	"reflect"
	"slices"
	"sync"

	"github.com/headgate/headgate/dataplane/http1"
	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/socket"
)

// A call of gRPC, or another small exchange of a client of HTTP/2, needs no
// goroutine of its own: the one that handles what a client's connection has brought
// sends its request on and takes the next. Where the upstream speaks HTTP/2 too,
// the goroutine that reads from it passes the answer back, and where it speaks HTTP/1
// in clear, the loop that waits for its connection. To such upstreams the requests that
// came together are sent one right after the other: to wake a peer is much of what a
// small write costs. Whatever does not go as smoothly goes on with a worker, which may
// wait.

// awaits is no failure: the exchange goes on when its answer has come.
var awaits = &failure{}

// mayWait lets others be handled before this exchange waits for something that is
// not its stream.
func (x *exchange) mayWait() {
	if x.h2 != nil {
		x.h2.MayWait()
	}
}

// stepAside lets others be served before this exchange waits for something that is
// no socket.
func (x *exchange) stepAside() {
	switch {
	case x.h2 != nil:
		x.h2.MayWait()
	case x.stream == nil && x.branch == nil:
		x.conn.sock.StepAside()
	}
}

// mayPark reports whether the answer can be awaited without a goroutine: the first
// time, with all of the request sent.
func (x *exchange) mayPark() bool {
	if x.h2 == nil || x.detached || x.upload != nil || x.protocol != nil || !x.route.prompt {
		return false
	}
	return x.attempt.stream != nil || x.cluster.Config().TLS == nil
}

// park leaves the exchange to whoever brings its answer. It is not the caller's
// any more.
func (x *exchange) park() {
	x.parks, x.detached = false, true
	x.heed()
	if x.unsent > 0 {
		x.h2.Detach()
		x.h2.Continue(x)
		return
	}
	x.shed()
	x.h2.Detach()
	if x.attempt.up != nil {
		x.awaitUp()
		return
	}
	if !x.attempt.stream.Await(x, earlier(x.headDeadline(), x.glance())) {
		x.proceed()
	}
}

// A draft is what the heads that go to streams are written in.
type draft struct {
	fields message.Fields
	out    []byte
}

// drafts are few: only who writes has one. Those of all exchanges that await an
// answer would be more than the caches of a processor hold.
var drafts = sync.Pool{New: func() any { return new(draft) }}

// equip takes a draft, unless the exchange has one.
func (x *exchange) equip() {
	if x.draft == nil {
		x.draft = drafts.Get().(*draft)
		x.fields, x.out = x.draft.fields, x.draft.out
		if x.out == nil {
			x.out = make([]byte, 0, draftBytes)
		}
	}
}

// draftBytes are room for a head with a small body, which go to an upstream of
// HTTP/1 in one write.
const draftBytes = socket.SmallBuffer

// shed gives the draft back.
func (x *exchange) shed() {
	d := x.draft
	x.fields.Reset()
	d.fields, d.out = x.fields, x.out[:0]
	if cap(d.out) > draftBytes {
		d.out = nil
	}
	x.draft, x.fields, x.out = nil, message.Fields{}, nil
	drafts.Put(d)
}

// Answered goes on with an exchange whose answer has come, on the goroutine that
// reads from the upstream if all of it is there and the client takes it at once.
func (x *exchange) Answered(whole bool, now int64) {
	defer x.guard()
	x.equip()
	x.now = now
	if !whole || !x.passWhole() {
		x.h2.Continue(x)
	}
}

// awaitUp leaves the exchange to the loop, or goes on with what is there already.
func (x *exchange) awaitUp() {
	if x.attempt.up.Await(x, x.headDeadline()) {
		return
	}
	x.equip()
	if !x.passReady() {
		x.h2.Continue(x)
	}
}

// Arrived goes on with an exchange of whose answer over HTTP/1 something has come, on
// the loop if all of it is there and the client takes it at once. It may be that the
// loop tells of what was read before: then that is awaited anew.
func (x *exchange) Arrived(now int64) {
	defer x.guard()
	x.now = max(now, x.attempt.sentAt)
	if x.attempt.up.FillOnce() == 0 {
		x.awaitUp()
		return
	}
	x.equip()
	if !x.passReady() {
		x.h2.Continue(x)
	}
}

// Roused goes on with an exchange whose answer over HTTP/1 will not come, or cannot be
// awaited any more.
func (x *exchange) Roused() { x.h2.Continue(x) }

// Continue goes on with a worker.
func (x *exchange) Continue() {
	defer x.guard()
	x.equip()
	x.tick()
	if x.unsent > 0 {
		x.post()
		return
	}
	if up := x.attempt.up; up != nil && !x.admitted {
		up.FillOnce()
		if x.passReady() {
			return
		}
	}
	x.proceed()
}

// post sends the request to an upstream of HTTP/1 and leaves the exchange to the loop.
func (x *exchange) post() {
	a := &x.attempt
	n := a.up.WriteNow(x.out)
	if x.unsent -= n; x.unsent > 0 {
		a.sent = n > 0
		x.proceed()
		return
	}
	a.sent, a.sentAt, a.facts.SentAt = true, x.now, x.now
	x.shed()
	x.awaitUp()
}

// proceed waits for what is still missing.
func (x *exchange) proceed() {
	x.equip()
	x.mayWait()
	fail := x.pending
	switch {
	case x.admitted:
	case x.clientGone():
		fail = x.broken(errClientGone)
	case x.unsent > 0:
		fail = x.sendRest()
	default:
		fail = x.awaitHead()
	}
	x.conclude(x.pursue(fail))
	x.finish()
	x.retire()
}

// sendRest writes what of the request could not be written at once, and waits for the
// head of the answer.
func (x *exchange) sendRest() *failure {
	rest := x.out[len(x.out)-x.unsent:]
	x.unsent = 0
	if fail := x.sendAll(rest, nil); fail != nil {
		return fail
	}
	return x.awaitHead()
}

// passWhole passes an answer on that is all there, and ends the exchange. It
// reports false if that would have to wait, or if the answer is not wanted; nothing
// was written then. It does not wait.
func (x *exchange) passWhole() bool {
	head, data, trailers, ok := x.attempt.stream.Answer()
	if head == nil {
		return false
	}
	x.resp, x.borrowed = *head, true
	x.firstByteAt(x.now)
	x.pending, x.admitted = x.admit(0), true
	return x.pending == nil && ok && x.passAll(data, trailers)
}

// passReady is passWhole for an answer over HTTP/1 that has been read.
func (x *exchange) passReady() bool {
	up := x.attempt.up
	n, err := http1.ParseResponse(up.Buffered(), &x.resp, nil, x.req.Method)
	if err != nil || n == 0 || x.resp.Status < 200 || x.resp.Body.Kind > message.BodyLength || int64(len(up.Buffered())-n) < x.resp.Body.Length {
		return false
	}
	x.firstByteAt(x.now)
	if x.pending, x.admitted = x.admit(n), true; x.pending != nil {
		return false
	}
	data := up.Buffered()[:x.resp.Body.Length]
	return x.passAll(data, &noTrailers)
}

var noTrailers message.Fields

// passAll passes the answer on with all its body, if the client takes it at once.
func (x *exchange) passAll(data []byte, trailers *message.Fields) bool {
	body := x.clientBody()
	if body.Kind == message.BodyNone {
		trailers = &noTrailers // the head is all there is (RFC 9110 sections 9.3.2, 15.3.5 and 15.4.5)
	}
	x.answerFields(body)
	ok := x.h2.WriteResponse(x.resp.Status, &x.fields, data, trailers)
	x.out = x.out[:0]
	if !ok {
		return false
	}
	x.noteCall(trailers)
	x.heeds = false // a stream that was answered has nobody told
	x.endRetry()
	x.endLoad(nil)
	if up := x.attempt.up; up != nil {
		up.Consume(len(data))
	}
	x.facts.Status, x.facts.HeadAt = x.resp.Status, x.attempt.facts.FirstByteAt
	x.relayed = int64(len(data))
	if st := x.attempt.stream; st != nil {
		x.untie()
		st.Finish()
		x.settleNow()
	} else {
		x.reuse()
	}
	x.endCluster()
	x.finish()
	x.retire()
	return true
}

// promptly reports whether nothing that a route asks for can wait, or wants more
// of an answer than to pass it on: its exchanges may be parked. What is not known
// here is taken for something that can.
func promptly(r *snapshot.Route) bool {
	if r.Forward == nil || !promptRoute.lacks(r) || !promptForward.lacks(r.Forward) {
		return false
	}
	for _, b := range r.Forward.Backends {
		if !promptCluster.lacks(b.Cluster) {
			return false
		}
	}
	return true
}

var (
	promptRoute = besides(snapshot.Route{},
		"Name", "Index", "Forward", "RequestHeaders", "ResponseHeaders", "MaxRequestBytes", "Upgrades")
	promptForward = besides(snapshot.Forward{},
		"Backends", "TotalWeight", "Rewrite", "Request", "PerTry", "FirstByte", "Idle", "Retry")
	promptCluster = besides(snapshot.Cluster{},
		"Name", "Index", "Identity", "HTTP2", "Endpoints", "TLS", "Balancing", "Affinity", "SlowStart", "HealthCheck", "Outlier",
		"CircuitBreaker", "MaxConnections", "MaxConnectionsPerEndpoint", "MaxPendingRequests", "MaxRequests", "MaxRetries",
		"ConnectTimeout", "KeepAliveTimeout", "PanicThreshold")
)

// unknown is fields of a struct by index.
type unknown []int

// besides is all fields of a struct but those that are named. It is found once: an
// apply asks of each route.
func besides(config any, known ...string) (others unknown) {
	t := reflect.TypeOf(config)
	for i := range t.NumField() {
		if !slices.Contains(known, t.Field(i).Name) {
			others = append(others, i)
		}
	}
	return others
}

// lacks reports whether none of the fields is set in a struct that is pointed to.
func (u unknown) lacks(config any) bool {
	v := reflect.ValueOf(config).Elem()
	for _, i := range u {
		if !v.Field(i).IsZero() {
			return false
		}
	}
	return true
}
