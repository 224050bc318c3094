package http3

import (
	"fmt"

	"github.com/headgate/headgate/dataplane/http2"
)

// Code is an error code of RFC 9114 section 8.1, or of RFC 9204 section 6.
type Code uint64

// The error codes.
const (
	NoError Code = 0x100 + iota
	GeneralProtocolError
	InternalError
	StreamCreationError
	ClosedCriticalStream
	FrameUnexpected
	FrameError
	ExcessiveLoad
	IDError
	SettingsError
	MissingSettings
	RequestRejected
	RequestCancelled
	RequestIncomplete
	MessageError
	ConnectError
	VersionFallback
)

// The error codes of QPACK.
const (
	DecompressionFailed Code = 0x200 + iota
	EncoderStreamError
	DecoderStreamError
)

var codeNames = map[Code]string{
	NoError: "H3_NO_ERROR", GeneralProtocolError: "H3_GENERAL_PROTOCOL_ERROR", InternalError: "H3_INTERNAL_ERROR",
	StreamCreationError: "H3_STREAM_CREATION_ERROR", ClosedCriticalStream: "H3_CLOSED_CRITICAL_STREAM",
	FrameUnexpected: "H3_FRAME_UNEXPECTED", FrameError: "H3_FRAME_ERROR", ExcessiveLoad: "H3_EXCESSIVE_LOAD",
	IDError: "H3_ID_ERROR", SettingsError: "H3_SETTINGS_ERROR", MissingSettings: "H3_MISSING_SETTINGS",
	RequestRejected: "H3_REQUEST_REJECTED", RequestCancelled: "H3_REQUEST_CANCELLED",
	RequestIncomplete: "H3_REQUEST_INCOMPLETE", MessageError: "H3_MESSAGE_ERROR", ConnectError: "H3_CONNECT_ERROR",
	VersionFallback: "H3_VERSION_FALLBACK", DecompressionFailed: "QPACK_DECOMPRESSION_FAILED",
	EncoderStreamError: "QPACK_ENCODER_STREAM_ERROR", DecoderStreamError: "QPACK_DECODER_STREAM_ERROR",
}

// String is the registered name.
func (c Code) String() string {
	if name := codeNames[c]; name != "" {
		return name
	}
	return fmt.Sprintf("error code %#x", uint64(c))
}

// Error is a fault of the peer that ended a stream or the connection.
type Error struct {
	Code   Code
	Reason string // one line of fixed text
	Conn   bool   // it ended the connection
}

// Error names the code and the reason.
func (e *Error) Error() string { return fmt.Sprintf("http3: %s (%v)", e.Reason, e.Code) }

func streamError(code Code, reason string) error { return &Error{Code: code, Reason: reason} }

func connError(code Code, reason string) error { return &Error{Code: code, Reason: reason, Conn: true} }

// codeOf is the code that stands for one of HTTP/2 (RFC 9114 appendix A.4).
func codeOf(code http2.ErrCode) Code {
	switch code {
	case http2.NoError:
		return NoError
	case http2.InternalError:
		return InternalError
	case http2.RefusedStream:
		return RequestRejected
	case http2.Cancel:
		return RequestCancelled
	case http2.ConnectError:
		return ConnectError
	case http2.EnhanceYourCalm:
		return ExcessiveLoad
	case http2.HTTP11Required:
		return VersionFallback
	}
	return GeneralProtocolError
}
