package proxy

import (
	"strconv"
	"strings"

	"github.com/headgate/headgate/dataplane/http1"
	"github.com/headgate/headgate/dataplane/message"
)

// appendRequestHead writes the head that goes upstream, field by field.
func (x *exchange) appendRequestHead(dst []byte) []byte {
	req := &x.req
	dst = append(append(dst, req.MethodName...), ' ')
	dst = append(dst, x.target...)
	if req.HasQuery {
		dst = append(append(dst, '?'), req.Query...)
	}
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	dst = append(x.appendHost(dst), "\r\n"...)
	dst = x.appendRequestFields(dst)
	dst = x.appendForwarded(dst)
	if x.facts.Trace.Rewrite && !x.route.request.dropsID(message.Traceparent) {
		dst = append(dst, "traceparent: "...)
		dst = append(x.facts.AppendTraceparent(dst), "\r\n"...)
	}
	if x.hops != nil {
		dst = appendField(dst, "Max-Forwards", x.hops)
	}
	if x.passesCallTimeout() {
		dst = append(x.appendCallTimeout(append(dst, "grpc-timeout: "...)), "\r\n"...)
	}
	if x.protocol != nil {
		dst = append(dst, "Connection: Upgrade\r\n"...)
		dst = appendField(dst, "Upgrade", x.protocol)
		if x.extended() && x.isWebsocket() {
			dst = appendField(dst, "Sec-WebSocket-Key", x.handshakeKey())
		}
	} else if req.TETrailers {
		dst = append(dst, "Connection: TE\r\nTE: trailers\r\n"...)
	}
	dst = append(dst, x.route.request.lines...)
	return appendFraming(dst, x.requestFraming())
}

// requestFraming is the framing of the request towards an upstream of HTTP/1. Where
// there is no body, with a method that asks for one that is a length of 0 (RFC 9110
// section 8.6), without which servers may say 411.
func (x *exchange) requestFraming() message.Body {
	body := x.req.Body
	if body.Kind == message.BodyNone {
		switch x.req.Method {
		case message.MethodPost, message.MethodPut, message.MethodPatch:
			body.Kind = message.BodyLength
		}
	}
	return body
}

// appendHost writes the host that the upstream is asked for: what the route
// sets, else what the client sent. An HTTP/1.0 client may have sent none; then
// it is where the request goes.
func (x *exchange) appendHost(dst []byte) []byte {
	switch {
	case x.route.route.Forward.Rewrite.Host != "":
		return append(dst, x.route.route.Forward.Rewrite.Host...)
	case len(x.req.Authority) > 0:
		return append(dst, x.req.Authority...)
	}
	if address := x.attempt.endpoint.Address(); !strings.HasPrefix(address, "unix:") {
		return append(dst, address...)
	}
	return append(dst, "localhost"...)
}

func (x *exchange) appendRequestFields(dst []byte) []byte {
	fields := x.req.Fields.All()
	names := nominates(&x.req.Fields)
	for i := range fields {
		f := &fields[i]
		if x.withholds(f) || names && x.req.Fields.ConnectionNames(f.ID, f.Name) || x.route.request.drops(f) {
			continue
		}
		dst = appendField(dst, f.Name, f.Value)
	}
	return dst
}

// withholds reports whether a request field is not forwarded as it came:
// because it is for one connection only, or because it is written anew.
func (x *exchange) withholds(f *message.Field) bool {
	switch f.ID {
	case message.Other:
		return x.protocol != nil && x.supersedes(f) || x.isHops(f)
	case message.Host, message.ContentLength, message.XForwardedFor:
		return true
	case message.XForwardedProto, message.XForwardedHost:
		return !x.trusted
	case message.Traceparent:
		return x.facts.Trace.Rewrite
	case message.Tracestate:
		return x.facts.Trace.Rewrite && !x.facts.Trace.KeepState
	case message.GRPCTimeout:
		return x.callDeadline != 0
	case message.Expect:
		return !x.req.Continue
	case message.Trailer:
		return x.req.Body.Kind != message.BodyChunked
	}
	return f.ID.HopByHop()
}

// nominates reports whether Connection names more than close, keep-alive and
// upgrade, which need no look at the other fields.
func nominates(fields *message.Fields) bool {
	if !fields.Has(message.Connection) {
		return false
	}
	for value := range fields.Values(message.Connection) {
		if !message.EqualToken(value, "keep-alive") && !message.EqualToken(value, "close") && !message.EqualToken(value, "upgrade") {
			return true
		}
	}
	return false
}

// appendFraming ends a head with the field that says how long the body is.
func appendFraming(dst []byte, body message.Body) []byte {
	switch body.Kind {
	case message.BodyLength:
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, body.Length, 10)
		return append(dst, "\r\n\r\n"...)
	case message.BodyChunked:
		return append(dst, "Transfer-Encoding: chunked\r\n\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// appendResponseHead writes the head of an upstream's answer towards the client.
func (x *exchange) appendResponseHead(dst []byte, body message.Body) []byte {
	resp := &x.resp
	dst = http1.AppendStatusLine(dst, resp.Status, resp.Reason)
	if x.datesAnswer() {
		dst = append(append(append(dst, "Date: "...), httpDate(x.now)...), "\r\n"...)
	}
	dst = x.appendResponseFields(dst, body)
	dst = append(dst, x.route.response.lines...)
	if x.announces() {
		dst = appendField(dst, "Alt-Svc", x.site.alternative)
	}
	if x.bindsClient() {
		dst = append(x.appendAffinity(append(dst, "Set-Cookie: "...)), "\r\n"...)
	}
	if x.resp.Status == 426 && !x.oldClient() {
		dst = x.appendRequiredUpgrade(dst)
	}
	dst = x.appendPersistence(dst)
	return appendFraming(dst, body)
}

// appendRequiredUpgrade writes the protocols that an answer of 426 asks for and has to
// name (RFC 9110 section 15.5.22), even if the upstream forgot to nominate the field.
func (x *exchange) appendRequiredUpgrade(dst []byte) []byte {
	before := len(dst)
	dst = append(dst, "Connection: Upgrade\r\n"...)
	start := len(dst)
	for value := range x.resp.Fields.Values(message.Upgrade) {
		if len(value) > 0 {
			dst = appendField(dst, "Upgrade", value)
		}
	}
	if len(dst) == start {
		return dst[:before]
	}
	return dst
}

func (x *exchange) appendResponseFields(dst []byte, body message.Body) []byte {
	fields := x.resp.Fields.All()
	names := nominates(&x.resp.Fields)
	for i := range fields {
		if f := &fields[i]; x.passes(f, body.Kind, names) {
			dst = appendField(dst, f.Name, f.Value)
		}
	}
	return dst
}

// passes reports whether a response field is passed on as it came. names says
// that Connection names some.
func (x *exchange) passes(f *message.Field, kind message.BodyKind, names bool) bool {
	switch f.ID {
	case message.ContentLength:
		// Without a body it tells the length of another answer
		// (RFC 9110 section 8.6) and stays.
		if kind != message.BodyNone || noLength(x.resp.Status) {
			return false
		}
	case message.Trailer:
		if kind != message.BodyChunked {
			return false
		}
	case message.Other:
		if x.site.alternative != nil && message.EqualToken(f.Name, altSvc) {
			return false // it speaks of the upstream's ports
		}
	default:
		if f.ID.HopByHop() {
			return false
		}
	}
	return !(names && x.resp.Fields.ConnectionNames(f.ID, f.Name)) && !x.route.response.drops(f)
}

// noLength reports whether an answer of this status has no Content-Length
// (RFC 9110 section 8.6).
func noLength(status int) bool { return status < 200 || status == 204 }

// appendPersistence says what becomes of the client's connection, where that
// is not what the client expects.
func (x *exchange) appendPersistence(dst []byte) []byte {
	switch {
	case !x.keep:
		return append(dst, "Connection: close\r\n"...)
	case x.oldClient():
		return append(dst, "Connection: keep-alive\r\n"...)
	}
	return dst
}

// oldClient reports whether the client speaks HTTP/1.0.
func (x *exchange) oldClient() bool { return x.req.Major == 1 && x.req.Minor == 0 }
