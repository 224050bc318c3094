package telemetry

import (
	"net/netip"
	"sync/atomic"

	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/snapshot"
)

// MaxAttempts is how many attempts of one exchange keep their details; of more,
// the latest are kept.
const MaxAttempts = 8

// Exchange holds the facts of one exchange: a request and its response. There
// is one per downstream connection (or stream), reused by Reset. The proxy
// writes its plain fields; slices point into the connection's buffers and need
// only be valid until Finish returns. All times are of socket.Now; 0 is "never".
type Exchange struct {
	Shard    int    // which shard of the counters to use, below Options.Shards; survives Reset
	Started  int64  // the first byte of the request was there
	HeadAt   int64  // the final response head was written to the client
	Ended    int64  // the last byte was written, or the exchange failed; 0: Finish takes the time
	Listener string // name

	Route   *snapshot.Route   // of the view's snapshot; nil: none matched
	Cluster *snapshot.Cluster // known by its name; nil: not forwarded

	Method     message.Method
	MethodName []byte // as received
	Host       []byte // authority as received, with the port if it had one
	Path       []byte // as received
	Query      []byte // without "?"
	Major      uint8
	Minor      uint8
	HTTPS      bool
	UserAgent  []byte
	Referer    []byte
	Client     netip.Addr     // who asked, as the trusted proxies say
	Peer       netip.AddrPort // the other end of the connection

	Status int    // of the final response; 0: none was made; 499: the client left first
	Reason string // an RFC 9209 section 2.3 error token or one of ours (see Reasons); "": nothing went wrong
	Detail string // one static line for people
	// NotRetried is why a failure was not tried again although the route wants
	// it; static; "": there was none.
	NotRetried string
	BytesIn    int64 // body bytes read from the client
	BytesOut   int64 // body bytes written to the client

	Call     bool // of gRPC; told only where Trace.Recorded
	CallCode int  // its grpc-status, -1: it had none; only with Call

	Injected string // what a fault of the route did: "delay", "abort" or both; static; "": nothing

	Tries    int // attempts made; may exceed MaxAttempts
	Answered int // number from 1 of the attempt that answered; 0: the last one

	Trace Trace

	first   Attempt // use Tries and Each; written through View.Attempt
	further *[MaxAttempts - 1]Attempt
	active  *atomic.Int64 // where Begin counted it as in flight; nil before Begin
}

// Attempt is one try at an endpoint.
type Attempt struct {
	Endpoint    string // address as in the snapshot
	Target      []byte // path and query sent, for the span's url.full; told only where Trace.Recorded
	Started     int64
	SentAt      int64 // the request head was written
	FirstByteAt int64 // the first byte of the response was read
	Ended       int64 // 0: with the exchange
	Status      int   // 0: no response
	Reason      string
	Reused      bool           // on a connection that had served before
	Hedge       bool           // begun beside others that were slow
	Mirror      bool           // of a copy, whose answer is dropped
	Lost        bool           // given up because another had answered
	Method      message.Method // sent, where it is not that of the exchange; told only where Trace.Recorded
	TLS         bool           // towards the endpoint; told only where Trace.Recorded
	HTTP2       bool           // so was the request sent, else HTTP/1.1
	SpanID      [8]byte        // of its client span
}

// Trace is what was decided about the trace of an exchange.
type Trace struct {
	Rewrite   bool // exactly one traceparent is to be written: AppendTraceparent
	KeepState bool // tracestate lines are kept; else they are removed (only if Rewrite)
	Sampled   bool // the W3C sampled flag
	ID        [16]byte
	SpanID    [8]byte // of the server span
	Parent    [8]byte // the client's span; zero if the trace begins here

	kept   bool   // the incoming traceparent is honoured
	record bool   // spans are made: sampled, and there is an exporter
	flags  byte   // to be sent
	state  []byte // tracestate as received, if it is sent on
}

// Recorded reports whether spans are made, and what is told for them alone wanted.
func (t *Trace) Recorded() bool { return t.record }

// Reset forgets everything but the shard.
func (x *Exchange) Reset() {
	if x.Tries > 1 {
		clear(x.further[:])
	}
	*x = Exchange{Shard: x.Shard, further: x.further}
}

// At is where the attempt is kept whose number is n+1, or was n+1-MaxAttempts. It
// allocates when an exchange makes a second attempt for the first time.
func (x *Exchange) At(n int) *Attempt {
	if n %= MaxAttempts; n == 0 {
		return &x.first
	}
	if x.further == nil {
		x.further = new([MaxAttempts - 1]Attempt)
	}
	return &x.further[n-1]
}

// Each yields the kept attempts, oldest first, with their number from 1.
func (x *Exchange) Each(yield func(n int, a *Attempt) bool) {
	for i := max(0, x.Tries-MaxAttempts); i < x.Tries; i++ {
		if !yield(i+1, x.At(i)) {
			return
		}
	}
}

// Kept is an attempt by its number from 1, or nil if its details are kept no
// more.
func (x *Exchange) Kept(n int) *Attempt {
	if n < 1 || n > x.Tries || n <= x.Tries-MaxAttempts {
		return nil
	}
	return x.At(n - 1)
}

// last is the current attempt, or nil.
func (x *Exchange) last() *Attempt { return x.Kept(x.Tries) }

// decisive is the attempt that answered, or else the last one; nil: there is
// none.
func (x *Exchange) decisive() *Attempt {
	if a := x.Kept(x.Answered); a != nil {
		return a
	}
	return x.last()
}
