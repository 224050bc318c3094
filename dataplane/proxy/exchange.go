package proxy

import (
	"errors"
	"net/netip"
	"time"

	"github.com/headgate/headgate/dataplane/http1"
	"github.com/headgate/headgate/dataplane/http2"
	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/route"
	"github.com/headgate/headgate/dataplane/socket"
	"github.com/headgate/headgate/dataplane/telemetry"
	"github.com/headgate/headgate/dataplane/upstream"
	"github.com/headgate/headgate/dataplane/upstream/retry"
)

// exchange is one request and its answer. The goroutine of the connection owns
// it; while a request body streams, the upload owns the reading side of the
// client and the writing side of the upstream connection.
type exchange struct {
	state

	// What is kept from one use to the next, for its storage.
	req         message.Request
	resp        message.Response
	fields      message.Fields // of a head that goes to a stream
	bodyDecoder http1.Decoder  // of the request body
	decoder     http1.Decoder  // of the response body
	facts       telemetry.Exchange
	pathSpace   []byte
	targetSpace []byte
	triedSpace  [maxTries]*upstream.Endpoint
	leash       leash
	clientLeft  func() // left, made once
	replay      replay // of the request body
}

// state is what an exchange forgets when it is over.
type state struct {
	conn *Conn
	gen  *Generation
	site *site

	stream  clientStream  // nil on HTTP/1
	branch  *branch       // nil: this is the exchange of a client
	h2      *http2.Stream // the same, if it is one of HTTP/2
	headLen int           // bytes of the request head in the client's buffer, 0 once consumed
	head    []byte        // a copy of the head that outlives the client's buffer; nil while not needed
	body    requestBody

	client  netip.Addr // who sent the request, as far as the peers are trusted
	trusted bool       // the peer may say who the client is
	path    []byte     // normalized
	target  []byte     // path after the rewrite
	route   *routeState
	match   route.Result

	cluster      *upstream.Cluster
	tried        []*upstream.Endpoint
	pick         upstream.Pick
	deadline     int64         // of the whole exchange, 0: none
	callTimeout  time.Duration // that a client of gRPC gives its call
	callDeadline int64         // when that is over, 0: never
	hops         []byte        // what is left of Max-Forwards, nil: nothing was said of it
	attempt      attempt
	retries      int
	backoff      time.Duration // before the retry that was granted
	place        retry.Place   // among the retries of the cluster
	load         upstream.Load // its part of what waits for an answer of the cluster
	protocol     []byte        // what the connection may be switched to, nil: nothing
	key          []byte        // of a websocket handshake that is ours
	upload       *upload       // nil unless the body streams

	heeds     bool     // left is called when the client's stream is reset
	parks     bool     // the answer is awaited without a goroutine; see park
	unsent    int      // bytes at the end of out that are to be written yet
	detached  bool     // the client's stream is finished by the exchange
	admitted  bool     // the answer that was awaited has come to this:
	pending   *failure // or nil
	inCluster bool     // the cluster has counted it in

	copy *pipe // where a mirror reads what streams of the body; nil: nowhere

	draft    *draft // of a stream, where x.fields and x.out come from; nil: they are its own
	copies   bool   // a large body, for want of a pipe between sockets
	borrowed bool   // resp is a stream's
	out      []byte // what is written next
	relayed  int64  // body bytes given to the client

	now     int64 // the last look at the clock; looking costs, so it is shared
	begun   bool  // telemetry has heard of it
	ended   bool  // the stream of the client has been ended
	keep    bool  // the client's connection can be used again
	lingers bool  // the client may still be sending
	said    bool  // the answer was written to its end
}

// maxTries bounds the attempts of one exchange, whatever a route asks for.
const maxTries = 16

func newExchange() *exchange {
	x := new(exchange)
	x.clientLeft = x.left
	return x
}

// reset forgets everything but the storage.
func (x *exchange) reset() {
	x.req.Reset()
	if x.borrowed {
		x.resp = message.Response{}
	}
	x.resp.Reset()
	x.facts.Reset()
	x.replay.reset()
	clear(x.triedSpace[:len(x.tried)])
	x.state = state{}
}

// serve reads one request and answers it. It reports whether the connection
// can carry another.
func (x *exchange) serve(c *Conn) bool {
	x.conn, x.gen, x.client = c, c.generation(), c.peer
	x.site = x.gen.site(c.slot)
	x.tried = x.triedSpace[:0]
	x.facts.Shard, x.facts.Started = c.shard, x.tick()
	if x.readHead() {
		x.keep = !x.req.Close && !c.drain.Load()
		x.run()
	}
	x.finish()
	return x.keep
}

// blank is x.out with nothing in it. On HTTP/1 a buffer is held only while there is
// something to write: those of all exchanges that await an answer would be more than
// the caches of a processor hold.
func (x *exchange) blank() []byte {
	if x.out == nil && x.stream == nil {
		x.out = socket.GetBuffer(0)
	}
	return x.out[:0]
}

// letGo gives x.out back, in which nothing is left, where blank would get another.
func (x *exchange) letGo() {
	if x.stream == nil && x.branch == nil {
		socket.PutBuffer(x.out)
		x.out = nil
	}
}

// tick looks at the clock.
func (x *exchange) tick() int64 {
	x.now = socket.Now()
	return x.now
}

// finish records the exchange and lets go of what it held.
func (x *exchange) finish() {
	x.facts.Ended = x.now
	x.facts.BytesOut = x.relayed
	if x.begun {
		x.gen.View.Finish(&x.facts)
	}
	if x.stream != nil {
		x.finishStream()
		return
	}
	x.conn.now = x.now
	if x.keep {
		x.keep = x.body.finished()
		x.conn.sock.Consume(x.headLen + x.body.raw)
	}
	socket.PutBuffer(x.out)
	if x.head != nil {
		socket.PutBuffer(x.head)
	}
	if !x.keep && (x.lingers || x.said && x.surplus()) {
		x.conn.linger()
	}
}

// surplus reports whether the client has sent more than the request that was the
// last one: to close on it would take from it what it has not read of the answer.
func (x *exchange) surplus() bool {
	sock := x.conn.sock
	return len(sock.Buffered()) > x.headLen+x.body.raw || sock.Peek() == socket.Readable
}

// readHead reads the head of a request. When it reports false there is nothing
// to run: the client went away, or has been told what was wrong.
func (x *exchange) readHead() bool {
	if x.site == nil {
		x.lingers = true
		x.refuse(503, reasonConfiguration, "this listener is not part of the configuration")
		return false
	}
	sock, deadline := x.conn.sock, int64(0)
	for {
		n, err := http1.ParseRequest(sock.Buffered(), &x.req, &x.site.limits)
		if errors.Is(err, http1.ErrHTTP2Preface) && x.conn.mayBegin() {
			x.conn.preface = true
			return false
		}
		if err != nil && x.judged(err) {
			return false
		}
		if n > 0 {
			x.conn.spoken = true
			x.headLen = n
			x.req.HTTPS = x.conn.secure // whatever the target claims
			return true
		}
		if deadline == 0 {
			deadline = after(x.facts.Started, x.site.listener.HeaderTimeout)
		}
		if silence := sock.Fill(0, deadline); silence != nil {
			x.headEnded(err, silence)
			return false
		}
		x.tick()
	}
}

// run takes a request that was read through its stages.
func (x *exchange) run() {
	x.identify()
	if x.req.Method == message.MethodConnect && !x.extended() {
		x.refuseConnect()
		return
	}
	if x.stream == nil && !x.takeBody() || !x.normalize() {
		return
	}
	x.begin()
	x.asHandshake()
	if x.answered() {
		return
	}
	found, ok := x.site.listener.Table.Match(&x.req, x.path, x.client)
	if !ok {
		x.refuse(404, reasonNoRoute, "no route matches")
		return
	}
	x.match, x.route = found, &x.gen.routes[found.Route]
	x.facts.Route = x.route.route
	if !x.route.prompt {
		x.mayWait()
	}
	x.act()
}

// answered answers what comes before every route: an authority that asks for the
// proof of a domain (RFC 8555 section 8.3).
func (x *exchange) answered() bool {
	if x.conn.engine.answers == nil || x.conn.secure {
		return false
	}
	body := x.conn.engine.answers(x.path)
	if body == nil {
		return false
	}
	x.say(&answer{status: 200, contentType: "application/octet-stream", body: body})
	return true
}

// begin tells the recording what came in, and has it decide about a trace. Of a
// broken head that is what could be read of it.
func (x *exchange) begin() {
	if x.begun || x.site == nil {
		return
	}
	x.begun = true
	f, req := &x.facts, &x.req
	f.Listener = x.site.listener.Name
	f.Method, f.MethodName = req.Method, req.MethodName
	f.Host, f.Path, f.Query = req.Authority, req.Path, req.Query
	f.Major, f.Minor, f.HTTPS = req.Major, req.Minor, x.cameByTLS()
	f.UserAgent = req.Fields.Get(message.UserAgent)
	f.Client, f.Peer = x.client, netip.AddrPortFrom(x.conn.peer, x.conn.port)
	parent := req.Fields.Get(message.Traceparent)
	if parent != nil && req.Fields.Count(message.Traceparent) > 1 {
		parent = nil // W3C Trace Context section 3.2: more than one is none
	}
	x.gen.View.Begin(f, parent, traceState(&req.Fields))
	if f.Trace.Recorded() && x.speaksGRPC() {
		f.Call, f.CallCode = true, -1
	}
}

// traceState is the lines of tracestate as one.
func traceState(fields *message.Fields) []byte {
	state := fields.Get(message.Tracestate)
	if state == nil || fields.Count(message.Tracestate) == 1 {
		return state
	}
	state = nil
	for line := range fields.Values(message.Tracestate) {
		state = append(append(state, line...), ',')
	}
	return state
}

// normalize brings the path into the form that is matched and forwarded.
func (x *exchange) normalize() bool {
	if x.req.Form == message.FormAsterisk {
		x.path = x.req.Path
		return true
	}
	path, err := message.NormalizePath(x.pathSpace, x.req.Path, x.site.listener.MergeSlashes)
	if err != nil {
		x.refuseHead(&http1.Error{Status: 400, Reason: err.Error()})
		return false
	}
	if len(path) > 0 && len(x.req.Path) > 0 && &path[0] != &x.req.Path[0] {
		x.pathSpace = path[:0]
	}
	x.path = path
	return true
}

// act does what the route says.
func (x *exchange) act() {
	r := x.route.route
	if r.MaxRequestBytes > 0 && max(x.req.Body.Length, x.facts.BytesIn) > r.MaxRequestBytes {
		x.refuse(413, reasonTooLarge, "the request body is over the limit of the route")
		return
	}
	if x.route.fault != nil && x.injects() {
		return
	}
	switch {
	case r.Respond != nil:
		x.respond(r.Respond)
	case r.Redirect != nil:
		x.redirect(r.Redirect)
	case !x.chooseProtocol():
		x.refuseUpgrade()
	default:
		x.forward()
	}
}
