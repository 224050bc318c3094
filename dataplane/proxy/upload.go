package proxy

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dataplane/http1"
	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
)

// upload carries the rest of a request body upstream while the exchange reads
// the answer, so that either side may speak first. It owns the reading side of
// the client's connection, the writing side of the upstream's and the decoder of
// the body until done is closed.
type upload struct {
	x     *exchange
	again bool // what was read of the body before is sent first
	bytes int64
	out   []byte

	failed  atomic.Pointer[failure] // the client's fault, told before the upstream's connection is closed for it
	whole   atomic.Bool             // the body was read to its end, and is in out or sent
	stop    atomic.Bool
	endedAt atomic.Int64 // 0: it goes on
	done    chan struct{}
}

// firstPieces adds what is there of a streaming body to x.out. If it has begun with
// an attempt before, all of it is left to the upload.
func (x *exchange) firstPieces() *failure {
	sock, b := x.source(), &x.body
	if b.begun {
		b.again = true
		return nil
	}
	for len(sock.Buffered()) > 0 && !x.bodyDecoder.Done() {
		room := cap(x.out) - len(x.out) - chunkOverhead
		if room <= 0 {
			return nil
		}
		buf := sock.Buffered()
		data, n, err := x.bodyDecoder.Next(buf[:min(room, len(buf))])
		if err != nil {
			return badBody(err)
		}
		x.takePiece(data)
		x.out = appendPiece(x.out, x.sentKind(), data)
		sock.Consume(n)
		b.begun = b.begun || n > 0
	}
	if x.bodyDecoder.Done() {
		b.ended = true
		x.copy.end()
		if x.attempt.stream == nil {
			x.out = x.appendEnd(x.out)
		}
	}
	if x.overLimit() {
		return tooLarge()
	}
	return nil
}

func startUpload(x *exchange) *upload {
	x.mayWait()
	x.body.begun = true
	if x.stream == nil && x.branch == nil {
		x.conn.sock.Leave()
	}
	u := &upload{x: x, again: x.body.again, bytes: x.facts.BytesIn, done: make(chan struct{})}
	x.body.again = false
	go u.run()
	return u
}

func (u *upload) run() {
	defer close(u.done)
	defer func() { u.endedAt.Store(socket.Now()) }()
	u.out = socket.GetBuffer(0)[:0]
	defer func() { socket.PutBuffer(u.out) }()
	if u.again && u.repeat() != nil {
		return
	}
	for !u.whole.Load() {
		if fail := u.step(); fail != nil {
			if !u.stop.Load() {
				u.failed.Store(fail)
			}
			u.x.attempt.kill()
			return
		}
		if u.stop.Load() || u.flush() != nil {
			return // the upstream takes no more; it may have answered
		}
	}
}

// step reads more of the body into u.out.
func (u *upload) step() *failure {
	sock, d := u.x.source(), &u.x.bodyDecoder
	if len(sock.Buffered()) == 0 && !d.Done() {
		deadline := earlier(u.x.deadline, after(socket.Now(), u.x.site.listener.BodyIdleTimeout))
		if err := sock.Fill(u.want(), deadline); err != nil && (!errors.Is(err, io.EOF) || d.EOF() != nil) {
			return u.bodyEnded(err)
		}
	}
	for len(sock.Buffered()) > 0 && !d.Done() {
		data, n, err := d.Next(sock.Buffered())
		if err != nil {
			return badBody(err)
		}
		u.bytes += int64(len(data))
		if limit := u.x.route.route.MaxRequestBytes; limit > 0 && u.bytes > limit {
			return tooLarge()
		}
		u.x.copy.put(data)
		u.x.replay.put(data)
		u.out = appendPiece(u.out, u.x.sentKind(), data)
		sock.Consume(n)
	}
	if d.Done() {
		if u.x.attempt.stream == nil {
			u.out = u.x.appendEnd(u.out)
		}
		u.x.copy.end()
		u.whole.Store(true)
	}
	return nil
}

// bodySource is what a body is read from: a connection, or a stream.
type bodySource interface {
	Buffered() []byte
	Consume(n int)
	Fill(want int, deadline int64) error
	Interrupt()
	Resume()
}

func (x *exchange) source() bodySource {
	if x.branch != nil && x.branch.pipe != nil {
		return x.branch.pipe
	}
	if x.stream != nil {
		return x.stream
	}
	return x.conn.sock
}

// want is how large a buffer the rest of the body deserves.
func (u *upload) want() int {
	if rest := u.x.bodyDecoder.Remaining(); rest > socket.SmallBuffer || rest < 0 && u.bytes > 4*socket.SmallBuffer {
		return socket.LargeBuffer
	}
	return 0
}

func (u *upload) flush() error {
	deadline := earlier(u.x.deadline, after(socket.Now(), u.x.route.route.Forward.Idle))
	err := error(nil)
	if st := u.x.attempt.stream; st != nil {
		err = u.x.flushStream(st, u.out, u.whole.Load(), deadline)
	} else if len(u.out) > 0 {
		_, err = u.x.attempt.up.Write(u.out, deadline)
	}
	u.out = u.out[:0]
	return err
}

// uploadFailure is the client's fault that ended the upload, or nil.
func (x *exchange) uploadFailure() *failure {
	if x.upload == nil {
		return nil
	}
	return x.upload.failed.Load()
}

// finishUpload lets the client send the rest of its body after the answer, if
// the upstream still wants it.
func (x *exchange) finishUpload() {
	u := x.upload
	if u == nil || x.rejectsBody() {
		return
	}
	for !waitFor(u.done, lookEvery) && !x.clientGone() {
	}
}

// lastWrite is how long an upstream that has answered may take to accept the
// end of the request.
const lastWrite = time.Second

// endUpload waits for the upload, cutting it short if the body has not gone
// upstream to its end. It reports whether the request went upstream whole.
func (x *exchange) endUpload() bool {
	u := x.upload
	if u == nil {
		return x.body.sent()
	}
	x.upload = nil
	if !u.whole.Load() || !waitFor(u.done, lastWrite) {
		u.stop.Store(true)
		x.source().Interrupt()
		x.attempt.kill()
		<-u.done
		x.source().Resume()
	}
	x.facts.BytesIn = u.bytes
	x.body.ended = x.bodyDecoder.Done()
	x.lingers = x.lingers || !x.body.ended
	return u.whole.Load() && !u.stop.Load() && len(u.out) == 0
}

// waitFor waits for a channel to be closed, and reports whether it was.
func waitFor(done <-chan struct{}, limit time.Duration) bool {
	select {
	case <-done:
		return true
	default:
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// bodyEnded is the failure of a client that stopped sending its body.
func (u *upload) bodyEnded(err error) *failure {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if end := u.x.deadline; end != 0 && socket.Now() >= end {
			return &failure{status: 504, reason: reasonTimeout, detail: "the request took longer than the exchange may", final: true}
		}
		return &failure{status: 408, reason: reasonClientSlow, detail: "no byte of the request body for too long", final: true}
	}
	return clientGone()
}

// badBody is the failure of a request whose framing is broken.
func badBody(err error) *failure {
	status, detail := faultOf(err)
	return &failure{status: status, reason: reasonRequest, detail: detail, final: true}
}

func tooLarge() *failure {
	return &failure{status: 413, reason: reasonTooLarge, detail: "the request body is over the limit of the route", final: true}
}

// faultOf is the status and the text of a fault in a request.
func faultOf(err error) (status int, detail string) {
	if wire, ok := errors.AsType[*http1.Error](err); ok {
		return wire.Status, wire.Reason
	}
	return 400, err.Error()
}

// chunkOverhead is the most that framing adds to one piece of a body.
const chunkOverhead = 32

// appendPiece appends a piece of a body in the framing of its kind.
func appendPiece(dst []byte, kind message.BodyKind, data []byte) []byte {
	if kind != message.BodyChunked {
		return append(dst, data...)
	}
	return appendChunk(dst, data)
}

func appendChunk(dst, data []byte) []byte {
	if len(data) == 0 {
		return dst
	}
	dst = http1.AppendChunkHeader(dst, len(data))
	dst = append(dst, data...)
	return append(dst, '\r', '\n')
}

// appendEnd appends what ends the body of the request.
func (x *exchange) appendEnd(dst []byte) []byte {
	switch {
	case x.req.Body.Kind != message.BodyChunked:
		return dst
	case x.stream != nil:
		return http1.AppendTrailers(dst, x.stream.Trailers())
	}
	return http1.AppendTrailers(dst, x.bodyDecoder.Trailers())
}
