package proxy

import (
	"errors"
	"os"
	"strconv"

	"github.com/headgate/headgate/dataplane/http2"
	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/upstream"
)

// connectStream takes a stream on a connection that speaks HTTP/2.
func (x *exchange) connectStream() *failure {
	a := &x.attempt
	if st := a.endpoint.ReadyStream(x.conn.shard); st != nil {
		a.stream, a.from, a.facts.Reused = st, st, true
		if x.h2 != nil {
			st.OnBehalf(x.h2)
		} else {
			x.stepAside() // a loop does not wait for streams
		}
		return nil
	}
	x.stepAside()
	st, reused, err := a.endpoint.Stream(x.conn.shard, x, a.deadline)
	x.tick()
	if err != nil {
		return x.connectFailure(err)
	}
	a.stream, a.from, a.facts.Reused = st, st, reused
	return nil
}

// sendStream writes the head and what is there of the body, and starts the upload
// of the rest. A stream that takes no more is no failure yet: what the upstream
// said before can still be read.
func (x *exchange) sendStream() *failure {
	a := &x.attempt
	deadline := earlier(a.deadline, after(x.now, x.route.route.Forward.Idle))
	head := x.streamHead()
	written := x.req.Body.Kind == message.BodyNone
	var err error
	if data := x.wholeData(); data != nil {
		written, err = a.stream.WriteRequest(&head, data, deadline)
	} else {
		err = a.stream.WriteRequestHead(&head, written && x.protocol == nil, deadline)
	}
	x.out = x.out[:0]
	a.sent = err == nil
	if err == nil && !written {
		var fail *failure
		if fail, err = x.sendStreamBody(deadline); fail != nil {
			return fail
		}
	}
	x.letGo()
	if x.h2 == nil || !written {
		x.tick() // what is written at once has the time of what came with it
	}
	a.sentAt, a.facts.SentAt = x.now, x.now
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, http2.ErrNotProcessed) {
		return x.broken(err)
	}
	if err == nil && !x.body.sent() {
		x.upload = startUpload(x)
	}
	return nil
}

// wholeData is the body if it is all there, and goes upstream as it is.
func (x *exchange) wholeData() []byte {
	if x.body.streams || x.req.Body.Kind != message.BodyLength {
		return nil
	}
	return x.body.data
}

// sendStreamBody writes what is there of the body.
func (x *exchange) sendStreamBody(deadline int64) (*failure, error) {
	b := &x.body
	switch {
	case b.streams:
		if fail := x.firstPieces(); fail != nil {
			return fail, nil
		}
	case x.req.Body.Kind == message.BodyChunked:
		if fail := x.wholeChunks(); fail != nil {
			return fail, nil
		}
	default:
		return nil, x.flushStream(x.attempt.stream, b.data, true, deadline)
	}
	err := x.flushStream(x.attempt.stream, x.out, b.sent(), deadline)
	x.out = x.out[:0]
	return nil, err
}

// wholeChunks adds the data of a chunked body that is all there to x.out, in the
// framing that goes upstream, without what ends it.
func (x *exchange) wholeChunks() *failure {
	b := &x.body
	x.bodyDecoder.Reset(x.req.Body, &x.site.limits)
	for used := 0; !x.bodyDecoder.Done(); {
		data, n, err := x.bodyDecoder.Next(b.data[used:])
		if err != nil {
			return badBody(err)
		}
		used += n
		x.out = appendPiece(x.out, x.sentKind(), data)
	}
	return nil
}

// flushStream writes a piece of the request's body; the last one ends the stream.
func (x *exchange) flushStream(st *http2.Stream, data []byte, last bool, deadline int64) error {
	trailers := x.requestTrailers(last)
	if last && trailers == nil {
		_, err := st.WriteData(data, true, deadline)
		return err
	}
	if len(data) > 0 {
		if _, err := st.WriteData(data, false, deadline); err != nil {
			return err
		}
	}
	if !last {
		return nil
	}
	return st.WriteTrailers(trailers, deadline)
}

// requestTrailers are the trailers of the request once its body has ended, or nil
// if there are none.
func (x *exchange) requestTrailers(ended bool) *message.Fields {
	trailers := (*message.Fields)(nil)
	switch {
	case !ended:
	case x.stream != nil && x.body.streams:
		trailers = x.stream.Trailers()
	case x.stream == nil && x.req.Body.Kind == message.BodyChunked:
		trailers = x.bodyDecoder.Trailers()
	}
	if trailers == nil || trailers.Len() == 0 {
		return nil
	}
	return trailers
}

// sentKind is the framing of the request's body towards the upstream. On HTTP/2
// the bytes go as they are.
func (x *exchange) sentKind() message.BodyKind {
	if x.attempt.stream != nil {
		return message.BodyLength
	}
	return x.req.Body.Kind
}

// framing is how the end of the answer's body is found. A stream knows itself.
func (x *exchange) framing() message.Body {
	if x.attempt.stream != nil && x.resp.Body.Kind != message.BodyNone {
		return message.Body{Kind: message.BodyUntilClose}
	}
	return x.resp.Body
}

// streamHead is the head that goes upstream. It is valid until x.out is used
// again.
func (x *exchange) streamHead() http2.RequestHead {
	req := &x.req
	x.fields.Reset()
	fields := req.Fields.All()
	names := nominates(&req.Fields)
	for i := range fields {
		f := &fields[i]
		if !x.withholds(f) && !(names && req.Fields.ConnectionNames(f.ID, f.Name)) && !x.route.request.drops(f) {
			x.fields.AddID(f.ID, f.Name, f.Value)
		}
	}
	x.out = x.blank()
	x.addForwarded()
	if x.facts.Trace.Rewrite && !x.route.request.dropsID(message.Traceparent) {
		x.addOut(message.Traceparent, x.facts.AppendTraceparent(x.out))
	}
	if x.hops != nil {
		x.fields.Add(maxForwards, x.hops)
	}
	if x.passesCallTimeout() {
		x.addOut(message.GRPCTimeout, x.appendCallTimeout(x.out))
	}
	if req.TETrailers {
		x.fields.AddID(message.TE, message.TE.Bytes(), []byte("trailers"))
	}
	if req.Body.Kind == message.BodyLength {
		x.addOut(message.ContentLength, strconv.AppendInt(x.out, req.Body.Length, 10))
	}
	x.addEdits(&x.route.request)
	head := http2.RequestHead{Method: req.MethodName, HTTPS: req.HTTPS, Fields: &x.fields}
	if x.protocol != nil {
		head.Method, head.Protocol = message.MethodConnect.Bytes(), x.protocol
	}
	start := len(x.out)
	x.out = x.appendHost(x.out)
	head.Authority = x.out[start:]
	head.Target = x.target
	if req.HasQuery {
		start = len(x.out)
		x.out = append(append(append(x.out, x.target...), '?'), req.Query...)
		head.Target = x.out[start:]
	}
	return head
}

// addOut adds a field whose value is what grown has more than x.out.
func (x *exchange) addOut(id message.ID, grown []byte) {
	x.fields.AddID(id, id.Bytes(), grown[len(x.out):])
	x.out = grown
}

// awaitStreamHead reads the final response head, passing interim ones on.
func (x *exchange) awaitStreamHead() *failure {
	for {
		deadline := x.headDeadline()
		x.beginWait()
		resp, err := x.attempt.stream.ReadHead(earlier(deadline, x.glance()))
		left := x.endWait()
		switch {
		case left:
			return x.broken(errClientGone)
		case err == nil:
			x.noteFirstByte()
			x.resp, x.borrowed = *resp, true
			if x.resp.Status >= 200 {
				return x.admit(0)
			}
			if fail := x.interim(0); fail != nil {
				return fail
			}
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return x.broken(err)
		case deadline != 0 && x.tick() >= deadline:
			return x.late()
		case x.clientGone():
			return x.broken(errClientGone)
		default:
			x.tick()
		}
	}
}

var errNoHead = errors.New("no response head in time")

// late is the failure of an upstream that did not answer in time.
func (x *exchange) late() *failure {
	if cause := x.uploadFailure(); cause != nil {
		return cause
	}
	x.attempt.outcome, x.attempt.wrong = upstream.Timeout, errNoHead
	return &failure{
		status: 504, reason: reasonTimeout, detail: "the upstream did not answer in time",
		on: snapshot.RetryTimeout | snapshot.RetryGatewayError, sent: true,
	}
}
