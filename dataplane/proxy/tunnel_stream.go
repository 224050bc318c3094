package proxy

import (
	"errors"
	"os"

	"github.com/headgate/headgate/dataplane/http2"
	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/upstream"
)

// extended reports whether the request asks for a tunnel on a stream of HTTP/2 or
// HTTP/3, as for a websocket (RFC 8441, RFC 9220).
func (x *exchange) extended() bool { return x.stream != nil && x.req.Upgrade != nil }

// asHandshake makes of an extended CONNECT the handshake of HTTP/1 that it stands
// for (RFC 8441 section 5): to routes, retries and upstreams of HTTP/1 it is a GET
// with an Upgrade.
func (x *exchange) asHandshake() {
	if x.extended() {
		x.req.Method, x.req.MethodName = message.MethodGet, message.MethodGet.Bytes()
		x.req.Fields.AddID(message.Upgrade, message.Upgrade.Bytes(), x.req.Upgrade)
	}
}

// handshakeMethod is the method of what asks the upstream for a tunnel.
func (x *exchange) handshakeMethod() message.Method {
	if x.attempt.stream != nil {
		return message.MethodConnect
	}
	return x.req.Method
}

// answerConnect tells a client of HTTP/2 that its stream is the tunnel.
func (x *exchange) answerConnect() *failure {
	x.resp.Fields.Del(websocketAccept)
	if x.resp.Status == 101 {
		x.resp.Status = 200
	}
	x.facts.Status = x.resp.Status
	return x.writeStreamHead(message.Body{}, false)
}

// mayTunnel looks whether the upstream takes what an upgrade becomes on a stream:
// an extended CONNECT (RFC 8441 section 3). It says so with its settings.
func (x *exchange) mayTunnel() *failure {
	if fail := x.checkHandshake(); fail != nil || x.protocol == nil {
		return fail
	}
	a := &x.attempt
	takes, err := a.stream.ExtendedConnect(earlier(a.deadline, after(x.now, x.route.route.Forward.FirstByte)))
	x.tick()
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return x.late()
	case err != nil:
		return x.broken(err)
	case !takes:
		a.outcome = upstream.Ignored
		return &failure{status: 501, reason: reasonUpgrade, detail: "the upstream takes no tunnels on streams", final: true}
	}
	return nil
}

// checkHandshake holds an upgrade of HTTP/1 to what is needed to make a tunnel on
// a stream of it. One that has more to say than a stream could, in its method or
// a body, is left alone, as a server may (RFC 9110 section 7.8).
func (x *exchange) checkHandshake() *failure {
	switch {
	case x.extended():
	case x.req.Method != message.MethodGet || x.req.Body.Kind == message.BodyChunked || x.req.Body.Length > 0:
		x.protocol = nil
	case x.isWebsocket() && !x.hasKey():
		x.attempt.outcome = upstream.Ignored
		return &failure{status: 400, reason: reasonRequest, detail: "a websocket handshake without a key", final: true}
	default:
		x.req.Body = message.Body{} // a length of 0 would end the stream
	}
	return nil
}

// upstreamEnd is the upstream's end of a tunnel.
func (x *exchange) upstreamEnd() end {
	if st := x.attempt.stream; st != nil {
		return streamEnd{st}
	}
	return x.attempt.up.Conn
}

// tunnelled is what a tunnel needs of a stream.
type tunnelled interface {
	bodySource
	WriteData(p []byte, end bool, deadline int64) (n int, err error)
	Reset(code http2.ErrCode)
}

// streamEnd is a stream as one end of a tunnel.
type streamEnd struct{ tunnelled }

// Write writes all of p.
func (s streamEnd) Write(p []byte, deadline int64) (int, error) {
	return s.WriteData(p, false, deadline)
}

// CloseWrite ends our side of the stream.
func (s streamEnd) CloseWrite() error {
	_, err := s.WriteData(nil, true, 0)
	return err
}

// Close resets the stream.
func (s streamEnd) Close() error {
	s.Reset(http2.Cancel)
	return nil
}

// Release does nothing: a stream holds no buffer while it waits.
func (s streamEnd) Release() {}

// Discard does nothing: what is unread goes when the stream is finished.
func (s streamEnd) Discard() {}
