// Package http1 is the HTTP/1.1 wire: it reads heads and bodies out of bytes
// that somebody else received, and writes framing into bytes that somebody else
// sends. It owns the strictness: what a byte sequence means, where a message
// ends, and what is refused (RFC 9110, RFC 9112). It must not know sockets,
// goroutines, timeouts or what a request is for.
//
// Anything ambiguous is refused. Beyond what the RFCs demand:
//
//   - Lines end with CRLF; a bare LF does not end one (RFC 9112 section 2.2
//     allows taking it).
//   - Folded field lines are refused in both directions (section 5.2).
//   - Only HTTP/1.0 and HTTP/1.1 are spoken; other minor versions are refused.
//   - The target holds no byte outside of ASCII, no "#" and, in its path, no
//     backslash. The other bytes that RFC 3986 excludes ("<>^`{|}) are taken as
//     they are, because clients send them.
//   - A host is letters, digits, "-", ".", "_", "~", or an IPv6 address in
//     brackets: no percent escape, no sub-delims, no empty label before another.
//   - An empty Host goes only with a target that is "*" or names a host itself.
//   - A request has one Content-Length line with one number; equal repetitions
//     are refused. CONNECT has no content.
//   - Transfer-Encoding is exactly "chunked", once, in HTTP/1.1, and never beside
//     Content-Length.
//   - A chunk line has white space only where an extension follows, and extensions
//     are bounded.
//   - Fields of a request whose names hold an underscore are left out, because
//     gateways behind cannot tell them from dashed ones.
//   - Framing fields among the trailers of a request are refused; other fields that
//     RFC 9110 section 6.5.1 keeps out of trailers are left out.
//
// One thing is taken that RFC 9112 section 4 does not have: a status line without
// the space before an empty reason, which means the same to everybody.
//
// Nothing allocates in steady state: heads point into the caller's buffer, and
// only failures make an Error.
package http1

import "fmt"

// Limits bounds what a peer can make us hold. Zero values stand for the
// defaults.
type Limits struct {
	HeadBytes   int // a head with its empty line, and a trailer section; default 65536
	Fields      int // field lines of a head or of a trailer section; default 128
	TargetBytes int // the request target; default 8192
}

// The defaults of Limits.
const (
	DefaultHeadBytes   = 64 << 10
	DefaultFields      = 128
	DefaultTargetBytes = 8 << 10
)

// resolve fills in the defaults; a nil receiver is all defaults.
func (l *Limits) resolve() Limits {
	r := Limits{HeadBytes: DefaultHeadBytes, Fields: DefaultFields, TargetBytes: DefaultTargetBytes}
	if l == nil {
		return r
	}
	if l.HeadBytes > 0 {
		r.HeadBytes = l.HeadBytes
	}
	if l.Fields > 0 {
		r.Fields = l.Fields
	}
	if l.TargetBytes > 0 {
		r.TargetBytes = l.TargetBytes
	}
	return r
}

// Error is a fault in what the peer sent. After one the connection cannot be
// used further: where the next message begins is unknown.
type Error struct {
	Status int    // answer to a request: 400, 414, 417, 431, 501 or 505; to a response: 502. The Decoder says 400 or 431 for both.
	Reason string // one line of fixed text that names the fault and the field
	Offset int    // byte of the head where it was found; in a body, of the bytes given to Next
}

// Error gives the reason and the place.
func (e *Error) Error() string {
	return fmt.Sprintf("http1: %s (byte %d)", e.Reason, e.Offset)
}

// ErrHTTP2Preface says that the peer speaks HTTP/2 with prior knowledge (RFC
// 9113 section 3.4): the bytes begin with "PRI * HTTP/2.0" and CRLF, and are to
// be given to an HTTP/2 engine from their start.
var ErrHTTP2Preface = &Error{Status: 505, Reason: "HTTP/2 connection preface"}

func bad(offset int, reason string) *Error {
	return &Error{Status: 400, Reason: reason, Offset: offset}
}

func fault(status, offset int, reason string) *Error {
	return &Error{Status: status, Reason: reason, Offset: offset}
}
