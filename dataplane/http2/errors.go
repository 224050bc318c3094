package http2

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// ErrCode is an error code of RFC 9113 section 7.
type ErrCode uint32

// The error codes.
const (
	NoError ErrCode = iota
	ProtocolError
	InternalError
	FlowControlError
	SettingsTimeout
	StreamClosed
	FrameSizeError
	RefusedStream
	Cancel
	CompressionError
	ConnectError
	EnhanceYourCalm
	InadequateSecurity
	HTTP11Required
)

var codeNames = [...]string{
	"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT",
	"STREAM_CLOSED", "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR",
	"CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
}

// String is the registered name.
func (c ErrCode) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("error code %d", uint32(c))
}

var (
	// ErrNotProcessed is what errors.Is finds in the failure of a stream that
	// the peer has promised not to have looked at: the request can be sent
	// again, elsewhere (RFC 9113 section 8.7).
	ErrNotProcessed = errors.New("http2: the request was not processed")
	// ErrFull says that the peer allows no more streams for now.
	ErrFull = errors.New("http2: the connection has as many streams as it may")
	// ErrClosed says that the connection was closed by us.
	ErrClosed = errors.New("http2: the connection is closed")
)

// ConnError ended a connection.
type ConnError struct {
	Code   ErrCode
	Reason string // one line of fixed text, or what the peer said
	Remote bool   // the peer said so
	Err    error  // of the socket below, if it was that
}

// Error names the code and the reason.
func (e *ConnError) Error() string {
	switch {
	case e.Err != nil:
		return "http2: connection: " + e.Reason + ": " + e.Err.Error()
	case e.Remote:
		return fmt.Sprintf("http2: the peer closed the connection with %v: %q", e.Code, e.Reason)
	}
	return fmt.Sprintf("http2: connection: %s (%v)", e.Reason, e.Code)
}

// Unwrap is the error of the socket.
func (e *ConnError) Unwrap() error { return e.Err }

// StreamError ended a stream, and nothing else.
type StreamError struct {
	Stream       uint32
	Code         ErrCode
	Reason       string
	Remote       bool // the peer said so
	NotProcessed bool // the peer has not looked at the request
	GoingAway    bool // for the connection takes no more requests
}

// Error names the stream, the code and the reason.
func (e *StreamError) Error() string {
	if e.Remote {
		return fmt.Sprintf("http2: stream %d: the peer reset it with %v", e.Stream, e.Code)
	}
	return fmt.Sprintf("http2: stream %d: %s (%v)", e.Stream, e.Reason, e.Code)
}

// Is makes errors.Is find ErrNotProcessed.
func (e *StreamError) Is(target error) bool { return target == ErrNotProcessed && e.NotProcessed }

// Fault is what is wrong with a request whose framing is right: it can be
// answered.
type Fault struct {
	Status int    // 400, 414, 417, 431 or 501
	Reason string // one line of fixed text that names the field
}

// Error gives the reason.
func (e *Fault) Error() string { return "http2: " + e.Reason }

func connError(code ErrCode, reason string) error {
	return &ConnError{Code: code, Reason: reason}
}

func streamError(stream uint32, code ErrCode, reason string) error {
	return &StreamError{Stream: stream, Code: code, Reason: reason}
}

// Counters count what happened on any number of connections. They only grow.
type Counters struct {
	Streams    atomic.Int64 // opened
	Refused    atomic.Int64 // over a limit or behind a GOAWAY
	Malformed  atomic.Int64 // heads, trailers and bodies that broke their stream
	PeerResets atomic.Int64 // streams that the peer reset before they were done
	Abused     atomic.Int64 // connections ended with ENHANCE_YOUR_CALM
	Broken     atomic.Int64 // connections ended for any other fault of the peer
}
