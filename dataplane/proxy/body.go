package proxy

import (
	"github.com/headgate/headgate/dataplane/http1"
	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
)

// requestBody is the body of the request. If all of it came with the head it
// stays in the client's buffer, where it can be sent as often as needed;
// otherwise it streams.
type requestBody struct {
	whole   bool
	raw     int // bytes of it in the client's buffer, framing included; only if whole
	data    []byte
	streams bool
	begun   bool // some of a body that streams has left the client's buffer
	ended   bool // a body that streams was read to its end
	decoder http1.Decoder
}

// finished reports whether nothing of the body is left to read.
func (b *requestBody) finished() bool { return !b.streams || b.ended }

// takeBody looks at what came with the head. When the body is not all there,
// the head moves to a buffer of its own, so that the client's buffer is free to
// stream the rest.
func (x *exchange) takeBody() bool {
	b, rest := &x.body, x.conn.sock.Buffered()[x.headLen:]
	switch x.req.Body.Kind {
	case message.BodyNone:
		b.whole = true
		return true
	case message.BodyLength:
		if x.req.Body.Length <= int64(len(rest)) {
			b.whole, b.raw = true, int(x.req.Body.Length)
			b.data = rest[:b.raw]
			x.facts.BytesIn = x.req.Body.Length
			return true
		}
	default:
		n, whole, err := wholeChunked(&b.decoder, rest, &x.site.limits)
		if err != nil {
			x.refuseHead(err)
			return false
		}
		if whole {
			b.whole, b.raw, b.data = true, n, rest[:n]
			return true
		}
	}
	b.streams = true
	b.decoder.Reset(x.req.Body, &x.site.limits)
	return x.keepHead()
}

// wholeChunked reports whether a chunked body lies in buf to its end, and how
// many bytes it takes.
func wholeChunked(d *http1.Decoder, buf []byte, limits *http1.Limits) (int, bool, error) {
	d.Reset(message.Body{Kind: message.BodyChunked}, limits)
	used := 0
	for !d.Done() {
		_, n, err := d.Next(buf[used:])
		if err != nil {
			return 0, false, err
		}
		if n == 0 && !d.Done() {
			return 0, false, nil
		}
		used += n
	}
	return used, true, nil
}

// keepHead moves the head out of the client's buffer.
func (x *exchange) keepHead() bool {
	sock := x.conn.sock
	x.head = append(socket.GetBuffer(x.headLen)[:0], sock.Buffered()[:x.headLen]...)
	sock.Consume(x.headLen)
	x.headLen = 0
	if _, err := http1.ParseRequest(x.head, &x.req, &x.site.limits); err != nil {
		x.refuseHead(err)
		return false
	}
	return true
}
