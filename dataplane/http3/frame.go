package http3

import "github.com/quic-go/quic-go/quicvarint"

// Frame types (RFC 9114 section 7.2).
const (
	frameData        = 0x0
	frameHeaders     = 0x1
	frameCancelPush  = 0x3
	frameSettings    = 0x4
	framePushPromise = 0x5
	frameGoAway      = 0x7
	frameMaxPushID   = 0xd
)

// known reports whether a frame type means something, if only on another kind of
// stream. The types of HTTP/2 that have no counterpart must not come at all
// (section 7.2.8).
func known(kind uint64) bool {
	switch kind {
	case frameData, frameHeaders, frameCancelPush, frameSettings, framePushPromise, frameGoAway, frameMaxPushID,
		0x2, 0x6, 0x8, 0x9:
		return true
	}
	return false
}

// frameHeaderBytes is the most that precedes the payload of a frame that we send.
const frameHeaderBytes = 1 + 8

// parseFrame reads what precedes the payload of a frame: n bytes, 0 if they are not
// all there.
func parseFrame(b []byte) (kind, length uint64, n int) {
	kind, first, err := quicvarint.Parse(b)
	if err != nil {
		return 0, 0, 0
	}
	length, second, err := quicvarint.Parse(b[first:])
	if err != nil {
		return 0, 0, 0
	}
	return kind, length, first + second
}

// appendFrame appends what precedes the payload of a frame.
func appendFrame(dst []byte, kind uint64, length int) []byte {
	return quicvarint.Append(quicvarint.Append(dst, kind), uint64(length))
}

// Stream types (RFC 9114 section 6.2, RFC 9204 section 4.2).
const (
	streamControl = 0x0
	streamPush    = 0x1
	streamEncoder = 0x2
	streamDecoder = 0x3
)

// Settings (RFC 9114 section 7.2.4.1, RFC 9220 section 5).
const (
	settingMaxFieldSection = 0x6
	settingExtendedConnect = 0x8
)

// maxStreamID is above every request: a GOAWAY that names it only warns.
const maxStreamID = 1<<62 - 4

// appendSettings appends what begins our control stream: its type and our settings.
// What is not named has its default: no dynamic table, nothing that waits for one.
func appendSettings(dst []byte, o *Options) []byte {
	payload := quicvarint.Append(nil, settingMaxFieldSection)
	payload = quicvarint.Append(payload, uint64(o.MaxHeaderBytes))
	if o.ExtendedConnect {
		payload = append(payload, settingExtendedConnect, 1)
	}
	dst = quicvarint.Append(dst, streamControl)
	return append(appendFrame(dst, frameSettings, len(payload)), payload...)
}

func appendGoAway(dst []byte, id uint64) []byte {
	return quicvarint.Append(appendFrame(dst, frameGoAway, quicvarint.Len(id)), id)
}

// checkSettings reads the payload of a SETTINGS frame. None of the peer's settings
// matter to us, but those that are of HTTP/2 alone, and those given twice, are a
// fault (RFC 9114 section 7.2.4).
func checkSettings(p []byte) error {
	seen := map[uint64]bool{}
	for len(p) > 0 {
		id, n, err := quicvarint.Parse(p)
		if err != nil {
			return connError(FrameError, "SETTINGS cut short")
		}
		_, m, err := quicvarint.Parse(p[n:])
		switch {
		case err != nil:
			return connError(FrameError, "SETTINGS cut short")
		case 2 <= id && id <= 5 || id == 0:
			return connError(SettingsError, "setting of HTTP/2")
		case seen[id]:
			return connError(SettingsError, "setting given twice")
		}
		seen[id] = true
		p = p[n+m:]
	}
	return nil
}
