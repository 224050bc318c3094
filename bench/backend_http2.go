package main

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
)

// caller is the backend's end of one HTTP/2 connection. It reads no fields:
// whatever is called, the answer is the message that came.
type caller struct {
	in       *bufio.Reader
	out      []byte
	window   int               // bytes of bodies that may be sent
	received int               // since the window of this side was opened again
	partial  map[uint32][]byte // messages that are not all there
	waiting  []frame           // answers that wait for room in the window
}

// What an answer has beside the message. The fields are literals, so that they
// are right whatever table the peer keeps.
var (
	callHead    = appendLiteral([]byte{indexedOK}, literalPlain, "content-type", "application/grpc")
	callTrailer = appendLiteral(nil, literalPlain, "grpc-status", "0")
)

// serveHTTP2 answers one connection's calls until it closes. All frames that
// were read are answered with one write.
func (b *backend) serveHTTP2(conn net.Conn) {
	c := &caller{in: bufio.NewReaderSize(conn, 64<<10), window: defaultWindow, partial: map[uint32][]byte{}}
	hello := make([]byte, len(preface))
	if _, err := io.ReadFull(c.in, hello); err != nil || string(hello) != preface {
		return
	}
	c.out = appendSettings(c.out, settingMaxStreams, 1000)
	c.out = appendWindowUpdate(c.out, wideWindow)
	for {
		f, err := nextFrame(c.in)
		if err != nil || !c.take(b, &f) {
			return
		}
		if c.in.Buffered() >= frameHead {
			continue // of a frame that is cut off here, the rest is on its way
		}
		if _, err := conn.Write(c.out); err != nil {
			return
		}
		c.out = c.out[:0]
	}
}

// take acts on one frame; it reports false if the connection is to end.
func (c *caller) take(b *backend, f *frame) bool {
	switch f.kind {
	case frameHeaders:
		if f.has(flagEndStream) {
			c.answer(b, frame{stream: f.stream})
		}
	case frameData:
		data, err := f.data()
		if err != nil {
			return false
		}
		c.refill(len(f.payload))
		c.message(b, f, data)
	case frameReset:
		delete(c.partial, f.stream)
	case frameSettings:
		if !f.has(flagAck) {
			c.out = appendFrame(c.out, frame{kind: frameSettings, flags: flagAck})
		}
	case framePing:
		if !f.has(flagAck) {
			c.out = appendFrame(c.out, frame{kind: framePing, flags: flagAck, payload: f.payload})
		}
	case frameWindowUpdate:
		if f.stream == 0 && len(f.payload) == 4 {
			c.window += int(binary.BigEndian.Uint32(f.payload))
			waiting := c.waiting
			c.waiting = nil
			for _, a := range waiting {
				c.answer(b, a)
			}
		}
	}
	return true
}

// message takes a piece of a message. Most come in one.
func (c *caller) message(b *backend, f *frame, data []byte) {
	before := c.partial[f.stream]
	if !f.has(flagEndStream) {
		c.partial[f.stream] = append(before, data...)
		return
	}
	if before != nil {
		delete(c.partial, f.stream)
		data = append(before, data...)
	}
	c.answer(b, frame{stream: f.stream, payload: data})
}

// answer sends a message back, or keeps it until the window has room for it.
func (c *caller) answer(b *backend, message frame) {
	if len(message.payload) > c.window {
		message.payload = append([]byte(nil), message.payload...)
		c.waiting = append(c.waiting, message)
		return
	}
	b.served.Add(1) // before the client can know
	c.window -= len(message.payload)
	c.out = appendFrame(c.out, frame{frameHeaders, flagEndHeaders, message.stream, callHead})
	c.out = appendFrame(c.out, frame{frameData, 0, message.stream, message.payload})
	c.out = appendFrame(c.out, frame{frameHeaders, flagEndHeaders | flagEndStream, message.stream, callTrailer})
}

// refill opens this side's window again when much of it was used.
func (c *caller) refill(bytes int) {
	c.received += bytes
	if c.received >= windowStep {
		c.out = appendWindowUpdate(c.out, c.received)
		c.received = 0
	}
}
