package proxy

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/headgate/headgate/dataplane/http1"
	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/socket"
	"github.com/headgate/headgate/dataplane/telemetry"
	"github.com/headgate/headgate/dataplane/upstream"
	"github.com/headgate/headgate/dataplane/upstream/pool"
)

// attempt is one try on one endpoint.
type attempt struct {
	endpoint *upstream.Endpoint
	up       *pool.Conn
	facts    *telemetry.Attempt
	sentAt   int64 // when the request had been written
	deadline int64 // of the attempt, 0: none
	outcome  upstream.Outcome
}

// watch is how often a client is looked at while an upstream is awaited.
const watch = int64(250 * time.Millisecond)

// try makes one attempt up to the response head. A nil failure means that
// x.resp holds the final head and its body follows on x.attempt.up.
func (x *exchange) try(fresh bool) *failure {
	ep, none := x.cluster.Pick(x.tried)
	if ep == nil {
		return unavailable(none)
	}
	f := x.route.route.Forward
	x.attempt = attempt{endpoint: ep, facts: x.gen.View.Attempt(&x.facts)}
	a := &x.attempt
	a.facts.Endpoint, a.facts.Started = ep.Address(), socket.Now()
	a.deadline = earlier(x.deadline, after(a.facts.Started, f.PerTry))
	ep.Begin()
	if fail := x.connect(fresh); fail != nil {
		return fail
	}
	if fail := x.send(); fail != nil {
		return fail
	}
	return x.awaitHead(earlier(a.deadline, after(a.sentAt, f.FirstByte)))
}

// connect takes a connection from the pool, or makes one. A request that could
// not be sent twice looks first whether the pooled connection is still there.
func (x *exchange) connect(fresh bool) *failure {
	a := &x.attempt
	for !fresh {
		up := a.endpoint.Idle(x.conn.shard)
		if up == nil {
			break
		}
		if (x.body.streams || !x.req.Idempotent()) && up.Peek() != socket.Quiet {
			up.Discard()
			continue
		}
		a.up, a.facts.Reused = up, true
		return nil
	}
	up, err := a.endpoint.Dial(a.deadline)
	if err != nil {
		return x.connectFailure(err)
	}
	a.up = up
	return nil
}

func (x *exchange) connectFailure(err error) *failure {
	var refused *upstream.ConnectError
	switch {
	case errors.Is(err, upstream.ErrOverflow):
		x.attempt.outcome = upstream.Ignored
		return &failure{status: 503, reason: reasonLimit, detail: "the cluster is over its limit of connections", final: true}
	case errors.Is(err, upstream.ErrConnectTimeout), errors.Is(err, os.ErrDeadlineExceeded):
		x.attempt.outcome = upstream.ConnectFailure
		return &failure{status: 504, reason: reasonConnectTimeout, detail: "no connection to the upstream in time", on: snapshot.RetryConnectFailure | snapshot.RetryTimeout}
	case errors.As(err, &refused) && errors.Is(err, syscall.ECONNREFUSED):
		x.attempt.outcome = upstream.ConnectFailure
		return &failure{status: 502, reason: reasonRefused, detail: "the upstream refused the connection", on: snapshot.RetryConnectFailure | snapshot.RetryGatewayError}
	}
	x.attempt.outcome = upstream.ConnectFailure
	return &failure{status: 502, reason: reasonUnavailable, detail: "no connection to the upstream", on: snapshot.RetryConnectFailure | snapshot.RetryGatewayError}
}

// send writes the head and what is there of the body in one go, and starts the
// upload of the rest.
func (x *exchange) send() *failure {
	a := &x.attempt
	x.out = x.appendRequestHead(x.out[:0])
	body, fail := x.firstBody()
	if fail != nil {
		return fail
	}
	deadline := earlier(a.deadline, after(socket.Now(), x.route.route.Forward.Idle))
	n, err := a.up.Write(x.out, deadline)
	if err == nil && len(body) > 0 {
		_, err = a.up.Write(body, deadline)
	}
	a.sentAt = socket.Now()
	a.facts.SentAt = a.sentAt
	if err != nil && (n == 0 || !x.body.streams) {
		return x.broken(err, n > 0)
	}
	if x.body.streams && !x.body.ended {
		x.upload = startUpload(x)
	}
	return nil
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
	b.decoder.Reset(x.req.Body, &x.site.limits)
	x.facts.BytesIn = 0
	for used := 0; !b.decoder.Done(); {
		data, n, err := b.decoder.Next(b.data[used:])
		if err != nil {
			return nil, badBody(err)
		}
		used += n
		x.facts.BytesIn += int64(len(data))
		x.out = appendChunk(x.out, data)
	}
	if x.overLimit() {
		return nil, tooLarge()
	}
	x.out = http1.AppendTrailers(x.out, b.decoder.Trailers())
	return nil, nil
}

// overLimit reports whether the body is larger than the route allows.
func (x *exchange) overLimit() bool {
	limit := x.route.route.MaxRequestBytes
	return limit > 0 && x.facts.BytesIn > limit
}

// awaitHead reads the final response head, passing interim ones on.
func (x *exchange) awaitHead(deadline int64) *failure {
	up, first := x.attempt.up, true
	for {
		if len(up.Buffered()) > 0 {
			n, err := http1.ParseResponse(up.Buffered(), &x.resp, nil, x.req.Method)
			if err != nil {
				return x.badResponse(err)
			}
			if n > 0 && first {
				x.attempt.facts.FirstByteAt = socket.Now()
				first = false
			}
			if n > 0 && x.resp.Status >= 200 || x.resp.Status == 101 && n > 0 {
				return x.admit(n)
			}
			if n > 0 {
				if fail := x.interim(n); fail != nil {
					return fail
				}
				continue
			}
		}
		if fail := x.awaitBytes(deadline); fail != nil {
			return fail
		}
	}
}

// awaitBytes waits for the upstream, and looks after the client meanwhile.
func (x *exchange) awaitBytes(deadline int64) *failure {
	err := x.fill(0, deadline)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errClientGone):
		return clientGone()
	case errors.Is(err, os.ErrDeadlineExceeded):
		x.attempt.outcome = upstream.Timeout
		return &failure{status: 504, reason: reasonTimeout, detail: "the upstream did not answer in time", on: snapshot.RetryTimeout | snapshot.RetryGatewayError, sent: true}
	}
	return x.broken(err, true)
}

var errClientGone = errors.New("proxy: the client is gone")

// fill reads from the upstream. It wakes up now and then to see whether the
// client is still there; the timer for that is not set for each request.
func (x *exchange) fill(want int, deadline int64) error {
	for {
		glance := socket.Now() + watch
		err := x.attempt.up.Fill(want, earlier(deadline, glance))
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if deadline != 0 && socket.Now() >= deadline {
			return err
		}
		if x.clientGone() {
			return errClientGone
		}
	}
}

// clientGone looks whether the client has closed its connection.
func (x *exchange) clientGone() bool {
	if x.upload != nil && !x.upload.over() {
		return false // the upload reads the client and will see it
	}
	return x.conn.sock.Peek() == socket.Ended
}

// broken is the failure of a connection that ended before it gave an answer.
func (x *exchange) broken(err error, sent bool) *failure {
	if cause := x.uploadFailure(); cause != nil {
		return cause
	}
	a := &x.attempt
	if a.facts.Reused && len(a.up.Buffered()) == 0 {
		a.outcome = upstream.Ignored
		return &failure{status: 502, reason: reasonTerminated, detail: "the upstream closed the reused connection", on: snapshot.RetryResetBeforeResponse | snapshot.RetryGatewayError, sent: sent, stale: true}
	}
	a.outcome = upstream.Reset
	detail := "the upstream reset the connection before it answered"
	if errors.Is(err, io.EOF) {
		detail = "the upstream closed the connection before it answered"
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		a.outcome = upstream.Timeout
		return &failure{status: 504, reason: reasonWrite, detail: "the upstream did not take the request in time", on: snapshot.RetryTimeout | snapshot.RetryGatewayError, sent: sent}
	}
	return &failure{status: 502, reason: reasonTerminated, detail: detail, on: snapshot.RetryResetBeforeResponse | snapshot.RetryGatewayError, sent: sent}
}

// badResponse is the failure of an upstream that does not speak HTTP.
func (x *exchange) badResponse(err error) *failure {
	if cause := x.uploadFailure(); cause != nil {
		return cause
	}
	x.attempt.outcome = upstream.ServerError
	detail := "the upstream's answer is not valid HTTP"
	var wire *http1.Error
	if errors.As(err, &wire) {
		detail = wire.Reason
	}
	return &failure{status: 502, reason: reasonProtocol, detail: detail, on: snapshot.RetryInvalidResponse | snapshot.RetryGatewayError, sent: true}
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
	if again := x.againOnStatus(status); again != nil {
		return again
	}
	a.up.Consume(n)
	return nil
}

// release ends an attempt whose answer is not used.
func (x *exchange) release() {
	a := &x.attempt
	if a.endpoint == nil {
		return
	}
	x.endUpload()
	if a.up != nil {
		a.up.Discard()
	}
	x.settle()
}

// settle tells the endpoint how the attempt went. Each attempt is settled once.
func (x *exchange) settle() {
	a := &x.attempt
	a.facts.Ended = socket.Now()
	a.endpoint.Done(a.outcome, a.facts.Ended-a.facts.Started)
	x.attempt = attempt{}
}

func unavailable(none upstream.Unavailable) *failure {
	detail := "no endpoint of the cluster is healthy"
	if none == upstream.NoEndpoints {
		detail = "the cluster has no endpoint"
	}
	return &failure{status: 503, reason: reasonUnavailable, detail: detail, final: true}
}

func clientGone() *failure {
	return &failure{status: statusClientGone, reason: reasonClientGone, detail: "the client closed the connection", final: true}
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
