package http2

import "encoding/binary"

// A frame (RFC 9113 section 4.1) is a header of nine bytes, length (24 bits),
// type (8), flags (8), a reserved bit and the stream (31), and a payload.

const (
	frameHeaderBytes = 9
	// maxFrameBytes is the largest payload that we take, and send: it is what
	// every peer must take (section 4.2). DATA is handled as it comes, so that
	// nothing would be gained by more.
	maxFrameBytes = 16 << 10
	maxWindow     = 1<<31 - 1
	maxStreamID   = 1<<31 - 1
)

type frameType uint8

// The frame types of section 6.
const (
	frameData frameType = iota
	frameHeaders
	framePriority
	frameReset
	frameSettings
	framePushPromise
	framePing
	frameGoAway
	frameWindowUpdate
	frameContinuation
)

// The flags; END_STREAM and ACK are the same bit on different types.
const (
	flagEndStream  = 0x1
	flagAck        = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20
)

// frame is the header of a frame.
type frame struct {
	length int
	kind   frameType
	flags  uint8
	stream uint32
}

func (f *frame) has(flag uint8) bool { return f.flags&flag != 0 }

// parseFrame reads the header of a frame from nine bytes.
func parseFrame(b []byte) frame {
	return frame{
		length: int(b[0])<<16 | int(b[1])<<8 | int(b[2]),
		kind:   frameType(b[3]),
		flags:  b[4],
		stream: binary.BigEndian.Uint32(b[5:]) & maxStreamID,
	}
}

// appendFrame appends the header of a frame.
func appendFrame(dst []byte, length int, kind frameType, flags uint8, stream uint32) []byte {
	dst = append(dst, byte(length>>16), byte(length>>8), byte(length), byte(kind), flags)
	return binary.BigEndian.AppendUint32(dst, stream)
}

func appendReset(dst []byte, stream uint32, code ErrCode) []byte {
	dst = appendFrame(dst, 4, frameReset, 0, stream)
	return binary.BigEndian.AppendUint32(dst, uint32(code))
}

func appendWindowUpdate(dst []byte, stream uint32, increment int) []byte {
	dst = appendFrame(dst, 4, frameWindowUpdate, 0, stream)
	return binary.BigEndian.AppendUint32(dst, uint32(increment))
}

func appendPing(dst []byte, flags uint8, data uint64) []byte {
	dst = appendFrame(dst, 8, framePing, flags, 0)
	return binary.BigEndian.AppendUint64(dst, data)
}

func appendGoAway(dst []byte, last uint32, code ErrCode, reason string) []byte {
	dst = appendFrame(dst, 8+len(reason), frameGoAway, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, last)
	dst = binary.BigEndian.AppendUint32(dst, uint32(code))
	return append(dst, reason...)
}

// setting is one parameter of a SETTINGS frame (section 6.5.2).
type setting struct {
	id    uint16
	value uint32
}

const (
	settingTableSize       = 1
	settingEnablePush      = 2
	settingMaxStreams      = 3
	settingWindow          = 4
	settingFrameSize       = 5
	settingHeaderBytes     = 6
	settingExtendedConnect = 8 // RFC 8441 section 3
)

func appendSettings(dst []byte, list ...setting) []byte {
	dst = appendFrame(dst, 6*len(list), frameSettings, 0, 0)
	for _, s := range list {
		dst = binary.BigEndian.AppendUint16(dst, s.id)
		dst = binary.BigEndian.AppendUint32(dst, s.value)
	}
	return dst
}

// unpad takes the padding off the payload of a frame (section 6.1).
func unpad(f *frame, p []byte) ([]byte, bool) {
	if !f.has(flagPadded) {
		return p, true
	}
	if len(p) == 0 || int(p[0]) >= len(p) {
		return nil, false
	}
	return p[1 : len(p)-int(p[0])], true
}
