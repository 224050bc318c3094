// Package http2 is the HTTP/2 wire (RFC 9113), both sides of it: frames, header
// compression, flow control and the life of streams over one connection. It owns
// the strictness: what a sequence of frames means, which heads are malformed, and
// how much a peer may cost. It must not know what a request is for, and knows
// nothing of net/http.
//
// A connection has one reading goroutine. It handles every frame that is in the
// buffer before it waits again, and never writes: what is to be said is appended
// to one buffer for each connection, and a flusher, which lives only while there
// is something to write, yields once and then writes all that became ready
// meanwhile. Header blocks are encoded under the lock that gives frames their
// order.
//
// A stream is used synchronously, by one goroutine that reads and one that
// writes, which may be the same. Bytes that nobody has consumed give the peer no
// new credit, so what a stream holds is bounded by its window. The window of the
// connection only bounds what is under way: credit for it is given back on
// arrival, so that one slow stream never stops another.
//
// Beyond what RFC 9113 demands:
//
//   - Hosts, targets and field values are held to the rules of the HTTP/1.1 wire.
//   - A request has at most one Content-Length and one Host field, and a Host that
//     differs from :authority is refused.
//   - Request fields whose names hold an underscore are left out, because gateways
//     behind cannot tell them from dashed ones.
//   - Framing fields among trailers are refused; other fields that RFC 9110
//     section 6.5.1 keeps out of trailers are left out.
//   - Priorities are read and ignored. There is no server push.
package http2

import "time"

// Options are the bounds of a connection. Zero values stand for the defaults.
type Options struct {
	// MaxConcurrentStreams is how many streams may be open; default 128. Twice
	// as many handlers may run, because those of streams that were reset take a
	// while to notice. On a client it bounds what the peer allows.
	MaxConcurrentStreams int
	// MaxHeaderBytes bounds a head, and trailers: the sum of names, values and
	// 32 for each field (RFC 9113 section 10.5.1); default 65536.
	MaxHeaderBytes int
	// MaxHeaders is the most fields of a head or of trailers; default 128.
	MaxHeaders int
	// MaxTargetBytes is the longest :path; default 8192.
	MaxTargetBytes int

	// StreamWindow is the window that a stream begins with; default 65536 bytes,
	// and at least the 65535 that a peer may use before it has read our settings.
	// It doubles as long as a reader keeps up with a peer that fills it within a
	// few round trips, up to MaxStreamWindow; default 8 MiB.
	StreamWindow    int
	MaxStreamWindow int
	// ConnWindow is how much of all streams may be under way, and bounds how far
	// the windows of all streams together may grow; default 16 MiB.
	ConnWindow int

	HeaderTimeout   time.Duration // for the preface, and from the first byte of a head to its last; default 30 s
	IdleTimeout     time.Duration // without a stream, after which the connection ends; default none
	WriteTimeout    time.Duration // for which a peer may take no byte; default 30 s
	SettingsTimeout time.Duration // for the peer to acknowledge settings; default 15 s
	PingAfter       time.Duration // of silence with streams open, after which the peer is asked; default none
	PingTimeout     time.Duration // for the answer to that; default 15 s
	Linger          time.Duration // for the peer to close after the last frame; default 1 s

	// MaxResets is how many streams in a row the peer may reset before a head was
	// sent in answer, or open over the limit; some are forgiven each second, and one for each stream that ends
	// well. Default four times MaxConcurrentStreams.
	MaxResets int

	// OnRoom is called when a client's connection that was full takes streams again,
	// and when one has no streams any more. It must not wait, nor ask anything of the connection.
	OnRoom func()

	// ExtendedConnect lets a client ask for :protocol (RFC 8441).
	ExtendedConnect bool

	// Counters are added to, if given.
	Counters *Counters
}

// The defaults of Options.
const (
	defaultStreams         = 128
	defaultHeaderBytes     = 64 << 10
	defaultHeaders         = 128
	defaultTargetBytes     = 8 << 10
	defaultStreamWindow    = 64 << 10
	defaultMaxStreamWindow = 8 << 20
	defaultConnWindow      = 16 << 20
)

// resolve fills in the defaults.
func (o *Options) resolve() Options {
	r := *o
	or(&r.MaxConcurrentStreams, defaultStreams)
	or(&r.MaxHeaderBytes, defaultHeaderBytes)
	or(&r.MaxHeaders, defaultHeaders)
	or(&r.MaxTargetBytes, defaultTargetBytes)
	or(&r.StreamWindow, defaultStreamWindow)
	r.StreamWindow = max(r.StreamWindow, initialWindow)
	or(&r.MaxStreamWindow, max(r.StreamWindow, defaultMaxStreamWindow))
	or(&r.ConnWindow, max(r.StreamWindow, defaultConnWindow))
	or(&r.HeaderTimeout, 30*time.Second)
	or(&r.WriteTimeout, 30*time.Second)
	or(&r.SettingsTimeout, 15*time.Second)
	or(&r.PingTimeout, 15*time.Second)
	or(&r.Linger, time.Second)
	or(&r.MaxResets, 4*r.MaxConcurrentStreams)
	if r.Counters == nil {
		r.Counters = new(Counters)
	}
	return r
}

// or sets a value that is zero.
func or[T int | time.Duration](value *T, standard T) {
	if *value == 0 {
		*value = standard
	}
}
