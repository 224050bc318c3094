package http1

import (
	"encoding/binary"

	"github.com/headgate/headgate/dataplane/message"
)

// ParseResponse reads a response head from the start of buf into resp, as
// ParseRequest does a request. The method is that of the request it answers:
// with the status it decides whether there is a body (RFC 9112 section 6.3).
// Interim responses (1xx) are returned like others; the caller reads on.
//
// Equal Content-Length values are made one field line with one number. A 1xx or
// 204 response, and a 2xx one to CONNECT, loses its Content-Length and
// Transfer-Encoding, which it must not have; where they promise a body, Close is
// set, because what comes next on the connection is not to be believed.
//
// The error is an *Error with status 502.
func ParseResponse(buf []byte, resp *message.Response, lim *Limits, method message.Method) (n int, err error) {
	l := lim.resolve()
	resp.Reset()
	n, refusal := parseResponse(buf, resp, &l, method)
	if refusal != nil {
		refusal.Status = 502
		return 0, refusal
	}
	return n, nil
}

func parseResponse(buf []byte, resp *message.Response, lim *Limits, method message.Method) (int, *Error) {
	full := len(buf) >= lim.HeadBytes
	if full {
		buf = buf[:lim.HeadBytes]
	}
	next, err := parseStatusLine(buf, resp)
	if err != nil {
		return 0, err
	}
	end := 0
	if next > 0 && (full || mayBeWhole(buf, next)) {
		if end, err = parseFields(buf, next, lim.Fields, &resp.Fields, false); err != nil {
			return 0, err
		}
	}
	if end == 0 {
		if full {
			return 0, fault(502, len(buf), "response head too large")
		}
		return 0, nil
	}
	return end, frameResponse(resp, method, end)
}

// version10 is "HTTP/1.0" as a word.
var version10 = binary.LittleEndian.Uint64([]byte("HTTP/1.0"))

// parseStatusLine reads "version SP status SP reason CRLF" (RFC 9112 section 4)
// and returns where the line ends, or 0 when buf ends before. The space before
// an empty reason may be missing, as it is in what some servers send.
func parseStatusLine(buf []byte, resp *message.Response) (int, *Error) {
	const code = len("HTTP/1.1 ")
	if len(buf) > code+3 && binary.LittleEndian.Uint64(buf) == version11 && buf[code-1] == ' ' &&
		'1' <= buf[code] && buf[code] <= '9' && is(buf[code+1], classDigit) && is(buf[code+2], classDigit) {
		return parseStatus(buf, resp)
	}
	return parseOddStatusLine(buf, resp)
}

// parseStatus reads a status line from the status on; what is before it is known.
func parseStatus(buf []byte, resp *message.Response) (int, *Error) {
	const code = len("HTTP/1.1 ")
	resp.Major, resp.Minor = 1, buf[7]-'0'
	resp.Status = int(buf[code]-'0')*100 + int(buf[code+1]-'0')*10 + int(buf[code+2]-'0')
	return parseReason(buf, code+3, resp)
}

// parseOddStatusLine is parseStatusLine for one that is not as most are.
func parseOddStatusLine(buf []byte, resp *message.Response) (int, *Error) {
	const shape = "HTTP/1.d ddd"
	for i := range min(len(buf), len(shape)) {
		if !fits(buf[i], shape[i]) {
			return 0, badStatusLine(i)
		}
	}
	if len(buf) < len(shape) {
		return 0, nil
	}
	if v := binary.LittleEndian.Uint64(buf); v != version11 && v != version10 {
		return 0, bad(0, "HTTP version of the response not supported")
	}
	if buf[9] == '0' {
		return 0, bad(9, "status below 100")
	}
	return parseStatus(buf, resp)
}

// badStatusLine says what is wrong with byte i.
func badStatusLine(i int) *Error {
	switch {
	case i < len("HTTP/"):
		return bad(i, "response that does not begin with HTTP/")
	case i < len("HTTP/1.1"):
		return bad(i, "HTTP version of the response not supported")
	}
	return bad(i, "malformed status in the status line")
}

// parseReason reads the rest of a status line.
func parseReason(buf []byte, pos int, resp *message.Response) (int, *Error) {
	if pos < len(buf) && buf[pos] == ' ' {
		pos++
	} else if pos < len(buf) && buf[pos] != '\r' {
		return 0, bad(pos, "malformed status in the status line")
	}
	end := valueEnd(buf, pos)
	switch {
	case end == len(buf) || buf[end] == '\r' && end+1 == len(buf):
		return 0, nil
	case buf[end] != '\r' || buf[end+1] != '\n':
		return 0, bad(end, "control byte in the status line")
	}
	resp.Reason = buf[pos:end]
	return end + 2, nil
}

// frameResponse decides on everything that follows from the fields of a
// response.
func frameResponse(resp *message.Response, method message.Method, end int) *Error {
	var f framing
	f.collect(&resp.Fields)
	body, err := f.responseBody(resp, end)
	if err != nil {
		return err
	}
	resp.Close = f.closes(resp.Minor)
	resp.Upgrade = f.upgradeTo(&resp.Fields, resp.Minor)
	status := resp.Status
	switch {
	case status < 200 || status == 204 || method == message.MethodConnect && status < 300:
		resp.Fields.DelID(message.ContentLength)
		resp.Fields.DelID(message.TransferEncoding)
		resp.Close = resp.Close || body.Kind == message.BodyChunked || body.Length > 0
		return nil
	case status == 304 || method == message.MethodHead:
		return nil
	}
	resp.Body = body
	resp.Close = resp.Close || body.Kind == message.BodyUntilClose
	return nil
}

// responseBody is the body that the fields promise.
func (f *framing) responseBody(resp *message.Response, end int) (body message.Body, err *Error) {
	if err := f.checkBothLengths(resp.Minor, end); err != nil {
		return body, err
	}
	switch {
	case f.codings > 0:
		body.Kind = message.BodyChunked
		return body, checkCoding(f.coding, end)
	case f.lengths == 0:
		body.Kind = message.BodyUntilClose
		return body, nil
	}
	body.Kind = message.BodyLength
	if length, reason := parseLength(f.length); f.lengths == 1 && reason == "" {
		body.Length = length
		return body, nil
	}
	body.Length, err = collapseLengths(&resp.Fields, end)
	return body, err
}

// collapseLengths makes equal Content-Length values one (RFC 9112 section 6.3).
func collapseLengths(fields *message.Fields, end int) (int64, *Error) {
	var first []byte
	length := int64(-1)
	for value := range fields.Values(message.ContentLength) {
		for more := true; more; {
			var number []byte
			number, value, more = message.CutMember(value)
			n, reason := parseLength(number)
			switch {
			case reason != "":
				return 0, bad(end, reason)
			case length < 0:
				first, length = number, n
			case n != length:
				return 0, bad(end, "Content-Length values that differ")
			}
		}
	}
	fields.Set(contentLength, first)
	return length, nil
}

var contentLength = []byte("Content-Length")
