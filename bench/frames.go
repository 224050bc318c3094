package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// As much of HTTP/2 (RFC 9113) as both ends of the load need. It is written anew
// here, so that no mistake of the data plane's own wire is on both sides.

// Types of frames (section 6), flags and settings.
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	frameReset        = 0x3
	frameSettings     = 0x4
	framePing         = 0x6
	frameGoAway       = 0x7
	frameWindowUpdate = 0x8

	flagEndStream  = 0x1
	flagAck        = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8

	settingHeaderTableSize   = 0x1
	settingEnablePush        = 0x2
	settingMaxStreams        = 0x3
	settingInitialWindowSize = 0x4
)

const (
	preface       = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	frameHead     = 9       // bytes before a payload
	maxPayload    = 1 << 14 // neither side allows more
	defaultWindow = 1<<16 - 1
	wideWindow    = 1 << 30
	windowStep    = 1 << 24 // received before the connection's window is opened again
)

// frame is one frame. Its payload is in the reader's buffer: it is gone with the
// next one.
type frame struct {
	kind, flags byte
	stream      uint32
	payload     []byte
}

func (f *frame) has(flag byte) bool { return f.flags&flag != 0 }

// nextFrame waits for a whole frame, takes it and returns it.
func nextFrame(in *bufio.Reader) (frame, error) {
	head, err := in.Peek(frameHead)
	if err != nil {
		return frame{}, err
	}
	size := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
	if size > maxPayload {
		return frame{}, fmt.Errorf("a frame of %d bytes", size)
	}
	whole, err := in.Peek(frameHead + size)
	if err != nil {
		return frame{}, err
	}
	_, err = in.Discard(len(whole))
	stream := binary.BigEndian.Uint32(whole[5:]) &^ (1 << 31)
	return frame{whole[3], whole[4], stream, whole[frameHead:]}, err
}

// data is the payload without its padding (section 6.1).
func (f *frame) data() ([]byte, error) {
	if !f.has(flagPadded) {
		return f.payload, nil
	}
	if len(f.payload) == 0 || int(f.payload[0]) >= len(f.payload) {
		return nil, io.ErrUnexpectedEOF
	}
	return f.payload[1 : len(f.payload)-int(f.payload[0])], nil
}

func appendFrame(out []byte, f frame) []byte {
	n := len(f.payload)
	out = append(out, byte(n>>16), byte(n>>8), byte(n), f.kind, f.flags)
	out = binary.BigEndian.AppendUint32(out, f.stream)
	return append(out, f.payload...)
}

func appendWindowUpdate(out []byte, bytes int) []byte {
	return appendFrame(out, frame{kind: frameWindowUpdate, payload: binary.BigEndian.AppendUint32(nil, uint32(bytes))})
}

// appendSettings appends a SETTINGS frame of identifiers and values in turns.
func appendSettings(out []byte, pairs ...uint32) []byte {
	var payload []byte
	for i := 0; i+1 < len(pairs); i += 2 {
		payload = binary.BigEndian.AppendUint16(payload, uint16(pairs[i]))
		payload = binary.BigEndian.AppendUint32(payload, pairs[i+1])
	}
	return appendFrame(out, frame{kind: frameSettings, payload: payload})
}

// appendLiteral appends a field to a header block, without indexing or, if first
// is literalIndexed, for the peer to remember (RFC 7541, section 6.2). Names and
// values are shorter than 127 bytes.
func appendLiteral(block []byte, first byte, name, value string) []byte {
	block = append(block, first, byte(len(name)))
	block = append(block, name...)
	block = append(block, byte(len(value)))
	return append(block, value...)
}

// How a literal field begins, and indexed ones of the static table (RFC 7541,
// appendix A).
const (
	literalPlain   = 0x00
	literalIndexed = 0x40
	indexed        = 0x80
	indexedGET     = indexed | 2
	indexedPOST    = indexed | 3
	indexedHTTPS   = indexed | 7
	indexedOK      = indexed | 8
	firstDynamic   = 62
)

// startsWithOK reports whether a header block begins with ":status: 200", behind
// updates of the table's size (RFC 7541, section 6.3).
func startsWithOK(block []byte) bool {
	for len(block) > 0 && block[0]&0xe0 == 0x20 {
		more := block[0]&0x1f == 0x1f
		block = block[1:]
		for more && len(block) > 0 {
			more = block[0]&0x80 != 0
			block = block[1:]
		}
	}
	return len(block) > 0 && block[0] == indexedOK
}
