package http3

import "github.com/headgate/headgate/dataplane/socket"

// input is what was read of a stream: a piece of payload that is not consumed yet,
// and behind it what was not looked at. Frames are looked at in place. Payload that
// the head of a frame parts from the piece before is moved up to it, so that it is
// always one piece.
type input struct {
	buf        []byte // nil while nothing is held
	r, w       int    // buf[r:w] is payload
	p, e       int    // buf[p:e] was not looked at
	eof        bool   // nothing follows
	left, skip uint64 // bytes of the frame's payload that were not looked at, and whether to pass them over
}

// payload is what was not consumed.
func (in *input) payload() []byte { return in.buf[in.r:in.w] }

// rest is what was not looked at.
func (in *input) rest() []byte { return in.buf[in.p:in.e] }

// take makes the next n bytes payload.
func (in *input) take(n int) {
	switch {
	case in.r == in.w:
		in.r, in.w = in.p, in.p+n
	case in.w == in.p:
		in.w += n
	default:
		in.w += copy(in.buf[in.w:], in.buf[in.p:in.p+n])
	}
	in.p += n
}

// drop passes the next n bytes over.
func (in *input) drop(n int) { in.p += n }

// empty reports whether nothing is held, and lets an empty buffer go.
func (in *input) empty() bool {
	if in.r < in.w || in.p < in.e {
		return false
	}
	in.release()
	return true
}

func (in *input) release() {
	socket.PutBuffer(in.buf)
	in.buf, in.r, in.w, in.p, in.e = nil, 0, 0, 0, 0
}

// room is where more can be read to; want is how large a buffer is wanted. It is
// nil when payload fills the largest. Else a buffer that is full holds the head of
// a frame of a bounded length and grows.
func (in *input) room(want int) []byte {
	switch {
	case in.buf == nil:
		in.buf = socket.GetBuffer(want)
	case in.e < len(in.buf):
	case in.r > 0 || in.w < in.p:
		in.compact(in.buf)
	case in.w-in.r >= socket.LargeBuffer:
		return nil
	default:
		in.grow()
	}
	return in.buf[in.e:]
}

// compact moves what is held to the beginning of dst.
func (in *input) compact(dst []byte) {
	w := copy(dst, in.buf[in.r:in.w])
	e := w + copy(dst[w:], in.buf[in.p:in.e])
	in.r, in.w, in.p, in.e = 0, w, w, e
}

func (in *input) grow() {
	larger := socket.GetBuffer(len(in.buf) + 1)
	if len(larger) <= len(in.buf) {
		socket.PutBuffer(larger)
		larger = make([]byte, 2*len(in.buf))
	}
	old := in.buf
	in.compact(larger)
	in.buf = larger
	socket.PutBuffer(old)
}
