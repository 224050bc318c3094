package proxy

import (
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // RFC 6455 names it; nothing is kept secret by it
	"encoding/base64"

	"github.com/headgate/headgate/dataplane/http2"
	"github.com/headgate/headgate/dataplane/message"
)

// extended reports whether the request asks for a tunnel on a stream of HTTP/2,
// as for a websocket (RFC 8441). Towards an upstream of HTTP/1 it is an Upgrade.
func (x *exchange) extended() bool {
	return x.stream != nil && x.req.Method == message.MethodConnect && x.req.Upgrade != nil
}

// handshakeKey is a new Sec-WebSocket-Key: the clients of HTTP/2 send none
// (RFC 8441 section 5).
func (x *exchange) handshakeKey() []byte {
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // never fails
	x.key = base64.StdEncoding.AppendEncode(nil, nonce[:])
	return x.key
}

// acceptsKey reports whether the upstream has proved that it read the handshake
// (RFC 6455 section 4.2.2).
func (x *exchange) acceptsKey() bool {
	sum := sha1.Sum(append(x.key, "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"...)) //nolint:gosec // as above
	accept, _ := x.resp.Fields.Lookup([]byte("Sec-WebSocket-Accept"))
	return string(accept) == base64.StdEncoding.EncodeToString(sum[:])
}

// tunnelStream is tunnel for a client of HTTP/2: the stream is the tunnel.
func (x *exchange) tunnelStream() {
	x.resp.Fields.Del([]byte("Sec-WebSocket-Accept"))
	x.resp.Status = 200
	x.facts.Status = 200
	if fail := x.writeStreamHead(message.Body{}, false); fail != nil {
		x.cut(fail, message.BodyNone)
		return
	}
	up := x.attempt.up
	x.stream.OnReset(func() { _ = up.Close() }) // who waits for the upstream must hear of it
	defer x.stream.OnReset(nil)
	x.join(streamEnd{x.stream})
}

// streamEnd is a stream as one end of a tunnel.
type streamEnd struct{ clientStream }

// Write writes all of p.
func (s streamEnd) Write(p []byte, deadline int64) (int, error) {
	return s.WriteData(p, false, deadline)
}

// CloseWrite ends the stream towards the client.
func (s streamEnd) CloseWrite() error {
	_, err := s.WriteData(nil, true, 0)
	return err
}

// Close resets the stream.
func (s streamEnd) Close() error {
	s.Reset(http2.Cancel)
	return nil
}

// Release does nothing: a stream holds no buffer while it waits.
func (s streamEnd) Release() {}

// Discard does nothing: what is unread goes when the stream is finished.
func (s streamEnd) Discard() {}
