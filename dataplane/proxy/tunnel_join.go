package proxy

import (
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dataplane/socket"
)

// Why a tunnel ended otherwise than by the end of both its sides.
var (
	tunnelSilent    = &failure{reason: reasonRead, detail: "the tunnel was silent for too long"}
	clientBroke     = &failure{reason: reasonClientGone, detail: "the client broke the tunnel off"}
	upstreamBroke   = &failure{reason: reasonTerminated, detail: "the upstream broke the tunnel off"}
	clientClogged   = &failure{reason: reasonClientGone, detail: "the client did not take in time what came through the tunnel"}
	upstreamClogged = &failure{reason: reasonWrite, detail: "the upstream did not take in time what came through the tunnel"}
)

// join runs both directions of a tunnel, each to its end.
func (x *exchange) join(client, up end) {
	both := joint{idle: x.route.route.Forward.Idle, stream: x.stream}
	both.last.Store(socket.Now())
	out := direction{joint: &both, from: client, to: up, broke: clientBroke, deaf: upstreamBroke, clogged: upstreamClogged}
	in := direction{joint: &both, from: up, to: client, broke: upstreamBroke, deaf: clientBroke, clogged: clientClogged}
	done := make(chan struct{})
	go func() {
		defer close(done)
		out.run()
	}()
	in.run()
	<-done
	x.facts.BytesIn += out.bytes
	x.relayed += in.bytes
	x.noteEnd(both.fault.Load())
	x.untie()
	x.attempt.discard()
	x.settle()
}

// noteEnd leaves on the record why the tunnel was broken off, if it was; that it
// is cut at the end of a drain is nobody's fault.
func (x *exchange) noteEnd(fault *failure) {
	switch {
	case x.conn.closed.Load():
		x.facts.Detail = "the tunnel was cut at the end of a drain"
		return
	case fault == nil:
		return
	}
	if fault != tunnelSilent {
		x.noteFailure(fault)
	}
	x.facts.Reason, x.facts.Detail = fault.reason, fault.detail
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

// joint is what the two directions of a tunnel share.
type joint struct {
	idle   time.Duration // 0: for ever
	stream clientStream  // nil on HTTP/1
	last   atomic.Int64  // when either direction carried something
	ended  atomic.Int64  // when the first direction came to its end, 0: none has
	fault  atomic.Pointer[failure]
}

// direction is one half of a tunnel.
type direction struct {
	*joint
	from, to             end
	broke, deaf, clogged *failure // what it is when from breaks, and when to takes no more, at all or in time
	want                 int      // how large a buffer the next read deserves
	bytes                int64
}

// run carries bytes until the sender ends, which is passed on, or something
// breaks, which ends the other direction too.
func (d *direction) run() {
	defer d.from.Discard()
	for {
		if buf := d.from.Buffered(); len(buf) > 0 {
			if _, err := d.to.Write(buf, after(socket.Now(), d.idle)); err != nil {
				d.refused(err)
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
			d.end(err)
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
		return err
	}
}

// end is called when nothing more comes from the sender. A receiver that cannot
// be told is found to be gone by the other direction.
func (d *direction) end(err error) {
	switch {
	case ended(err):
		_ = d.to.CloseWrite()
		d.ended.CompareAndSwap(0, socket.Now())
	case errors.Is(err, os.ErrDeadlineExceeded):
		d.abort(tunnelSilent)
	default:
		d.abort(d.broke)
	}
}

// refused is called when the receiver did not take what was sent. If it takes no
// more at all, what it said before it left may be on its way in the other
// direction, which goes on to its end; the sender is heard meanwhile: closing on
// one that is not would reset its connection, and what it has not read yet would
// be lost (RFC 9112 section 9.6).
func (d *direction) refused(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		d.abort(d.clogged)
		return
	}
	for limit := socket.Now() + int64(lingerTime); socket.Now() < limit; {
		d.from.Consume(len(d.from.Buffered()))
		d.from.Release()
		err := d.from.Fill(0, socket.Now()+int64(lingerQuiet))
		switch {
		case ended(err):
			d.ended.CompareAndSwap(0, socket.Now())
			return
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
			d.abort(d.broke)
			return
		}
		if over := d.ended.Load(); over != 0 && socket.Now() >= over+int64(lingerQuiet) {
			break
		}
	}
	d.abort(d.deaf)
}

// abort ends both directions at once. The first to say why is believed; but a
// client that resets its stream has the upstream's broken by that, which may be
// seen first.
func (d *direction) abort(fault *failure) {
	if fault == upstreamBroke && d.stream != nil && d.stream.Gone() {
		fault = clientBroke
	}
	d.fault.CompareAndSwap(nil, fault)
	_ = d.from.Close()
	_ = d.to.Close()
}
