package proxy

import (
	"errors"
	"io"
	"os"

	"github.com/headgate/headgate/dataplane/http1"
	"github.com/headgate/headgate/dataplane/http2"
	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
	"github.com/headgate/headgate/dataplane/upstream"
)

// interim passes a 1xx head of n bytes on. A client of HTTP/1.0 cannot take one
// (RFC 9110 section 15.2).
func (x *exchange) interim(n int) *failure {
	x.out = x.blank()
	var fail *failure
	switch {
	case x.branch != nil: // there is no client
	case x.stream != nil:
		fail = x.writeStreamHead(message.Body{}, false)
	case !x.oldClient():
		x.out = http1.AppendStatusLine(x.out, x.resp.Status, x.resp.Reason)
		x.out = x.appendResponseFields(x.out, message.Body{})
		x.out = append(x.out, '\r', '\n')
		fail = x.flush()
	}
	if up := x.attempt.up; up != nil {
		up.Consume(n)
		x.resp.Reset()
	}
	return fail
}

// relay passes the answer on: its head, then its body as it comes.
func (x *exchange) relay() {
	x.facts.Status, x.facts.HeadAt = x.resp.Status, x.attempt.facts.FirstByteAt
	if x.switches() {
		x.tunnel()
		return
	}
	body := x.clientBody()
	x.keep = x.keep && !x.rejectsBody() && !x.conn.drain.Load()
	fail := x.answerHead(body)
	if fail == nil {
		fail = x.relayBody(body.Kind)
	}
	if fail != nil {
		x.cut(fail, body.Kind)
		return
	}
	x.said = true
	if x.attempt.endpoint != nil {
		x.noteCall(x.trailers())
		x.reuse()
	}
}

// answerHead writes the head of the answer: on HTTP/1 into x.out, to leave with
// what is there of the body.
func (x *exchange) answerHead(body message.Body) *failure {
	if x.stream != nil {
		x.ended = body.Kind == message.BodyNone || body.Kind == message.BodyLength && body.Length == 0 && !x.mayHaveTrailers()
		return x.writeStreamHead(body, x.ended)
	}
	x.out = x.appendResponseHead(x.blank(), body)
	return nil
}

// clientBody is the framing of the answer towards the client.
func (x *exchange) clientBody() message.Body {
	switch x.resp.Body.Kind {
	case message.BodyNone, message.BodyLength:
		return x.resp.Body
	}
	if !x.oldClient() {
		return message.Body{Kind: message.BodyChunked}
	}
	x.keep = false
	return message.Body{Kind: message.BodyUntilClose}
}

// rejectsBody reports whether the answer came before the body was read and the
// rest of that is not wanted: the upstream takes no more, or has said no.
func (x *exchange) rejectsBody() bool {
	switch {
	case x.upload == nil:
		return !x.body.finished()
	case x.upload.whole.Load():
		return false
	}
	return x.resp.Status >= 300 || x.resp.Close
}

// relayBody moves the body of the answer, and the head in x.out before it, to
// the client. Nothing waits in x.out while more is awaited.
func (x *exchange) relayBody(kind message.BodyKind) *failure {
	x.decoder.ResetAnswer(x.framing())
	for {
		if fail := x.take(kind); fail != nil {
			return fail
		}
		if x.decoder.Done() {
			break
		}
		if fail := x.flush(); fail != nil {
			return fail
		}
		if x.large(kind) {
			if fail := x.pass(); fail != nil {
				return fail
			}
			continue
		}
		if err := x.more(); err != nil {
			if errors.Is(err, io.EOF) && x.decoder.EOF() == nil {
				break
			}
			return x.bodyBroken(err)
		}
	}
	switch {
	case x.stream != nil:
		return x.endStream()
	case kind == message.BodyChunked:
		x.out = http1.AppendTrailers(x.out, x.trailers())
	}
	if x.attempt.up == nil || x.upload != nil {
		return x.flush()
	}
	// Its next user need not wait for the client.
	x.noteCall(x.trailers())
	x.putBack()
	x.settleNow()
	if x.keep && x.conn.sock.WriteLater(x.out, x.idleDeadline()) {
		x.out = nil
		return nil
	}
	fail := x.flush()
	x.tick()
	return fail
}

// more waits for the next piece of the answer's body.
func (x *exchange) more() error {
	x.tick()
	want, deadline := x.want(), x.idleDeadline()
	err := errNothingYet
	for err == errNothingYet {
		err = x.wait(want, deadline)
	}
	x.tick()
	return err
}

func (x *exchange) idleDeadline() int64 {
	return earlier(x.deadline, after(x.now, x.route.route.Forward.Idle))
}

// want is how large a buffer the rest of the answer deserves.
func (x *exchange) want() int {
	rest := x.decoder.Remaining()
	if rest > socket.SmallBuffer || rest < 0 && x.relayed > 4*socket.SmallBuffer {
		return socket.LargeBuffer
	}
	return 0
}

// take moves what the upstream's buffer holds.
func (x *exchange) take(kind message.BodyKind) *failure {
	up := x.attempt.from
	for len(up.Buffered()) > 0 && !x.decoder.Done() {
		data, n, err := x.decoder.Next(up.Buffered())
		if err != nil {
			return x.badResponse(err)
		}
		if fail := x.put(kind, data); fail != nil {
			return fail
		}
		up.Consume(n)
		x.relayed += int64(len(data))
	}
	return nil
}

// put writes a piece of body: into x.out if it fits there, else straight on.
func (x *exchange) put(kind message.BodyKind, data []byte) *failure {
	switch {
	case x.stream != nil:
		return x.putStream(data)
	case kind == message.BodyChunked:
		return x.putChunk(data)
	}
	if len(x.out) > 0 && len(x.out)+len(data) <= cap(x.out) {
		x.out = append(x.out, data...)
		return nil
	}
	if fail := x.flush(); fail != nil {
		return fail
	}
	return x.write(data)
}

func (x *exchange) putChunk(data []byte) *failure {
	for len(data) > 0 {
		room := cap(x.out) - len(x.out) - chunkOverhead
		if room < len(data) && len(x.out) > 0 {
			if fail := x.flush(); fail != nil {
				return fail
			}
			x.growOut(len(data))
			continue
		}
		n := min(room, len(data))
		x.out = appendChunk(x.out, data[:n])
		data = data[n:]
	}
	return nil
}

// growOut takes a larger buffer for writing when pieces no longer fit.
func (x *exchange) growOut(size int) {
	if cap(x.out) == socket.SmallBuffer && size+chunkOverhead > socket.SmallBuffer {
		socket.PutBuffer(x.out)
		x.out = socket.GetBuffer(socket.LargeBuffer)[:0]
	}
}

// flush writes x.out to the client.
func (x *exchange) flush() *failure {
	if len(x.out) == 0 {
		return nil
	}
	fail := x.write(x.out)
	x.out = x.out[:0]
	return fail
}

func (x *exchange) write(p []byte) *failure {
	if len(p) == 0 {
		return nil
	}
	_, err := x.conn.sock.Write(p, x.idleDeadline())
	return notTaken(err)
}

// notTaken is the failure of a client that did not take what was written to it.
func notTaken(err error) *failure {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &failure{reason: reasonClientGone, detail: "the client did not take the answer in time", final: true}
	}
	return clientGone()
}

// bodyBroken is the failure of an answer that stopped before its end.
func (x *exchange) bodyBroken(err error) *failure {
	if errors.Is(err, errClientGone) {
		return clientGone()
	}
	if cause := x.uploadFailure(); cause != nil {
		return cause
	}
	x.attempt.outcome, x.attempt.wrong = upstream.Reset, err
	if errors.Is(err, os.ErrDeadlineExceeded) {
		x.attempt.outcome = upstream.Timeout
		detail := "the upstream was silent for too long"
		if x.deadline != 0 && x.now >= x.deadline {
			detail = "the answer took longer than the exchange may"
		}
		return &failure{reason: reasonRead, detail: detail}
	}
	return &failure{reason: reasonIncomplete, detail: "the upstream closed the connection before the end of its answer"}
}

// cut ends an exchange whose answer cannot be completed. The client must be able
// to tell: what it got has no end by its framing, and where the end of the
// connection is the framing, that is a reset.
func (x *exchange) cut(fail *failure, kind message.BodyKind) {
	x.noteFailure(fail)
	x.facts.Reason, x.facts.Detail = fail.reason, fail.detail
	if fail.reason == reasonClientGone && x.attempt.outcome == upstream.Success {
		x.attempt.outcome = upstream.Ignored
	}
	switch {
	case fail.reason != reasonClientGone && x.endCall(kind):
	case x.stream != nil:
		x.stream.Reset(http2.InternalError)
	case len(x.out) > 0 && fail.reason != reasonClientGone:
		_ = x.flush()
	}
	x.keep, x.lingers = false, false
	x.release()
	x.lingers = false
	if kind == message.BodyUntilClose && x.stream == nil {
		x.conn.reset()
	}
}

// reuse puts the upstream's connection back, if it can carry another exchange, and
// ends the attempt.
func (x *exchange) reuse() {
	x.putBack()
	x.settle()
}

func (x *exchange) putBack() {
	x.finishUpload()
	whole := x.endUpload()
	x.untie()
	x.keep = x.keep && x.body.finished()
	x.lingers = x.lingers || !x.body.finished()
	if st := x.attempt.stream; st != nil {
		st.Finish()
		return
	}
	up := x.attempt.up
	if whole && !x.resp.Close && x.resp.Body.Kind != message.BodyUntilClose && len(up.Buffered()) == 0 {
		up.Doubt = x.resp.Body.Kind == message.BodyNone
		up.ReleaseAt(x.conn.shard, x.now)
	} else {
		up.Discard()
	}
}
