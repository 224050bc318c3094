package http1

import (
	"bytes"
	"encoding/binary"

	"github.com/headgate/headgate/dataplane/message"
)

const (
	// maxMethodBytes is twice the longest registered method; what is longer is
	// not implemented anywhere (RFC 9112 section 3).
	maxMethodBytes = 64
	// maxEmptyLines is how many empty lines before a request line are passed
	// over; old clients send one after a POST (RFC 9112 section 2.2).
	maxEmptyLines = 4
)

// What ends a head, and what looks like that to whoever takes a bare LF for the end of
// a line. An LF stands before each.
var (
	emptyLineCRLF = []byte("\n\r\n")
	emptyLineLF   = []byte("\n\n")
)

// ParseRequest reads a request head from the start of buf into req, which it
// empties first and whose slices point into buf afterwards. It returns the bytes
// that the head takes with its empty line: 0, and no error, when buf holds no
// whole head yet, and then it is called again with more bytes from the same
// start. What it says does not depend on how the bytes came in pieces.
//
// The error is an *Error, or ErrHTTP2Preface; req then holds what was read
// before the fault. Request.HTTPS is true only of an absolute https target:
// what the connection is, the caller knows.
//
// FormAsterisk has the path "*"; an OPTIONS request for an absolute target
// without path and query has that form too (RFC 9112 section 3.2.4). CONNECT has
// an empty path.
func ParseRequest(buf []byte, req *message.Request, lim *Limits) (n int, err error) {
	l := lim.resolve()
	req.Reset()
	n, refusal := parseRequest(buf, req, &l)
	if refusal != nil {
		return 0, refusal
	}
	return n, nil
}

func parseRequest(buf []byte, req *message.Request, lim *Limits) (int, *Error) {
	full := len(buf) >= lim.HeadBytes
	if full {
		buf = buf[:lim.HeadBytes]
	}
	pos, err := skipEmptyLines(buf)
	if err != nil {
		return 0, err
	}
	next, err := parseRequestLine(buf, pos, req, lim)
	if err != nil {
		return 0, err
	}
	end := 0
	if next > 0 && (full || mayBeWhole(buf, next)) {
		if end, err = parseFields(buf, next, lim.Fields, &req.Fields, true); err != nil {
			return 0, err
		}
	}
	if end == 0 {
		if full {
			return 0, fault(431, len(buf), "request head too large")
		}
		return 0, nil
	}
	if err := frameRequest(req, end); err != nil {
		return 0, err
	}
	return end, nil
}

// smallHead is how long a head is at most that is read anew with each piece of it: that
// costs less than to take the piece from the kernel.
const smallHead = 1024

// mayBeWhole is the quick test that keeps the work linear when a long head trickles
// in: its fields are read only when an empty line is there, or when the last
// byte ends a line, which it does no more often than there may be fields. The
// line before the fields ends at pos. A bare LF ends nothing, but whoever takes it
// for the end of a line sends nothing more of the head: such is to be refused now.
func mayBeWhole(buf []byte, pos int) bool {
	return len(buf) <= smallHead || buf[len(buf)-1] == '\n' || bytes.Contains(buf[pos-1:], emptyLineCRLF) || bytes.Contains(buf[pos-1:], emptyLineLF)
}

// skipEmptyLines is the index of the first byte after leading empty lines.
func skipEmptyLines(buf []byte) (int, *Error) {
	pos := 0
	for pos+1 < len(buf) && buf[pos] == '\r' && buf[pos+1] == '\n' {
		if pos += 2; pos > 2*maxEmptyLines {
			return 0, bad(pos, "too many empty lines before the request line")
		}
	}
	return pos, nil
}

// parseRequestLine reads "method SP target SP version CRLF" (RFC 9112 section 3)
// and returns where the line ends, or 0 when buf ends before.
func parseRequestLine(buf []byte, start int, req *message.Request, lim *Limits) (int, *Error) {
	pos, err := parseMethod(buf, start, req)
	if pos == 0 {
		return 0, err
	}
	t := target{start: pos}
	done, err := t.scan(buf, lim.TargetBytes)
	if !done {
		return 0, err
	}
	req.Target = buf[t.start:t.end]
	next, err := parseVersion(buf, t.end+1, &req.Major, &req.Minor)
	switch {
	case err != nil && start == 0 && bytes.HasPrefix(buf, preface):
		return 0, ErrHTTP2Preface
	case next == 0:
		return 0, err
	}
	return next, t.parse(buf, req)
}

// parseMethod reads the method and the space after it and returns where the
// target begins, or 0 when buf ends before.
func parseMethod(buf []byte, start int, req *message.Request) (int, *Error) {
	pos := wordEnd(buf, start, start+maxMethodBytes+1, classToken)
	switch {
	case pos-start > maxMethodBytes:
		return 0, fault(501, start, "method too long")
	case pos == len(buf) || pos == start && pos+1 == len(buf) && buf[pos] == '\r':
		return 0, nil
	case pos == start || buf[pos] != ' ':
		return 0, bad(pos, "byte not allowed in the method")
	}
	req.MethodName = buf[start:pos]
	req.Method = message.ParseMethod(req.MethodName)
	return pos + 1, nil
}

var preface = []byte("PRI * HTTP/2.0\r\n")

// version11 is "HTTP/1.1" as a word.
var version11 = binary.LittleEndian.Uint64([]byte("HTTP/1.1"))

// parseVersion reads "HTTP/1.0" or "HTTP/1.1" and CRLF at pos, and returns where
// the line ends, or 0 when buf ends before.
func parseVersion(buf []byte, pos int, major, minor *uint8) (int, *Error) {
	b := buf[pos:]
	if len(b) >= 10 && binary.LittleEndian.Uint64(b) == version11 && b[8] == '\r' && b[9] == '\n' {
		*major, *minor = 1, 1
		return pos + 10, nil
	}
	const shape = "HTTP/d.d\r\n"
	for i := range min(len(b), len(shape)) {
		if !fits(b[i], shape[i]) {
			return 0, badVersion(b[i], pos+i, i)
		}
	}
	if len(b) < len(shape) {
		return 0, nil
	}
	*major, *minor = b[5]-'0', b[7]-'0'
	if *major != 1 || *minor > 1 {
		return 0, fault(505, pos, "HTTP version not supported")
	}
	return pos + len(shape), nil
}

// badVersion says what is wrong with byte c, which is byte i of a version.
func badVersion(c byte, offset, i int) *Error {
	switch {
	case i == 9:
		return bad(offset, "CR without LF after the HTTP version")
	case c == '\n':
		return bad(offset, "LF without CR in the request line")
	case i == 8:
		return bad(offset, "request line does not end after the HTTP version")
	}
	return bad(offset, "malformed HTTP version")
}
