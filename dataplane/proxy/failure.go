package proxy

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/headgate/headgate/dataplane/certificate"
	"github.com/headgate/headgate/dataplane/http1"
	"github.com/headgate/headgate/dataplane/http2"
	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/upstream"
)

// failure is why an attempt gave no answer, or one that may be tried again.
type failure struct {
	status   int // what the client is told if nothing better comes
	reason   string
	detail   string
	on       snapshot.RetryOn // the conditions under which it is tried again
	sent     bool             // bytes of the request may have been processed
	anew     int              // how often at most the request is sent again for such failures, besides what the route has tried again
	granted  bool             // it has been decided that it is tried again
	answered bool             // there is an answer, which will do if there is none better
	after    time.Duration    // how long the answer asks to wait
	final    bool             // trying again is pointless: the fault is not the upstream's
}

// Where a connection that was used before died before it gave a byte, or gave those of
// another answer, the request is sent once more: that connection was not for it. Where
// connections are ending that have not looked at it, some times more, for others that
// wait may each time come before it; but not without end, as a server could send each
// away.
const (
	anewStale     = 1
	anewGoingAway = 4
)

// maxTrouble bounds the text of an error that an endpoint is told of, in bytes.
const maxTrouble = 200

// bareError is what an error is at bottom, without where it was met.
func bareError(err error) string {
	var number syscall.Errno
	var refused *upstream.ConnectError
	var wire *http1.Error
	var text string
	switch {
	case errors.As(err, &wire):
		text = wire.Reason
	case errors.As(err, &number):
		text = number.Error()
	case errors.Is(err, upstream.ErrConnectTimeout):
		text = "no connection in time"
	case errors.Is(err, os.ErrDeadlineExceeded):
		text = "timeout"
	case errors.Is(err, io.EOF):
		text = "connection closed before the answer"
	case errors.As(err, &refused):
		text = certificate.Reason(refused.Err)
	default:
		text = certificate.Reason(err)
	}
	return strings.ToValidUTF8(text[:min(len(text), maxTrouble)], "")
}

func (x *exchange) connectFailure(err error) *failure {
	x.attempt.wrong = err
	var refused *upstream.ConnectError
	switch {
	case errors.Is(err, upstream.ErrAbandoned):
		x.attempt.outcome = upstream.Ignored
		return clientGone()
	case errors.Is(err, upstream.ErrOverflow):
		x.attempt.outcome = upstream.Ignored
		return &failure{status: 503, reason: reasonLimit, detail: "the cluster is over its limit of connections", final: true}
	case errors.Is(err, upstream.ErrConnectTimeout), errors.Is(err, os.ErrDeadlineExceeded):
		x.attempt.outcome = upstream.ConnectFailure
		return &failure{status: 504, reason: reasonConnectTimeout, detail: "no connection to the upstream in time", on: snapshot.RetryConnectFailure | snapshot.RetryTimeout}
	case errors.As(err, &refused) && refused.TLS() != certificate.NoFault:
		x.attempt.outcome = upstream.ConnectFailure
		reason, detail := tlsFailure(refused.TLS(), refused.Err)
		return &failure{status: 502, reason: reason, detail: detail, on: snapshot.RetryConnectFailure | snapshot.RetryGatewayError}
	case errors.As(err, &refused) && errors.Is(err, syscall.ECONNREFUSED):
		x.attempt.outcome = upstream.ConnectFailure
		return &failure{status: 502, reason: reasonRefused, detail: "the upstream refused the connection", on: snapshot.RetryConnectFailure | snapshot.RetryGatewayError}
	}
	x.attempt.outcome = upstream.ConnectFailure
	return &failure{status: 502, reason: reasonUnavailable, detail: "no connection to the upstream", on: snapshot.RetryConnectFailure | snapshot.RetryGatewayError}
}

// tlsFailure is the reason and the detail of a failure of TLS.
func tlsFailure(fault certificate.Fault, err error) (reason, detail string) {
	says := certificate.Reason(err)
	switch fault {
	case certificate.BadCertificate:
		return reasonCertificate, "the upstream's certificate is not accepted: " + says
	case certificate.Alert:
		return reasonAlert, "the upstream ended TLS with an alert: " + says
	default:
		return reasonTLS, "no TLS with the upstream: " + says
	}
}

// broken is the failure of a connection that ended before it gave an answer.
func (x *exchange) broken(err error) *failure {
	if cause := x.uploadFailure(); cause != nil {
		return cause
	}
	if spokeWrong(err) != "" {
		return x.badResponse(err)
	}
	a := &x.attempt
	a.wrong = err
	if x.branch != nil && x.branch.gone() || x.stream != nil && x.stream.Gone() {
		err = errClientGone
	}
	switch {
	case errors.Is(err, http2.ErrNotProcessed):
		return x.unseen(err)
	case errors.Is(err, errClientGone):
		a.outcome = upstream.Ignored
		return clientGone()
	case x.callEnded(err):
		return x.late()
	case errors.Is(err, os.ErrDeadlineExceeded):
		a.outcome = upstream.Timeout
		return &failure{status: 504, reason: reasonWrite, detail: "the upstream did not take the request in time", on: snapshot.RetryTimeout | snapshot.RetryGatewayError, sent: a.sent}
	case a.facts.Reused && !isReset(err) && a.facts.FirstByteAt == 0 && len(a.from.Buffered()) == 0:
		a.outcome = upstream.Ignored
		return &failure{status: 502, reason: reasonTerminated, detail: "the upstream closed the reused connection", on: snapshot.RetryResetBeforeResponse | snapshot.RetryGatewayError, sent: a.sent, anew: anewStale}
	}
	a.outcome = upstream.Reset
	reason, detail := reasonTerminated, "the upstream reset the connection before it answered"
	if isReset(err) {
		detail = "the upstream reset the stream before it answered"
	} else if fault := certificate.FaultOf(err); fault != certificate.NoFault {
		// TLS 1.3 clients are told after the handshake that their certificate
		// is not accepted.
		reason, detail = tlsFailure(fault, err)
	} else if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		detail = "the upstream closed the connection before it answered"
	}
	return &failure{status: 502, reason: reason, detail: detail, on: snapshot.RetryResetBeforeResponse | snapshot.RetryGatewayError, sent: a.sent}
}

// unseen is the failure of a request that the upstream has not looked at.
func (x *exchange) unseen(err error) *failure {
	x.attempt.outcome = upstream.Ignored
	anew := anewStale
	if fault, ok := errors.AsType[*http2.StreamError](err); ok && fault.GoingAway {
		anew = anewGoingAway
	}
	return &failure{status: 502, reason: reasonTerminated, detail: "the upstream did not take the request", on: snapshot.RetryResetBeforeResponse | snapshot.RetryGatewayError, anew: anew}
}

// isReset reports whether err is that the peer has reset a stream of HTTP/2: the
// connection is alive, and the peer may have seen all that was sent.
func isReset(err error) bool {
	fault, ok := errors.AsType[*http2.StreamError](err)
	return ok && fault.Remote
}

// badResponse is the failure of an upstream that does not speak HTTP.
func (x *exchange) badResponse(err error) *failure {
	if cause := x.uploadFailure(); cause != nil {
		return cause
	}
	x.attempt.outcome, x.attempt.wrong = upstream.ServerError, err
	detail := "the upstream's answer is not valid HTTP"
	if wire, ok := errors.AsType[*http1.Error](err); ok {
		detail = wire.Reason
	} else if reason := spokeWrong(err); reason != "" {
		detail = reason
	}
	fail := &failure{status: 502, reason: reasonProtocol, detail: detail, on: snapshot.RetryInvalidResponse | snapshot.RetryGatewayError, sent: true}
	if x.isLeftOver() {
		fail.anew = anewStale
	}
	return fail
}

// isLeftOver reports whether what came in place of an answer may be the body that was
// behind the answer before, which had none by its meaning.
func (x *exchange) isLeftOver() bool {
	a := &x.attempt
	return a.up != nil && a.up.Reused && a.up.Doubt && a.facts.FirstByteAt == 0
}

// spokeWrong is what was wrong with what a peer said over HTTP/2, or "" if that is
// not why err came about. What we end ourselves, we cancel.
func spokeWrong(err error) string {
	if fault, ok := errors.AsType[*http2.StreamError](err); ok && !fault.Remote && !fault.NotProcessed && fault.Code != http2.Cancel {
		return fault.Reason
	}
	if fault, ok := errors.AsType[*http2.ConnError](err); ok && !fault.Remote && fault.Err == nil {
		switch fault.Code {
		case http2.ProtocolError, http2.FrameSizeError, http2.FlowControlError, http2.CompressionError:
			return fault.Reason
		}
	}
	return ""
}

func unavailable(none upstream.Unavailable) *failure {
	detail := "no endpoint of the cluster is healthy"
	switch none {
	case upstream.NoEndpoints:
		detail = "the cluster has no endpoint"
	case upstream.Unresolved:
		return &failure{status: 503, reason: reasonDNS, detail: "DNS has no address of the cluster", final: true}
	case upstream.CircuitsOpen:
		detail = "the circuits of all endpoints are open"
	}
	return &failure{status: 503, reason: reasonUnavailable, detail: detail, final: true}
}

// overdue is the failure of an exchange whose time was over before an upstream
// was asked.
func overdue() *failure {
	return &failure{status: 504, reason: reasonTimeout, detail: "the exchange took longer than it may", final: true}
}

func clientGone() *failure {
	return &failure{status: statusClientGone, reason: reasonClientGone, detail: "the client closed the connection", final: true}
}
