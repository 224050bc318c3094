package http3

import (
	"bufio"
	"context"
	"errors"
	"io"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"
)

// maxOthers bounds the streams on which a peer makes no requests: beside the three
// that it needs it may open some that mean nothing.
const maxOthers = 100

// maxSettingsBytes bounds a SETTINGS frame.
const maxSettingsBytes = 4 << 10

// acceptOthers takes the streams on which the peer makes no requests.
func (s *Server) acceptOthers() {
	for n := 0; ; n++ {
		stream, err := s.conn.AcceptUniStream(context.Background())
		if err != nil {
			return
		}
		if n == maxOthers {
			s.end(connError(ExcessiveLoad, "too many streams that are no requests"))
			return
		}
		stream.ReleaseStreamCredit()
		s.staff.Go(func() { s.serveOther(stream) })
	}
}

// serveOther reads a stream to its end.
func (s *Server) serveOther(stream *quic.ReceiveStream) {
	in := bufio.NewReaderSize(stream, 512)
	kind, err := quicvarint.Read(in)
	if err != nil {
		return // it may end before its type is known (RFC 9114 section 6.2)
	}
	switch {
	case kind == streamPush:
		err = connError(StreamCreationError, "push stream of a client")
	case kind > streamDecoder:
		stream.CancelRead(quic.StreamErrorCode(StreamCreationError))
		return
	case !s.first(kind):
		err = connError(StreamCreationError, "second stream of a kind of which there is one")
	case kind == streamControl:
		err = readControl(in)
	case kind == streamEncoder:
		err = readEncoder(in)
	default:
		err = readDecoder(in)
	}
	if fault, ours := errors.AsType[*Error](err); ours {
		s.end(fault)
	} else if s.conn.Context().Err() == nil {
		s.end(connError(ClosedCriticalStream, "end of a stream that must not end"))
	}
}

// first reports whether a stream is the first of its kind.
func (s *Server) first(kind uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[kind] {
		return false
	}
	s.seen[kind] = true
	return true
}

// readControl reads the control stream (RFC 9114 section 6.2.1).
func readControl(in *bufio.Reader) error {
	for first := true; ; first = false {
		kind, err := quicvarint.Read(in)
		if err != nil {
			return err
		}
		length, err := quicvarint.Read(in)
		if err != nil {
			return err
		}
		switch {
		case first != (kind == frameSettings):
			if first {
				return connError(MissingSettings, "control stream that does not begin with SETTINGS")
			}
			return connError(FrameUnexpected, "second SETTINGS")
		case first:
			err = readSettings(in, length)
		case known(kind) && kind != frameGoAway && kind != frameMaxPushID && kind != frameCancelPush:
			return connError(FrameUnexpected, "frame that may not come on the control stream")
		default:
			err = pass(in, length)
		}
		if err != nil {
			return err
		}
	}
}

func readSettings(in *bufio.Reader, length uint64) error {
	if length > maxSettingsBytes {
		return connError(ExcessiveLoad, "SETTINGS too large")
	}
	payload := make([]byte, length)
	if _, err := io.ReadFull(in, payload); err != nil {
		return err
	}
	return checkSettings(payload)
}

// pass passes over the payload of a frame.
func pass(in *bufio.Reader, length uint64) error {
	_, err := io.CopyN(io.Discard, in, int64(length)) // a varint has 62 bits
	return err
}

// readEncoder reads the peer's QPACK encoder stream. It has no table to fill: all it
// may say is that it has none (RFC 9204 section 4.3.1).
func readEncoder(in *bufio.Reader) error {
	for {
		b, err := in.ReadByte()
		if err != nil {
			return err
		}
		if b != 0x20 {
			return connError(EncoderStreamError, "use of a dynamic table of no size")
		}
	}
}

// readDecoder reads the peer's QPACK decoder stream. We fill no table that it could
// speak of: all it may say is that it has cancelled a stream (RFC 9204 section
// 4.4.2).
func readDecoder(in *bufio.Reader) error {
	for {
		b, err := in.ReadByte()
		if err != nil {
			return err
		}
		if b&0xc0 != 0x40 {
			return connError(DecoderStreamError, "word about a dynamic table that is not used")
		}
		for last := b&0x3f != 0x3f; !last; last = b&0x80 == 0 {
			if b, err = in.ReadByte(); err != nil {
				return err
			}
		}
	}
}
