package proxy

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/dataplane/http1"
	"github.com/headgate/headgate/dataplane/http2"
	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/upstream"
)

// speaksGRPC reports whether the request is a call of gRPC (gRPC over HTTP/2,
// Content-Type). gRPC-Web, whose answers look otherwise, has a type of its own.
func (x *exchange) speaksGRPC() bool {
	const kind = "application/grpc"
	value := x.req.Fields.Get(message.ContentType)
	if len(value) < len(kind) || !message.EqualToken(value[:len(kind)], kind) {
		return false
	}
	return len(value) == len(kind) || strings.IndexByte("+; \t", value[len(kind)]) >= 0
}

// takeCallDeadline reads how long the client of a call waits for it: from now on
// the exchange is bound by that too. It reports false if that cannot be read,
// and then the call has been refused.
func (x *exchange) takeCallDeadline() bool {
	if !x.req.Fields.Has(message.GRPCTimeout) || !x.speaksGRPC() {
		return true
	}
	timeout, ok := parseCallTimeout(x.req.Fields.Get(message.GRPCTimeout))
	if !ok || x.req.Fields.Count(message.GRPCTimeout) > 1 {
		x.refuse(400, reasonRequest, "malformed grpc-timeout field")
		return false
	}
	x.callTimeout = timeout
	x.callDeadline = x.facts.Started + min(int64(timeout), math.MaxInt64-x.facts.Started)
	x.deadline = earlier(x.deadline, x.callDeadline)
	return true
}

// callUnits are the units of a timeout, the finest first (gRPC over HTTP/2,
// TimeoutUnit).
var callUnits = [...]struct {
	letter byte
	size   time.Duration
}{
	{'n', time.Nanosecond},
	{'u', time.Microsecond},
	{'m', time.Millisecond},
	{'S', time.Second},
	{'M', time.Minute},
	{'H', time.Hour},
}

// maxCallDigits is how many digits a timeout may have.
const maxCallDigits = 8

// parseCallTimeout reads one to eight digits and a unit. What is too long to be
// counted is the longest there is.
func parseCallTimeout(b []byte) (time.Duration, bool) {
	digits := len(b) - 1
	if digits < 1 || digits > maxCallDigits {
		return 0, false
	}
	n := int64(0)
	for _, c := range b[:digits] {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	for _, unit := range callUnits {
		if unit.letter == b[digits] {
			if n > math.MaxInt64/int64(unit.size) {
				return math.MaxInt64, true
			}
			return time.Duration(n) * unit.size, true
		}
	}
	return 0, false
}

// appendCallTimeout writes what is left of the time of a call, in the finest unit
// that has room for it and never more than there is; at least a nanosecond.
func (x *exchange) appendCallTimeout(dst []byte) []byte {
	left := max(x.callDeadline-x.now, 1)
	limit := int64(math.Pow10(maxCallDigits))
	for _, unit := range callUnits {
		if n := left / int64(unit.size); n < limit {
			return append(strconv.AppendInt(dst, n, 10), unit.letter)
		}
	}
	return append(dst, "99999999H"...)
}

// passesCallTimeout reports whether the time that is left goes upstream.
func (x *exchange) passesCallTimeout() bool {
	return x.callDeadline != 0 && !x.route.request.dropsID(message.GRPCTimeout)
}

// tellingTimeout is the least that a client must wait for a timeout to say
// something of an endpoint: else those who wait for nothing could have it
// ejected.
const tellingTimeout = time.Second

// fairOutcome is what an attempt says of its endpoint, if its client gave it a
// fair time.
func (x *exchange) fairOutcome() upstream.Outcome {
	outcome := x.attempt.outcome
	hasty := x.callDeadline != 0 && x.callTimeout < tellingTimeout && x.now >= x.callDeadline
	if hasty && (outcome == upstream.Timeout || outcome == upstream.ConnectFailure) {
		return upstream.Ignored
	}
	return outcome
}

// callEnded reports whether err is that the upstream has cancelled a call whose time is
// over. A server of gRPC that finds so does that before it has said anything; the one
// who calls makes it DEADLINE_EXCEEDED.
func (x *exchange) callEnded(err error) bool {
	fault, ok := errors.AsType[*http2.StreamError](err)
	return ok && fault.Remote && fault.Code == http2.Cancel && x.callDeadline != 0 && x.tick() >= x.callDeadline
}

// A callStatus is how a call ends, in the words of gRPC.
type callStatus struct {
	code    int
	message string
}

// deadlineExceeded is the code of a call that was not over in its time.
const deadlineExceeded = 4

// endCall ends a call in the middle of its answer if its time is over, as its
// server would have done. It reports whether it has; a client that cannot be
// told must see the answer cut.
func (x *exchange) endCall(kind message.BodyKind) bool {
	if x.callDeadline == 0 || x.tick() < x.callDeadline || x.ended || kind != message.BodyChunked {
		return false
	}
	x.fields.Reset()
	x.addCallStatus(callStatus{deadlineExceeded, "the time of the call is over"})
	if x.stream != nil {
		return x.stream.WriteTrailers(&x.fields, x.now+int64(answerTime)) == nil
	}
	x.out = http1.AppendTrailers(x.out, &x.fields)
	_, err := x.conn.sock.Write(x.out, x.now+int64(answerTime))
	x.out = x.out[:0]
	return err == nil
}

var grpcStatusField = []byte("grpc-status")

// noteCall leaves on the record how a call has ended that a span tells of: in its
// trailers, or in a head that has nothing behind it.
func (x *exchange) noteCall(trailers *message.Fields) {
	if !x.facts.Call {
		return
	}
	value, ok := trailers.Lookup(grpcStatusField)
	if !ok {
		value, _ = x.resp.Fields.Lookup(grpcStatusField)
	}
	if code, err := strconv.ParseUint(string(value), 10, 31); err == nil {
		x.facts.CallCode = int(code)
	}
}

func (x *exchange) addCallStatus(s callStatus) {
	x.facts.CallCode = s.code
	x.add("grpc-status", strconv.AppendInt(nil, int64(s.code), 10))
	x.add("grpc-message", appendCallMessage(nil, s.message))
}

// appendCallMessage escapes a message as gRPC has it (gRPC over HTTP/2,
// Percent-Encoded).
func appendCallMessage(dst []byte, message string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(message) {
		if c := message[i]; c < ' ' || c > '~' || c == '%' {
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}

// addGRPCStatus adds the fields of a response that has only a status
// (gRPC over HTTP/2, Trailers-Only).
func (x *exchange) addGRPCStatus(a *answer) {
	x.fields.AddID(message.Date, message.Date.Bytes(), httpDate(x.now))
	x.add("content-type", []byte("application/grpc"))
	x.addCallStatus(callStatus{grpcStatus(a.status), a.detail})
	x.add("proxy-status", x.appendProxyStatusValue(nil, a))
	a.body = nil
}

// appendCallAnswer writes such a response on HTTP/1.
func (x *exchange) appendCallAnswer(dst []byte, a *answer) []byte {
	x.fields.Reset()
	x.addGRPCStatus(a)
	dst = http1.AppendStatusLine(dst, 200, nil)
	for _, f := range x.fields.All() {
		dst = http1.AppendField(dst, f.Name, f.Value)
	}
	dst = append(dst, x.route.response.lines...)
	dst = x.appendPersistence(dst)
	return appendFraming(dst, message.Body{Kind: message.BodyLength})
}

// grpcStatus is the code of gRPC for an HTTP status, after gRPC's own mapping of
// statuses (doc/http-grpc-status-mapping.md).
func grpcStatus(status int) int {
	switch status {
	case 400, 431:
		return 13 // INTERNAL
	case 401:
		return 16 // UNAUTHENTICATED
	case 403:
		return 7 // PERMISSION_DENIED
	case 404:
		return 12 // UNIMPLEMENTED
	case 413:
		return 8 // RESOURCE_EXHAUSTED
	case 429, 502, 503:
		return 14 // UNAVAILABLE
	case 408, 504:
		return deadlineExceeded
	}
	return 2 // UNKNOWN
}
