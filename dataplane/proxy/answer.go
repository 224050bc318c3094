package proxy

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/headgate/headgate/dataplane/http1"
	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/socket"
)

// answer is a response that the proxy makes itself.
type answer struct {
	status      int
	contentType string
	body        []byte
	location    []byte
	reason      string // an error of Proxy-Status, "": none
	detail      string
}

// refuse answers with an error. The body says why in one line, in JSON if the
// client prefers that.
func (x *exchange) refuse(status int, reason, detail string) {
	x.begin()
	x.facts.Reason, x.facts.Detail = reason, detail
	a := answer{status: status, reason: reason, detail: detail, contentType: "text/plain; charset=utf-8"}
	if wantsJSON(x.req.Fields.Get(message.Accept)) {
		a.contentType = "application/json"
		a.body = append(a.body, `{"status":`...)
		a.body = strconv.AppendInt(a.body, int64(status), 10)
		a.body = append(append(a.body, `,"reason":"`...), reason...)
		a.body = strconv.AppendQuote(append(a.body, `","detail":`...), detail)
		a.body = append(a.body, "}\n"...)
	} else {
		a.body = append(append(append(a.body, http1.StatusText(status)...), ": "...), detail...)
		a.body = append(a.body, '\n')
	}
	x.say(&a)
}

// wantsJSON reports whether an Accept field asks for JSON and not for anything.
func wantsJSON(accept []byte) bool {
	return bytes.Contains(accept, []byte("json")) && !bytes.Contains(accept, []byte("html"))
}

// refuseHead answers a request whose head or framing is at fault. Where the next
// request begins is unknown, so the connection ends.
func (x *exchange) refuseHead(err error) {
	status, detail := faultOf(err)
	x.keep = false
	x.lingers = true
	x.refuse(status, reasonRequest, detail)
}

// judged ends an exchange whose head was refused for err. It reports false while
// the first line of a new connection may yet show that it is not one of HTTP.
func (x *exchange) judged(err error) bool {
	if x.conn.spoken {
		x.refuseHead(err)
		return true
	}
	foreign, known := http1.Foreign(x.conn.sock.Buffered())
	switch {
	case foreign:
		x.dismiss(err)
	case known:
		x.refuseHead(err)
	}
	return known
}

// dismiss ends a connection over which something else than HTTP is spoken. An
// answer would not be understood, so there is none.
func (x *exchange) dismiss(err error) {
	x.begin()
	x.keep = false
	x.facts.Status, x.facts.Detail = faultOf(err)
	x.facts.Reason = reasonRequest
	x.tick()
}

// refuseConnect refuses to be a tunnel. What follows the head may be meant for
// its other end and is no request.
func (x *exchange) refuseConnect() {
	x.keep, x.lingers = false, true
	x.refuse(405, reasonRequest, "CONNECT is not served here")
}

// headEnded is called when the rest of a head did not come, for err; what there is
// of it was refused for refusal, if that is not nil, and not judged yet.
func (x *exchange) headEnded(refusal, err error) {
	switch {
	case refusal != nil:
		x.dismiss(refusal)
	case errors.Is(err, os.ErrDeadlineExceeded) && !onlyNewlines(x.conn.sock.Buffered()):
		x.lingers = true
		x.refuse(408, reasonClientSlow, "the request head did not come in time")
	case errors.Is(err, socket.ErrFull):
		x.lingers = true
		x.refuse(431, reasonRequest, "the request head is too large")
	}
}

// onlyNewlines reports whether no request was begun: some clients send an empty
// line after a body (RFC 9112 section 2.2).
func onlyNewlines(b []byte) bool {
	return len(bytes.Trim(b, "\r\n")) == 0
}

func (x *exchange) respond(r *snapshot.Respond) {
	x.say(&answer{status: r.Status, contentType: r.ContentType, body: r.Body})
}

func (x *exchange) redirect(r *snapshot.Redirect) {
	x.targetSpace = r.Location(x.targetSpace[:0], &x.req, x.path)
	x.say(&answer{status: r.Status, location: x.targetSpace})
}

// say sends an answer of our own. A body that streams is not read, so the
// connection ends after it.
func (x *exchange) say(a *answer) {
	x.begin()
	x.facts.Status, x.facts.HeadAt = a.status, x.tick()
	if x.body.streams && !x.body.ended {
		x.keep, x.lingers = false, true
	}
	if x.stream != nil {
		x.sayStream(a)
		return
	}
	x.keep = x.keep && !x.conn.drain.Load()
	if x.route != nil && a.reason != "" && x.speaksGRPC() {
		x.out = x.appendCallAnswer(x.blank(), a)
	} else {
		x.out = x.appendAnswer(x.blank(), a)
	}
	if x.req.Method != message.MethodHead && len(a.body) > 0 {
		x.out = append(x.out, a.body...)
		x.relayed = int64(len(a.body))
	}
	_, err := x.conn.sock.Write(x.out, x.now+int64(answerTime))
	if x.said = err == nil; !x.said {
		x.keep, x.lingers = false, false
	}
	x.tick()
}

// answerTime is how long a client may take to accept an answer of our own.
const answerTime = 10 * time.Second

func (x *exchange) appendAnswer(dst []byte, a *answer) []byte {
	dst = http1.AppendStatusLine(dst, a.status, nil)
	dst = append(dst, "Date: "...)
	dst = append(append(dst, httpDate(x.now)...), "\r\n"...)
	if len(a.location) > 0 {
		dst = appendField(dst, "Location", a.location)
	}
	if a.contentType != "" && len(a.body) > 0 && !x.ownsContentType() {
		dst = appendField(dst, "Content-Type", a.contentType)
	}
	if a.status == 405 && a.reason != "" {
		dst = appendField(dst, "Allow", allowed)
	}
	if a.reason != "" {
		dst = append(x.appendProxyStatusValue(append(dst, "Proxy-Status: "...), a), "\r\n"...)
	}
	if x.route != nil {
		dst = append(dst, x.route.response.lines...)
	}
	if x.announces() {
		dst = appendField(dst, "Alt-Svc", x.site.alternative)
	}
	dst = x.appendPersistence(dst)
	if noLength(a.status) || a.status == 304 {
		a.body = nil
		return append(dst, '\r', '\n')
	}
	return appendFraming(dst, message.Body{Kind: message.BodyLength, Length: int64(len(a.body))})
}

// ownsContentType reports whether the route sets the type itself.
func (x *exchange) ownsContentType() bool {
	return x.route != nil && x.route.response.dropsID(message.ContentType)
}

// allowed is what a request that is refused for its method could have used.
const allowed = "GET, HEAD, POST, PUT, DELETE, OPTIONS, TRACE, PATCH"

// appendProxyStatusValue writes the value of Proxy-Status (RFC 9209).
func (x *exchange) appendProxyStatusValue(dst []byte, a *answer) []byte {
	dst = append(append(dst, "headgate; error="...), a.reason...)
	dst = appendString(append(dst, "; details="...), a.detail)
	if s := x.gen.Snapshot; s != nil {
		dst = appendString(append(dst, "; snapshot="...), s.Version)
	}
	return dst
}

// appendString writes a string of RFC 9651 section 3.3.3. Bytes that it cannot
// hold become "?".
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c > '~':
			dst = append(dst, '?')
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// abandon ends an exchange whose client is gone: there is nobody to answer.
func (x *exchange) abandon(reason string) {
	x.facts.Status, x.facts.Reason = statusClientGone, reason
	x.keep, x.lingers = false, false
}

// reset ends the connection so that the client sees it broken, not closed.
func (c *Conn) reset() {
	c.sock.Abort()
	c.Close()
}

// ended reports whether a read found the orderly end of a stream.
func ended(err error) bool { return errors.Is(err, io.EOF) }
