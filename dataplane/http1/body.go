package http1

import (
	"math"

	"github.com/headgate/headgate/dataplane/message"
)

// Decoder reads one message body out of the bytes of a connection, whatever
// ends it. It is fed in any pieces and keeps nothing of them but trailers. The
// zero value is the end of a message without a body; it is reused by Reset.
type Decoder struct {
	kind      message.BodyKind
	state     chunkState
	remaining int64 // data bytes to come of the body or chunk
	err       *Error

	digits   int // of the chunk size
	overhead int // bytes of chunk extensions not yet paid for by data
	limits   Limits
	trailer  trailer
}

// ResetAnswer begins the body of an answer. Framing fields among its trailers are left
// out, where those of a request are a fault: nobody is deceived by them, since what is
// passed on is framed anew (RFC 9112 section 7.1.2), and all of the body is there.
func (d *Decoder) ResetAnswer(body message.Body) {
	d.Reset(body, nil)
	d.trailer.answer = true
}

// Reset begins the body of a request; lim may be nil.
func (d *Decoder) Reset(body message.Body, lim *Limits) {
	d.kind, d.remaining = body.Kind, body.Length
	d.state = chunkSizeFirst
	d.err = nil
	d.digits, d.overhead = 0, 0
	if d.kind == message.BodyChunked {
		d.limits = lim.resolve()
		d.remaining = 0
	}
	d.trailer.reset()
}

// Next consumes n bytes of buf, framing and data. data is a piece of the body
// within buf[:n]; it may be empty, as when buf held only framing. Next is called
// until Done, or until it has consumed everything and more input is needed. It
// always consumes something unless buf is empty, the body is done or broken.
//
// A fault, an *Error, stays: the body never ends after it. The data before it was
// returned before.
func (d *Decoder) Next(buf []byte) (data []byte, n int, err error) {
	switch d.kind {
	case message.BodyLength:
		n = int(min(int64(len(buf)), d.remaining))
		d.remaining -= int64(n)
		return buf[:n], n, nil
	case message.BodyUntilClose:
		return buf, len(buf), nil
	case message.BodyNone:
		return nil, 0, nil
	}
	if d.err == nil {
		data, n, d.err = d.nextChunked(buf)
	}
	if d.err != nil {
		return nil, n, d.err
	}
	return data, n, nil
}

// Done reports whether the whole body was read, trailers included.
func (d *Decoder) Done() bool {
	switch d.kind {
	case message.BodyLength:
		return d.remaining == 0
	case message.BodyChunked:
		return d.state == chunkDone && d.err == nil
	case message.BodyUntilClose:
		return false
	}
	return true
}

// Trailers are the trailer fields, once Done; they are valid until Reset. Their
// bytes are the Decoder's own.
func (d *Decoder) Trailers() *message.Fields { return &d.trailer.fields }

// Remaining is how many bytes of a body with a known length are to come, and -1
// for any other body.
func (d *Decoder) Remaining() int64 {
	if d.kind != message.BodyLength {
		return -1
	}
	return d.remaining
}

// Advance tells that n bytes of the body were moved without being seen here. It
// panics where that cannot be: on a chunked body, or beyond the end.
func (d *Decoder) Advance(n int64) {
	switch {
	case d.kind == message.BodyUntilClose && n >= 0:
	case d.kind == message.BodyLength && 0 <= n && n <= d.remaining:
		d.remaining -= n
	case n != 0:
		panic("http1: Advance outside of the body")
	}
}

// EOF tells that the connection ended. It returns nil if that, or something
// before, ended the body; else an *Error, which stays.
func (d *Decoder) EOF() error {
	switch {
	case d.err != nil:
		return d.err
	case d.kind == message.BodyUntilClose:
		d.kind = message.BodyNone
		return nil
	case d.Done():
		return nil
	}
	d.err = bad(0, "body cut short")
	return d.err
}

// addDigit takes a hex digit of a chunk size.
func (d *Decoder) addDigit(c byte) bool {
	if d.remaining > math.MaxInt64>>4 {
		return false
	}
	if d.digits < maxSizeDigits {
		d.digits++
	} else if d.overhead++; d.overhead > maxOverhead {
		return false
	}
	d.remaining = d.remaining<<4 | int64(unhex(c))
	return true
}

// unhex is the value of a hex digit.
func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
