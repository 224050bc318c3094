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
	whole   bool // only on HTTP/1: raw and data are valid
	raw     int  // bytes of it in the client's buffer, framing included; only if whole
	data    []byte
	streams bool
	begun   bool // some of a body that streams has left the client's buffer
	again   bool // that is still to be sent to the upstream of this attempt
	ended   bool // a body that streams was read to its end
}

// finished reports whether nothing of the body is left to read.
func (b *requestBody) finished() bool { return !b.streams || b.ended }

// sent reports whether nothing of the body is left to send upstream.
func (b *requestBody) sent() bool { return b.finished() && !b.again }

// takeBody looks at what came with the head. When the body is not all there,
// the head moves to a buffer of its own, so that the client's buffer is free to
// stream the rest.
func (x *exchange) takeBody() bool {
	b, rest := &x.body, x.conn.sock.Buffered()[x.headLen:]
	switch x.req.Body.Kind {
	case message.BodyNone:
		b.whole = true
		return x.req.Upgrade == nil || x.keepHead()
	case message.BodyLength:
		rest = x.glanceAtBody(rest)
		if x.req.Body.Length <= int64(len(rest)) {
			b.whole, b.raw = true, int(x.req.Body.Length)
			b.data = rest[:b.raw]
			x.facts.BytesIn = x.req.Body.Length
			return x.req.Upgrade == nil || x.keepHead()
		}
	default:
		n, size, err := wholeChunked(&x.bodyDecoder, rest, &x.site.limits)
		if err != nil {
			x.refuseHead(err)
			return false
		}
		if n > 0 {
			b.whole, b.raw, b.data = true, n, rest[:n]
			x.facts.BytesIn = size
			return x.req.Upgrade == nil || x.keepHead()
		}
	}
	b.streams = true
	x.bodyDecoder.Reset(x.req.Body, &x.site.limits)
	return x.keepHead()
}

// glanceAtBody takes what of a small body has come behind the head meanwhile, as
// when a client writes the two one after the other: then it need not stream.
func (x *exchange) glanceAtBody(rest []byte) []byte {
	missing := x.req.Body.Length - int64(len(rest))
	if missing <= 0 || x.req.Continue || int64(x.headLen)+x.req.Body.Length > socket.SmallBuffer {
		return rest
	}
	x.conn.sock.FillReady()
	return x.conn.sock.Buffered()[x.headLen:]
}

// wholeChunked is how many bytes of buf a chunked body takes, and how many of
// these are data: 0 if buf does not hold it to its end.
func wholeChunked(d *http1.Decoder, buf []byte, limits *http1.Limits) (used int, size int64, err error) {
	d.Reset(message.Body{Kind: message.BodyChunked}, limits)
	for !d.Done() {
		data, n, err := d.Next(buf[used:])
		if err != nil {
			return 0, 0, err
		}
		if n == 0 && !d.Done() {
			return 0, 0, nil
		}
		used += n
		size += int64(len(data))
	}
	return used, size, nil
}

// keepHead moves the head out of the client's buffer, which is needed for what
// follows: a body, or what comes after a switch of protocols.
func (x *exchange) keepHead() bool {
	sock := x.conn.sock
	x.head = append(socket.GetBuffer(x.headLen)[:0], sock.Buffered()[:x.headLen]...)
	sock.Consume(x.headLen)
	x.headLen = 0
	if _, err := http1.ParseRequest(x.head, &x.req, &x.site.limits); err != nil {
		x.refuseHead(err)
		return false
	}
	x.req.HTTPS = x.conn.secure
	return true
}
