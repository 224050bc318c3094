package proxy

import (
	"errors"
	"io"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/headgate/headgate/dataplane/http2"
	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
)

// clientStream is a request and its answer on a connection that carries several:
// a stream of HTTP/2, or of HTTP/3. Its methods do what those of http2.Stream do.
type clientStream interface {
	bodySource
	Request() *message.Request
	Fault() *http2.Fault
	Ended() bool
	Trailers() *message.Fields
	WriteResponseHead(status int, fields *message.Fields, end bool, deadline int64) error
	WriteData(p []byte, end bool, deadline int64) (n int, err error)
	WriteTrailers(fields *message.Fields, deadline int64) error
	Reset(code http2.ErrCode)
	Gone() bool
	OnReset(hook func())
}

// streamPool holds the exchanges of streams. Their heads are the streams' own,
// so they must not mix with those of HTTP/1.
var streamPool = sync.Pool{New: func() any { return newExchange() }}

// askClientAfter is the silence after which a client of HTTP/2 with streams open is asked
// whether it is still there (RFC 9113 section 6.7): one that is gone without a word would
// hold a tunnel for ever.
const askClientAfter = 30 * time.Second

// serveHTTP2 serves the streams of a client that speaks HTTP/2, until the
// connection ends. Each is an exchange of its own.
func (c *Conn) serveHTTP2() {
	site := c.generation().site(c.slot)
	if site == nil {
		return
	}
	l := site.listener
	s := http2.NewServer(c.sock, http2.Options{
		MaxConcurrentStreams: l.MaxConcurrentStreams,
		MaxHeaderBytes:       l.MaxHeaderBytes,
		MaxHeaders:           l.MaxHeaders,
		MaxTargetBytes:       l.MaxTargetBytes,
		HeaderTimeout:        l.HeaderTimeout,
		IdleTimeout:          l.IdleTimeout,
		PingAfter:            askClientAfter,
		ExtendedConnect:      true,
	}, func(st *http2.Stream) { c.serveStream(st, st) })
	c.http2.Store(s)
	if c.drain.Load() {
		s.Shutdown()
	}
	if err := s.Serve(); err != nil {
		c.engine.logger.Debug("a connection of HTTP/2 ended", "listener", l.Name, "peer", c.peer, "error", err)
	}
}

// serveStream runs one exchange, or begins it: it may go on where its answer comes.
// A fault of ours ends this stream and no other. h2 is the stream if it is one of
// HTTP/2.
func (c *Conn) serveStream(st clientStream, h2 *http2.Stream) {
	x := streamPool.Get().(*exchange)
	x.conn, x.stream, x.h2 = c, st, h2
	defer x.guard()
	x.serveStream()
	if x.parks {
		x.park()
		return
	}
	x.retire()
}

// guard keeps a panic to its exchange.
func (x *exchange) guard() {
	if fault := recover(); fault != nil {
		x.conn.engine.logger.Error("an exchange panicked", "fault", fault, "stack", string(debug.Stack()))
		x.forsake()
		if x.detached {
			x.h2.Finish()
		}
	}
}

// retire makes the exchange of a stream ready for its next use.
func (x *exchange) retire() {
	x.heedless()
	st, detached := x.h2, x.detached
	x.req = message.Request{} // its fields are the stream's
	x.reset()
	streamPool.Put(x)
	if detached {
		st.Finish()
	}
}

func (x *exchange) serveStream() {
	c, st := x.conn, x.stream
	x.gen, x.client = c.generation(), c.peer
	x.site = x.gen.site(c.slot)
	x.tried = x.triedSpace[:0]
	x.equip()
	x.facts.Shard, x.facts.Started = c.shard, x.readAt()
	x.req = *st.Request()
	x.req.HTTPS = c.secure // whatever :scheme claims
	switch fault := st.Fault(); {
	case x.site == nil:
		x.refuse(503, reasonConfiguration, "this listener is not part of the configuration")
	case fault != nil:
		x.refuse(fault.Status, reasonRequest, fault.Reason)
	default:
		x.takeStreamBody()
		x.run()
	}
	if !x.parks {
		x.finish()
	}
}

// readAt is when the head of the stream's request was read, which becomes the last
// look at the clock.
func (x *exchange) readAt() int64 {
	if x.h2 == nil {
		return x.tick()
	}
	x.now = x.h2.ReadAt()
	return x.now
}

// finishStream lets go of what the exchange of a stream held.
func (x *exchange) finishStream() {
	x.shed()
	if x.head != nil {
		socket.PutBuffer(x.head)
	}
}

// takeStreamBody looks at what has come of the body. A small one that is all
// there is kept, so that it can be sent again; another streams.
func (x *exchange) takeStreamBody() {
	b := &x.body
	if x.req.Body.Kind == message.BodyNone {
		b.whole = true
		return
	}
	if x.h2 != nil {
		if data, trailers, ok := x.h2.Whole(); ok && trailers.Len() == 0 && len(data) <= socket.SmallBuffer {
			x.keepBody(data)
			return
		}
	}
	x.bodyDecoder.Reset(message.Body{Kind: message.BodyUntilClose}, &x.site.limits)
	if x.stream.Ended() && x.req.Body.Length <= socket.SmallBuffer {
		for len(x.stream.Buffered()) <= socket.SmallBuffer {
			err := x.stream.Fill(0, x.now)
			if err == nil {
				continue
			}
			if !errors.Is(err, io.EOF) || x.stream.Trailers().Len() > 0 {
				break
			}
			x.keepBody(x.stream.Buffered())
			return
		}
	}
	b.streams = true
}

// keepBody takes a body that is all there.
func (x *exchange) keepBody(data []byte) {
	x.body.whole, x.body.data = true, data
	x.facts.BytesIn = int64(len(data))
	x.req.Body = message.Body{Kind: message.BodyLength, Length: x.facts.BytesIn}
}

// writeStreamHead writes the head of the upstream's answer to the stream.
func (x *exchange) writeStreamHead(body message.Body, end bool) *failure {
	x.answerFields(body)
	err := x.stream.WriteResponseHead(x.resp.Status, &x.fields, end, x.idleDeadline())
	x.out = x.out[:0]
	return notTaken(err)
}

// answerFields makes the fields of the upstream's answer those that the client is
// to see. They are valid until x.out is used again. That there is no body the end of
// the stream says, and no length where the upstream gave none.
func (x *exchange) answerFields(body message.Body) {
	fields := x.resp.Fields.All()
	names := nominates(&x.resp.Fields)
	x.fields.Reset()
	x.out = x.out[:0]
	for i := range fields {
		if f := &fields[i]; x.passes(f, body.Kind, names) {
			x.fields.AddID(f.ID, f.Name, f.Value)
		}
	}
	if body.Kind == message.BodyLength && (body.Length > 0 || x.resp.Fields.Has(message.ContentLength)) {
		x.addOut(message.ContentLength, strconv.AppendInt(x.out, body.Length, 10))
	}
	if x.datesAnswer() {
		x.fields.AddID(message.Date, message.Date.Bytes(), httpDate(x.now))
	}
	x.addEdits(&x.route.response)
	if x.resp.Status >= 200 && x.announces() {
		x.fields.AddID(message.Other, altSvcField.Name, x.site.alternative)
	}
	if x.resp.Status >= 200 && x.bindsClient() {
		x.addOut(message.SetCookie, x.appendAffinity(x.out))
	}
}

func (x *exchange) addEdits(e *edits) {
	for i := range e.fields {
		x.fields.AddID(e.fields[i].ID, e.fields[i].Name, e.fields[i].Value)
	}
}

// putStream writes a piece of body. The last one ends the stream, unless
// trailers follow.
func (x *exchange) putStream(data []byte) *failure {
	x.ended = x.decoder.Done() && x.trailers().Len() == 0
	_, err := x.stream.WriteData(data, x.ended, x.idleDeadline())
	return notTaken(err)
}

// endStream ends the answer, with trailers if there are any.
func (x *exchange) endStream() *failure {
	if x.ended {
		return nil
	}
	return notTaken(x.stream.WriteTrailers(x.trailers(), x.idleDeadline()))
}

// mayHaveTrailers reports whether trailers may follow an answer though it has a body of
// no bytes: on a stream its length does not end it.
func (x *exchange) mayHaveTrailers() bool {
	st := x.attempt.stream
	return st != nil && (!st.Ended() || st.Trailers().Len() > 0)
}

// trailers are those of the answer.
func (x *exchange) trailers() *message.Fields {
	if st := x.attempt.stream; st != nil {
		return st.Trailers()
	}
	return x.decoder.Trailers()
}

// sayStream sends an answer of our own on a stream. A client of gRPC is told in
// its own words.
func (x *exchange) sayStream(a *answer) {
	x.fields.Reset()
	status := a.status
	if x.speaksGRPC() && a.reason != "" {
		status = 200
		x.addGRPCStatus(a)
	} else {
		x.addAnswer(a)
	}
	if x.route != nil {
		x.addEdits(&x.route.response)
	}
	if x.announces() {
		x.fields.AddID(message.Other, altSvcField.Name, x.site.alternative)
	}
	deadline := x.now + int64(answerTime)
	body := len(a.body) > 0 && x.req.Method != message.MethodHead
	err := x.stream.WriteResponseHead(status, &x.fields, !body, deadline)
	if err == nil && body {
		x.relayed = int64(len(a.body))
		_, _ = x.stream.WriteData(a.body, true, deadline)
	}
	x.tick()
}

// addAnswer adds the fields of an answer of our own.
func (x *exchange) addAnswer(a *answer) {
	x.fields.AddID(message.Date, message.Date.Bytes(), httpDate(x.now))
	if len(a.location) > 0 {
		x.add("location", a.location)
	}
	if a.contentType != "" && len(a.body) > 0 && !x.ownsContentType() {
		x.add("content-type", []byte(a.contentType))
	}
	if a.status == 405 && a.reason != "" {
		x.add("allow", []byte(allowed))
	}
	if a.reason != "" {
		x.add("proxy-status", x.appendProxyStatusValue(nil, a))
	}
	if noLength(a.status) || a.status == 304 {
		a.body = nil
		return
	}
	x.add("content-length", strconv.AppendInt(nil, int64(len(a.body)), 10))
}

func (x *exchange) add(name string, value []byte) { x.fields.Add([]byte(name), value) }
