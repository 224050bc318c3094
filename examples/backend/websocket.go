package main

import (
	"bufio"
	"crypto/sha1" // #nosec G505 -- RFC 6455 section 4.2.2 names it; it protects nothing
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
)

// acceptGUID is joined to the key of a handshake (RFC 6455 section 1.3).
const acceptGUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

// acceptKey answers the key of a handshake (RFC 6455 section 4.2.2).
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + acceptGUID)) // #nosec G401 -- as above
	return base64.StdEncoding.EncodeToString(sum[:])
}

// serveWebsocket says back each frame until there is one of kind close, which
// it says back too.
func serveWebsocket(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Sec-WebSocket-Key")
	if key == "" {
		http.Error(w, "this is for websockets", http.StatusUpgradeRequired)
		return
	}
	conn, stream, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer func() { _ = conn.Close() }()
	fmt.Fprintf(stream, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Accept: %s\r\n\r\n", acceptKey(key))
	for over := false; !over; {
		if stream.Flush() != nil {
			return
		}
		if over, err = echoFrame(stream); err != nil {
			return
		}
	}
	_ = stream.Flush()
}

// Parts of a frame's head (RFC 6455 section 5.2).
const (
	opcodeBits  = 0x0f
	opcodeClose = 0x8
	maskBit     = 0x80
	lengthBits  = 0x7f
	length16    = 126 // the length follows in 16 bits
	length64    = 127 // the length follows in 64 bits
	maxFrame    = 1 << 20
)

// echoFrame reads a client's frame and writes the same as a server's, which is
// not masked. It reports whether that was the close.
func echoFrame(stream *bufio.ReadWriter) (last bool, err error) {
	var head [2]byte
	if _, err := io.ReadFull(stream, head[:]); err != nil {
		return false, err
	}
	length, err := readLength(stream, head[1]&lengthBits)
	if err != nil {
		return false, err
	}
	if head[1]&maskBit == 0 || length > maxFrame {
		return false, fmt.Errorf("a frame of %d bytes, masked or not by bit %#x", length, head[1]&maskBit)
	}
	var mask [4]byte
	if _, err := io.ReadFull(stream, mask[:]); err != nil {
		return false, err
	}
	payload := make([]byte, length)
	if _, err := io.ReadFull(stream, payload); err != nil {
		return false, err
	}
	for i := range payload {
		payload[i] ^= mask[i%len(mask)]
	}
	_, err = stream.Write(append(frameHead(head[0], length), payload...))
	return head[0]&opcodeBits == opcodeClose, err
}

// readLength reads the rest of a length of which the first seven bits are known.
func readLength(r io.Reader, first byte) (uint64, error) {
	var wide [8]byte
	switch first {
	case length16:
		_, err := io.ReadFull(r, wide[6:])
		return binary.BigEndian.Uint64(wide[:]), err
	case length64:
		_, err := io.ReadFull(r, wide[:])
		return binary.BigEndian.Uint64(wide[:]), err
	}
	return uint64(first), nil
}

// frameHead is the head of a frame that is not masked.
func frameHead(first byte, length uint64) []byte {
	head := []byte{first}
	switch {
	case length < length16:
		return append(head, byte(length))
	case length < 1<<16:
		return binary.BigEndian.AppendUint16(append(head, length16), uint16(length))
	}
	return binary.BigEndian.AppendUint64(append(head, length64), length)
}
