package proxy

import (
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // RFC 6455 names it; nothing is kept secret by it
	"encoding/base64"

	"github.com/headgate/headgate/dataplane/message"
)

// The fields of a handshake that streams do without (RFC 8441 section 5).
var (
	websocketKey    = []byte("Sec-WebSocket-Key")
	websocketAccept = []byte("Sec-WebSocket-Accept")
)

// nonceBytes is how many bytes a key stands for (RFC 6455 section 4.1).
const nonceBytes = 16

func (x *exchange) isWebsocket() bool { return message.EqualToken(x.protocol, "websocket") }

// supersedes reports whether a field of the request gives way to what a stream
// says in its place, or to a handshake of our own.
func (x *exchange) supersedes(f *message.Field) bool {
	return (x.extended() || x.attempt.stream != nil) && message.EqualFold(f.Name, websocketKey)
}

// handshakeKey is a new Sec-WebSocket-Key: the clients of HTTP/2 send none
// (RFC 8441 section 5).
func (x *exchange) handshakeKey() []byte {
	var nonce [nonceBytes]byte
	_, _ = rand.Read(nonce[:]) // never fails
	x.key = base64.StdEncoding.AppendEncode(nil, nonce[:])
	return x.key
}

// hasKey reports whether a handshake of HTTP/1 has the key that it needs (RFC 6455
// section 4.2.1).
func (x *exchange) hasKey() bool {
	x.key = nil
	fields := x.req.Fields.All()
	for i := range fields {
		if !message.EqualFold(fields[i].Name, websocketKey) {
			continue
		}
		nonce, err := base64.StdEncoding.Strict().AppendDecode(nil, fields[i].Value)
		if err != nil || len(nonce) != nonceBytes || x.key != nil {
			return false
		}
		x.key = fields[i].Value
	}
	return x.key != nil
}

// acceptOf proves that a key was read (RFC 6455 section 4.2.2).
func acceptOf(key []byte) []byte {
	hash := sha1.New() //nolint:gosec // as above
	hash.Write(key)
	hash.Write([]byte("258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.AppendEncode(nil, hash.Sum(nil))
}

// acceptsKey reports whether the upstream has proved that it read the handshake.
func (x *exchange) acceptsKey() bool {
	accept, _ := x.resp.Fields.Lookup(websocketAccept)
	return string(accept) == string(acceptOf(x.key))
}

// acceptOfStream is the proof that a client of HTTP/1 awaits, which an upstream
// of HTTP/2 does not give; nil where there is none to give.
func (x *exchange) acceptOfStream() []byte {
	if x.attempt.stream == nil || !x.isWebsocket() {
		return nil
	}
	x.resp.Fields.Del(websocketAccept)
	return acceptOf(x.key)
}
