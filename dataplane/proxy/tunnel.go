package proxy

import (
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dataplane/http1"
	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
)

// chooseProtocol picks what the connection may be switched to: the first of the
// protocols that the client asks for which the route allows. Others are passed
// over, as a server may (RFC 9110 section 7.8). It reports false for a websocket
// that the route does not allow, and for any other tunnel on a stream.
func (x *exchange) chooseProtocol() bool {
	if x.req.Upgrade == nil || x.oldClient() {
		return true
	}
	for asked := range message.List(x.req.Upgrade) {
		for _, allowed := range x.route.route.Upgrades {
			if message.EqualToken(asked, allowed) {
				x.protocol = asked
				return true
			}
		}
	}
	return !x.extended() && !message.ListContains(x.req.Upgrade, "websocket")
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
		x.cut(&failure{reason: reasonUpgrade, detail: "the upstream switched protocols before it had the request", final: true}, message.BodyNone)
		return
	}
	fail := x.answerSwitch()
	if fail != nil {
		x.cut(fail, message.BodyNone)
		return
	}
	up := x.upstreamEnd()
	if x.stream != nil {
		x.heed()
		x.join(streamEnd{x.stream}, up)
		return
	}
	client := x.conn.sock
	client.Leave()
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
	x.out = http1.AppendStatusLine(x.out[:0], 101, x.resp.Reason)
	x.out = append(x.out, "Connection: Upgrade\r\n"...)
	x.out = appendField(x.out, "Upgrade", x.switchedTo())
	if accept != nil {
		x.out = appendField(x.out, "Sec-WebSocket-Accept", accept)
	}
	x.out = x.appendResponseFields(x.out, message.Body{})
	x.out = append(x.out, x.route.response.lines...)
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

// join runs both directions of a tunnel, each to its end.
func (x *exchange) join(client, up end) {
	idle := x.route.route.Forward.Idle
	var last atomic.Int64
	last.Store(socket.Now())
	out := direction{from: client, to: up, last: &last, idle: idle}
	in := direction{from: up, to: client, last: &last, idle: idle}
	done := make(chan struct{})
	go func() {
		defer close(done)
		out.run()
	}()
	in.run()
	<-done
	x.facts.BytesIn += out.bytes
	x.relayed += in.bytes
	if out.idled || in.idled {
		x.facts.Reason, x.facts.Detail = reasonRead, "the tunnel was silent for too long"
	}
	x.untie()
	x.attempt.discard()
	x.settle()
}

// end is one end of a tunnel: a connection, or a stream.
type end interface {
	Buffered() []byte
	Consume(n int)
	Fill(want int, deadline int64) error
	Write(p []byte, deadline int64) (n int, err error)
	CloseWrite() error
	Close() error
	Release() // lets an empty buffer go
	Discard() // lets the buffer go with what is in it
}

// direction is one half of a tunnel.
type direction struct {
	from, to end
	last     *atomic.Int64 // when either direction carried something
	idle     time.Duration // 0: for ever
	want     int           // how large a buffer the next read deserves
	bytes    int64
	idled    bool
}

// run carries bytes until the sender ends, which is passed on, or something
// breaks, which ends the other direction too.
func (d *direction) run() {
	defer d.from.Discard()
	for {
		if buf := d.from.Buffered(); len(buf) > 0 {
			if _, err := d.to.Write(buf, after(socket.Now(), d.idle)); err != nil {
				d.abort()
				return
			}
			d.bytes += int64(len(buf))
			if d.want = 0; len(buf) >= socket.SmallBuffer {
				d.want = socket.LargeBuffer
			}
			d.from.Consume(len(buf))
			d.last.Store(socket.Now())
		}
		d.from.Release()
		if err := d.fill(); err != nil {
			if !ended(err) || d.to.CloseWrite() != nil {
				d.abort()
			}
			return
		}
	}
}

// fill waits for bytes for as long as either direction is not idle.
func (d *direction) fill() error {
	for {
		err := d.from.Fill(d.want, after(d.last.Load(), d.idle))
		if errors.Is(err, os.ErrDeadlineExceeded) && socket.Now() < after(d.last.Load(), d.idle) {
			continue
		}
		d.idled = errors.Is(err, os.ErrDeadlineExceeded)
		return err
	}
}

func (d *direction) abort() {
	_ = d.from.Close()
	_ = d.to.Close()
}
