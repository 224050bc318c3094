package proxy

import (
	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
)

// largeBody is from how much on a body is worth a pipe, in bytes.
const largeBody = 64 << 10

// large reports whether the rest of the answer is so long that it is passed on
// without being looked at, and both connections allow that.
func (x *exchange) large(kind message.BodyKind) bool {
	return kind == message.BodyLength && x.decoder.Remaining() >= largeBody && !x.copies &&
		x.stream == nil && x.attempt.up != nil && x.conn.sock.Spliceable() && x.attempt.up.Spliceable()
}

// pass moves the rest of a large body from the upstream to the client inside the
// kernel. Nothing of it is buffered, and nothing waits in x.out. If there is no
// pipe to be had, the body is copied as others are.
func (x *exchange) pass() *failure {
	p, err := socket.NewPipe()
	if err != nil {
		x.copies = true
		return nil
	}
	defer p.Close()
	x.stepAside()
	x.attempt.up.Conn.Release()
	for !x.decoder.Done() {
		if err := x.takeInto(p); err != nil {
			return x.bodyBroken(err)
		}
		n, err := p.Give(x.conn.sock, x.idleDeadline())
		x.decoder.Advance(int64(n))
		x.relayed += int64(n)
		if err != nil {
			return notTaken(err)
		}
	}
	return nil
}

// takeInto waits for the next piece of the body and takes it into the pipe.
func (x *exchange) takeInto(p *socket.Pipe) error {
	x.tick()
	deadline := x.idleDeadline()
	err := errNothingYet
	for err == errNothingYet {
		x.beginWait()
		err = x.waited(p.Take(x.attempt.up.Conn, x.decoder.Remaining(), earlier(deadline, x.glance())), deadline)
	}
	x.tick()
	return err
}
