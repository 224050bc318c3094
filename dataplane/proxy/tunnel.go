package proxy

import (
	"github.com/headgate/headgate/dataplane/http1"
	"github.com/headgate/headgate/dataplane/message"
)

// chooseProtocol picks what the connection may be switched to: the first of the
// protocols that the client asks for which the route allows. Others are passed
// over, as a server may (RFC 9110 section 7.8). It reports false for a websocket
// that the route does not allow, and for any other tunnel on a stream.
func (x *exchange) chooseProtocol() bool {
	if x.req.Upgrade == nil || x.oldClient() {
		return true
	}
	for line := range x.req.Fields.Values(message.Upgrade) {
		for asked := range message.List(line) {
			if x.allowsProtocol(asked) {
				x.protocol = asked
				return true
			}
		}
	}
	return !x.extended() && !x.req.Fields.ListContains(message.Upgrade, "websocket")
}

func (x *exchange) allowsProtocol(asked []byte) bool {
	for _, allowed := range x.route.route.Upgrades {
		if message.EqualToken(asked, allowed) {
			return true
		}
	}
	return false
}

// refuseUpgrade refuses what chooseProtocol does not let pass: a websocket is not
// wanted here, of another protocol nothing is known (RFC 9220 section 3).
func (x *exchange) refuseUpgrade() {
	if x.extended() && !message.EqualToken(x.req.Upgrade, "websocket") {
		x.refuse(501, reasonUpgrade, "the route knows no tunnel of this protocol")
		return
	}
	x.refuse(403, reasonUpgrade, "the route does not allow this upgrade")
}

// switches reports whether the answer opens the tunnel that was asked for.
func (x *exchange) switches() bool {
	if x.attempt.stream != nil {
		return x.protocol != nil && x.resp.Status < 300 // RFC 9110 section 9.3.6
	}
	return x.resp.Status == 101
}

// wrongSwitch is the failure of an upstream that switches to a protocol which it
// was not asked for.
func (x *exchange) wrongSwitch() *failure {
	var detail string
	switch {
	case x.attempt.stream != nil:
		return nil
	case x.resp.Status != 101 && (!x.extended() || x.resp.Status >= 300):
		return nil
	case x.resp.Status != 101:
		detail = "the upstream did not switch protocols"
	case x.extended() && x.isWebsocket() && !x.acceptsKey():
		detail = "the upstream did not accept the handshake"
	case x.protocol == nil || !message.EqualFold(x.protocol, x.resp.Upgrade):
		detail = "the upstream switched to a protocol that was not asked for"
	default:
		return nil
	}
	return &failure{status: 502, reason: reasonUpgrade, detail: detail, sent: true, final: true}
}

// tunnel switches protocols and carries bytes both ways until both sides have
// ended, one is broken, or both are silent for too long. What either side sent
// before the switch is carried first.
func (x *exchange) tunnel() {
	x.keep = false
	if !x.endUpload() {
		fail := &failure{status: 502, reason: reasonUpgrade, detail: "the upstream switched protocols before it had the request"}
		x.noteFailure(fail)
		x.release()
		x.refuse(fail.status, fail.reason, fail.detail)
		return
	}
	fail := x.answerSwitch()
	if fail != nil {
		x.cut(fail, message.BodyNone)
		return
	}
	up := x.upstreamEnd()
	if x.attempt.up != nil {
		x.attempt.up.Depart()
	}
	if x.stream != nil {
		x.heed()
		x.join(streamEnd{x.stream}, up)
		return
	}
	client := x.conn.sock
	client.Depart()
	client.Consume(x.headLen + x.body.raw)
	x.headLen, x.body.raw = 0, 0
	x.conn.hold(up)
	defer x.conn.letGo()
	x.join(client, up)
}

// answerSwitch tells the client that the tunnel is open.
func (x *exchange) answerSwitch() *failure {
	if x.stream != nil {
		return x.answerConnect()
	}
	accept := x.acceptOfStream()
	x.resp.Status = 101
	x.facts.Status = 101
	x.out = http1.AppendStatusLine(x.blank(), 101, x.resp.Reason)
	x.out = append(x.out, "Connection: Upgrade\r\n"...)
	x.out = appendField(x.out, "Upgrade", x.switchedTo())
	if accept != nil {
		x.out = appendField(x.out, "Sec-WebSocket-Accept", accept)
	}
	x.out = x.appendResponseFields(x.out, message.Body{})
	x.out = append(x.out, x.route.response.lines...)
	if x.bindsClient() {
		x.out = append(x.appendAffinity(append(x.out, "Set-Cookie: "...)), "\r\n"...)
	}
	x.out = append(x.out, '\r', '\n')
	return x.flush()
}

// switchedTo is the protocol of the tunnel, as the upstream spells it.
func (x *exchange) switchedTo() []byte {
	if x.resp.Upgrade != nil {
		return x.resp.Upgrade
	}
	return x.protocol
}
