// Package http3 is the HTTP/3 wire (RFC 9114), the server's side of it: frames and
// heads on the streams of quic-go, which has QUIC itself. It owns the strictness:
// what a sequence of frames means, and how much a peer may cost. What makes a head
// or trailers malformed is as in HTTP/2 and asked of that. It must not know what a
// request is for, and knows nothing of net/http.
//
// A stream is used as one of HTTP/2: synchronously, by one goroutine that reads and
// one that writes. Bytes that nobody has read give the peer no new credit, so what
// a stream holds is bounded by its window.
//
// Field sections use the static table of QPACK alone (RFC 9204): ours refer to
// nothing else, and the peer is told that it may not either. There is no server
// push, there are no datagrams, no early data, and priorities are passed over.
package http3

import (
	"time"

	"github.com/headgate/headgate/dataplane/http2"
)

// Options are the bounds of a connection. Zero values stand for the defaults.
type Options struct {
	// MaxConcurrentStreams is how many requests may be open, and how many
	// handlers run: a stream that was reset counts until its handler has
	// returned; default 128.
	MaxConcurrentStreams int
	// MaxHeaderBytes bounds a head, and trailers: the sum of names, values and
	// 32 for each field (RFC 9114 section 4.2.2); default 65536.
	MaxHeaderBytes int
	// MaxHeaders is the most fields of a head or of trailers; default 128.
	MaxHeaders int
	// MaxTargetBytes is the longest :path; default 8192.
	MaxTargetBytes int

	HeaderTimeout time.Duration // for the handshake, and from the first byte of a head to its last; default 30 s
	IdleTimeout   time.Duration // without a request, after which the connection ends; default none

	// ExtendedConnect lets a client ask for :protocol (RFC 9220).
	ExtendedConnect bool
}

// resolve fills in the defaults.
func (o Options) resolve() Options {
	or(&o.MaxConcurrentStreams, 128)
	or(&o.MaxHeaderBytes, 64<<10)
	or(&o.MaxHeaders, 128)
	or(&o.MaxTargetBytes, 8<<10)
	or(&o.HeaderTimeout, 30*time.Second)
	return o
}

func or[T int | time.Duration](value *T, standard T) {
	if *value == 0 {
		*value = standard
	}
}

// sections are the options as the rules of field sections want them.
func (o *Options) sections() http2.Options {
	return http2.Options{
		MaxHeaderBytes: o.MaxHeaderBytes, MaxHeaders: o.MaxHeaders, MaxTargetBytes: o.MaxTargetBytes,
		ExtendedConnect: o.ExtendedConnect,
	}
}
