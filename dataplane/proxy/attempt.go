package proxy

import (
	"bytes"
	"errors"
	"os"
	"time"

	"github.com/headgate/headgate/dataplane/http1"
	"github.com/headgate/headgate/dataplane/http2"
	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
	"github.com/headgate/headgate/dataplane/telemetry"
	"github.com/headgate/headgate/dataplane/upstream"
	"github.com/headgate/headgate/dataplane/upstream/pool"
)

// attempt is one try on one endpoint.
type attempt struct {
	endpoint *upstream.Endpoint
	ticket   upstream.Ticket
	up       *pool.Conn    // over HTTP/1
	stream   *http2.Stream // over HTTP/2; one of the two is set once there is a connection
	from     bodySource    // where the answer is read from: up or stream
	facts    *telemetry.Attempt
	sent     bool  // bytes of the request went into the connection
	sentAt   int64 // when what was there of the request had been written
	deadline int64 // of the attempt, 0: none
	outcome  upstream.Outcome
	wrong    error // what went wrong, as the endpoint will be told; nil: the outcome says it
}

// watch is how often a client of HTTP/1 is looked at between two attempts, and
// watchUpload how often an upload is: the upstream's time begins at its end.
const (
	watch       = int64(50 * time.Millisecond)
	watchUpload = int64(250 * time.Millisecond)
)

// try makes one attempt up to the response head. A nil failure means that
// x.resp holds the final head and its body follows on x.attempt.up.
func (x *exchange) try(fresh bool) *failure {
	if x.deadline != 0 && x.now >= x.deadline {
		return overdue() // and no endpoint is to blame
	}
	x.pick.Tried, x.pick.Now = x.tried, x.now
	ep, ticket, none := x.cluster.Start(&x.pick)
	if ep == nil {
		return unavailable(none)
	}
	f := x.route.route.Forward
	x.attempt = attempt{endpoint: ep, ticket: ticket, facts: x.beginAttempt()}
	a := &x.attempt
	a.facts.Endpoint = ep.Address()
	x.now = a.facts.Started
	a.deadline = earlier(x.deadline, after(x.now, f.PerTry))
	return x.carryOut(fresh)
}

// beginAttempt puts an attempt on the record. The first of a request that was all there
// shares a look at the clock with what came before.
func (x *exchange) beginAttempt() *telemetry.Attempt {
	if x.facts.Tries == 0 && x.body.whole && x.branch == nil {
		return x.gen.View.AttemptAt(&x.facts, x.now)
	}
	return x.gen.View.Attempt(&x.facts)
}

// carryOut makes the attempt that has begun, up to the response head.
func (x *exchange) carryOut(fresh bool) *failure {
	if x.facts.Trace.Recorded() {
		x.attempt.facts.Target, x.attempt.facts.TLS = x.wholeTarget(), x.cluster.Config().TLS != nil
	}
	if fail := x.connect(fresh); fail != nil {
		return fail
	}
	if x.attempt.facts.HTTP2 = x.attempt.stream != nil; x.facts.Trace.Recorded() && x.protocol != nil {
		x.attempt.facts.Method = x.handshakeMethod()
	}
	if x.branch != nil && !x.branch.connected(&x.attempt) {
		return x.leaveUnused()
	}
	if !x.tie(&x.attempt) {
		return x.leaveUnused()
	}
	if fail := x.send(); fail != nil {
		return fail
	}
	return x.awaitHead()
}

// wholeTarget is a copy of the path and the query that go upstream.
func (x *exchange) wholeTarget() []byte {
	target := bytes.Clone(x.target)
	if x.req.HasQuery {
		target = append(append(target, '?'), x.req.Query...)
	}
	return target
}

// leaveUnused puts back the connection of an attempt that is not wanted any more.
func (x *exchange) leaveUnused() *failure {
	a := &x.attempt
	a.outcome = upstream.Ignored
	if a.up != nil {
		a.up.ReleaseAt(x.conn.shard, x.now)
		a.up = nil
	}
	return clientGone()
}

// connect takes a connection from the pool, or makes one.
func (x *exchange) connect(fresh bool) *failure {
	a := &x.attempt
	if x.cluster.Config().HTTP2 {
		if fail := x.connectStream(); fail != nil || x.protocol == nil {
			return fail
		}
		return x.mayTunnel()
	}
	for {
		up, err := x.connection(fresh)
		if err != nil {
			return x.connectFailure(err)
		}
		if a.stream != nil {
			return nil
		}
		x.ride(up)
		if up.Reused && x.mustLook(up) && up.Peek() != socket.Quiet {
			up.Discard()
			continue
		}
		a.up, a.from, a.facts.Reused = up, up, up.Reused
		return nil
	}
}

// ride has the loop that serves the client wait for the upstream too.
func (x *exchange) ride(up *pool.Conn) {
	if x.stream == nil && x.branch == nil {
		up.RideOn(x.conn.sock)
	} else if l := x.upstreamLoop(); l != nil {
		up.Join(l)
	}
}

// rested is how long a connection may have been idle, in nanoseconds, to be used
// again without a look. Busy ones change hands sooner.
const rested = int64(2 * time.Millisecond)

// mustLook reports whether a used connection is looked at first. If it was
// closed, the request then goes elsewhere at no risk; if there is something to
// read, it is no answer to this request. The look is a system call. It is spared
// where the connection was in use until just now, its last answer had a body,
// and the request can be sent again.
func (x *exchange) mustLook(up *pool.Conn) bool {
	return up.Doubt || x.body.streams || !x.req.Idempotent() || x.restedLong(up)
}

// restedLong reports whether a connection was idle for so long that its end may have
// come, and if a loop would know of one, for so long that it may matter that the loop
// has not come to it yet.
func (x *exchange) restedLong(up *pool.Conn) bool {
	idle := x.now - up.IdleSince()
	return idle > rested && (idle > int64(time.Second) || !up.Silent())
}

// connection is an idle one, unless it must be fresh, or else a new one. Where
// ALPN decides it may be a stream instead; what may become a tunnel takes
// HTTP/1.1, which every endpoint can that speaks both.
func (x *exchange) connection(fresh bool) (*pool.Conn, error) {
	a := &x.attempt
	if x.cluster.Config().ALPN && x.protocol == nil {
		x.stepAside()
		st, up, reused, err := a.endpoint.Connect(x.conn.shard, x, a.deadline, fresh)
		if st != nil {
			a.stream, a.from, a.facts.Reused = st, st, reused
		}
		if !reused {
			x.tick()
		}
		return up, err
	}
	if !fresh {
		if up := a.endpoint.IdleAt(x.conn.shard, x.now); up != nil {
			return up, nil
		}
	}
	x.stepAside()
	up, err := a.endpoint.DialHTTP1(x, a.deadline)
	x.tick()
	return up, err
}

// send writes the head and what is there of the body in one go, and starts the
// upload of the rest. A connection that takes no more is no failure yet: what
// the upstream said before can still be read.
func (x *exchange) send() *failure {
	a := &x.attempt
	if a.stream != nil {
		return x.sendStream()
	}
	if !x.body.sent() || len(x.body.data) > socket.SmallBuffer/2 {
		x.mayWait()
	}
	x.out = x.appendRequestHead(x.blank())
	body, fail := x.firstBody()
	if fail != nil {
		return fail
	}
	switch {
	case len(body) > 0 || !x.body.sent():
	case x.mayPark():
		x.unsent = len(x.out)
		return nil
	default:
		x.mayWait()
		return x.ask()
	}
	return x.sendAll(x.out, body)
}

// sendAll writes the rest of the head, and the body behind it.
func (x *exchange) sendAll(head, body []byte) *failure {
	a := &x.attempt
	err := x.give(head)
	if err == nil && len(body) > 0 {
		err = x.give(body)
	}
	a.sentAt = x.tick()
	a.facts.SentAt = a.sentAt
	if errors.Is(err, errClientGone) || errors.Is(err, os.ErrDeadlineExceeded) {
		return x.broken(err)
	}
	if err == nil && !x.body.sent() {
		x.upload = startUpload(x)
	}
	return nil
}

// lookAfterAsk is when a connection that was not looked at before it was used again
// is looked at for an end that came before the request, in nanoseconds. A server that
// closes but its own direction, and reads on, shows no other sign. A timer is set for it
// once in that time.
const lookAfterAsk = int64(500 * time.Millisecond)

// ask sends a request that is all in x.out and waits for the first bytes of its
// answer, all of which is the common case.
func (x *exchange) ask() *failure {
	a := &x.attempt
	a.sentAt, a.facts.SentAt = x.now, x.now
	x.beginWait()
	size, spent := len(x.out), x.stream == nil && x.branch == nil
	n, err := a.up.Ask(x.out, spent, x.now+lookAfterAsk, earlier(x.headDeadline(), x.glance()))
	left := x.endWait()
	if n == size && spent {
		x.out = nil
	}
	a.sent = n > 0
	if left {
		return x.broken(errClientGone)
	}
	if n < size {
		err = x.give(x.out[n:])
		a.sentAt = x.tick()
		a.facts.SentAt = a.sentAt
		if !errors.Is(err, errClientGone) && !errors.Is(err, os.ErrDeadlineExceeded) {
			return nil // what the upstream said before can still be read
		}
	}
	if err == nil || n == size && errors.Is(err, os.ErrDeadlineExceeded) {
		return nil // awaitHead looks why
	}
	return x.broken(err)
}

// give writes to the upstream, and looks after the client where that takes long.
func (x *exchange) give(p []byte) error {
	a := &x.attempt
	deadline := earlier(a.deadline, after(x.now, x.route.route.Forward.Idle))
	for {
		x.beginWait()
		n, err := a.up.Write(p, earlier(deadline, x.glance()))
		left := x.endWait()
		a.sent = a.sent || n > 0
		p = p[n:]
		switch {
		case left:
			return errClientGone
		case err == nil:
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded) || deadline != 0 && x.tick() >= deadline:
			return err
		case x.clientGone():
			return errClientGone
		}
		x.tick()
	}
}

// firstBody adds what is there of the body to the head in x.out. What does not
// fit in and is whole is returned, to be written behind it.
func (x *exchange) firstBody() ([]byte, *failure) {
	b := &x.body
	switch {
	case b.streams:
		return nil, x.firstPieces()
	case x.req.Body.Kind != message.BodyChunked:
		if len(x.out)+len(b.data) > cap(x.out) {
			return b.data, nil
		}
		x.out = append(x.out, b.data...)
		return nil, nil
	}
	if fail := x.wholeChunks(); fail != nil {
		return nil, fail
	}
	x.out = http1.AppendTrailers(x.out, x.bodyDecoder.Trailers())
	return nil, nil
}

// overLimit reports whether the body is larger than the route allows.
func (x *exchange) overLimit() bool {
	limit := x.route.route.MaxRequestBytes
	return limit > 0 && x.facts.BytesIn > limit
}

// awaitHead reads the final response head, passing interim ones on.
func (x *exchange) awaitHead() *failure {
	up := x.attempt.up
	if x.mayPark() {
		x.parks = true
		return awaits
	}
	if up == nil {
		return x.awaitStreamHead()
	}
	for {
		n, err := 0, error(nil)
		if len(up.Buffered()) > 0 {
			n, err = http1.ParseResponse(up.Buffered(), &x.resp, nil, x.req.Method)
		}
		switch {
		case err != nil:
			return x.badResponse(err)
		case n == 0:
			if fail := x.awaitBytes(); fail != nil {
				return fail
			}
		case x.resp.Status >= 200 || x.resp.Status == 101:
			x.noteFirstByte()
			return x.admit(n)
		default:
			x.noteFirstByte()
			if fail := x.interim(n); fail != nil {
				return fail
			}
		}
	}
}

func (x *exchange) noteFirstByte() { x.firstByteAt(x.tick()) }

func (x *exchange) firstByteAt(now int64) {
	if f := x.attempt.facts; f.FirstByteAt == 0 {
		f.FirstByteAt = now
	}
}

// headDeadline is when the response head must be there. The upstream's time
// begins when it has all of the request.
func (x *exchange) headDeadline() int64 {
	a, sentAt := &x.attempt, x.attempt.sentAt
	if x.upload != nil {
		if sentAt = x.upload.endedAt.Load(); sentAt == 0 {
			return a.deadline
		}
	}
	return earlier(a.deadline, after(sentAt, x.route.route.Forward.FirstByte))
}

// awaitBytes waits for the upstream for a while.
func (x *exchange) awaitBytes() *failure {
	x.mayWait()
	switch err := x.wait(0, x.headDeadline()); {
	case err == nil || errors.Is(err, errNothingYet):
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return x.late()
	default:
		return x.broken(err)
	}
}

var (
	errClientGone = errors.New("proxy: the client is gone")
	errNothingYet = errors.New("proxy: nothing has come yet")
)

// wait reads from the upstream. It may wake up to look around, and returns
// errNothingYet if nothing has changed.
func (x *exchange) wait(want int, deadline int64) error {
	x.beginWait()
	return x.waited(x.attempt.from.Fill(want, earlier(deadline, x.glance())), deadline)
}

// waited ends a wait for the upstream that ended with err.
func (x *exchange) waited(err error, deadline int64) error {
	if x.endWait() || err != nil && x.stream != nil && x.stream.Gone() {
		return errClientGone
	}
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || x.tick() >= deadline && deadline != 0 {
		return err
	}
	if x.clientGone() {
		return errClientGone
	}
	return errNothingYet
}

// clientGone looks whether the client has closed its connection. While a body
// is read from it, an end that lies behind unread bytes is found by the upload.
func (x *exchange) clientGone() bool {
	if x.branch != nil {
		return x.branch.gone()
	}
	if x.stream != nil {
		return x.stream.Gone()
	}
	return x.conn.sock.Peek() == socket.Ended
}

// Left is part of pool.Client.
func (x *exchange) Left() bool {
	if x.branch != nil {
		return x.branch.gone()
	}
	if x.stream != nil {
		return x.stream.Gone()
	}
	return x.conn.sock.Left()
}

// glance is when a wait for the upstream is broken off to look around; 0: it is
// not. Of clients that leave, their streams and the lookout tell.
func (x *exchange) glance() int64 {
	if x.upload != nil && x.upload.endedAt.Load() == 0 {
		return x.now + watchUpload
	}
	return 0
}

// admit decides whether a final head is the answer. n is its length.
func (x *exchange) admit(n int) *failure {
	a, status := &x.attempt, x.resp.Status
	a.facts.Status = status
	a.outcome = upstream.Success
	if status == 502 || status == 503 || status == 504 {
		a.outcome = upstream.ServerError
	}
	if fail := x.wrongSwitch(); fail != nil {
		return fail
	}
	again := x.againOnStatus(status)
	if a.up != nil && (again == nil || again.answered) {
		a.up.Consume(n)
	}
	return again
}

// after is a time of socket.Now plus a timeout, or 0 if the timeout is none.
func after(now int64, timeout time.Duration) int64 {
	if timeout <= 0 {
		return 0
	}
	return now + int64(timeout)
}

// earlier is the sooner of two deadlines of which 0 is none.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
