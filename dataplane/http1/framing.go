package http1

import (
	"bytes"
	"math"

	"github.com/headgate/headgate/dataplane/message"
)

// framing is what the fields of one head say of the message around it.
type framing struct {
	hosts     int
	lengths   int
	codings   int
	host      []byte
	length    []byte
	coding    []byte
	close     bool // Connection: close
	keepAlive bool // Connection: keep-alive
	upgrade   bool // Connection: upgrade
}

// collect looks once at each field.
func (f *framing) collect(fields *message.Fields) {
	list := fields.All()
	for i := range list {
		value := list[i].Value
		switch list[i].ID {
		case message.Host:
			f.hosts++
			f.host = value
		case message.ContentLength:
			f.lengths++
			f.length = value
		case message.TransferEncoding:
			f.codings++
			f.coding = value
		case message.Connection:
			f.connection(value)
		}
	}
}

// connection reads the options of a Connection field that are for us (RFC 9110
// section 7.6.1).
func (f *framing) connection(value []byte) {
	if message.EqualToken(value, "keep-alive") {
		f.keepAlive = true
		return
	}
	for option := range message.List(value) {
		switch {
		case message.EqualToken(option, "close"):
			f.close = true
		case message.EqualToken(option, "keep-alive"):
			f.keepAlive = true
		case message.EqualToken(option, "upgrade"):
			f.upgrade = true
		default:
			f.close = f.close || hasWord(option, "close")
		}
	}
}

// hasWord reports whether a malformed member of a list, one with white space inside,
// has a word that is given in lower case. Some take that for the member: so a
// connection is rather closed than kept.
func hasWord(member []byte, word string) bool {
	if bytes.IndexByte(member, ' ') < 0 && bytes.IndexByte(member, '\t') < 0 {
		return false
	}
	for w := range bytes.FieldsSeq(member) {
		if message.EqualToken(w, word) {
			return true
		}
	}
	return false
}

// closes reports whether the connection ends after the message (RFC 9112 section
// 9.3).
func (f *framing) closes(minor uint8) bool {
	return f.close || minor == 0 && !f.keepAlive
}

// upgradeTo is the first value of Upgrade that is not empty, where Connection names
// it; HTTP/1.0 has no upgrades (RFC 9110 section 7.8).
func (f *framing) upgradeTo(fields *message.Fields, minor uint8) []byte {
	if !f.upgrade || minor == 0 {
		return nil
	}
	for value := range fields.Values(message.Upgrade) {
		if len(value) > 0 {
			return value
		}
	}
	return nil
}

// frameRequest decides on everything that follows from the fields of a request.
// The head ends at end, where faults that no single byte makes are placed.
func frameRequest(req *message.Request, end int) *Error {
	var f framing
	f.collect(&req.Fields)
	if err := f.setHost(req, end); err != nil {
		return err
	}
	if err := f.setRequestBody(req, end); err != nil {
		return err
	}
	req.Close = f.closes(req.Minor)
	req.Upgrade = f.upgradeTo(&req.Fields, req.Minor)
	if req.Fields.Has(message.TE) {
		req.TETrailers = req.Fields.ListContains(message.TE, "trailers")
	}
	if req.Fields.Has(message.Expect) {
		return setContinue(req, end)
	}
	return nil
}

// setHost checks Host (RFC 9112 section 3.2) and takes it for the authority
// unless the target named one, which then counts instead.
func (f *framing) setHost(req *message.Request, end int) *Error {
	switch {
	case f.hosts > 1:
		return bad(end, "more than one Host field")
	case f.hosts == 0 && req.Minor > 0:
		return bad(end, "no Host field")
	}
	h, reason := parseHost(f.host)
	switch {
	case reason != "":
		return bad(end, "Host field: "+reason)
	case req.Authority != nil:
		return nil
	case f.hosts > 0 && len(h.name) == 0 && req.Form == message.FormOrigin:
		// An http URI always has a host (RFC 9110 section 4.2.1).
		return bad(end, "empty Host field")
	}
	req.Authority, req.Host = f.host, h.name
	return nil
}

// setRequestBody decides how the body ends (RFC 9112 section 6.3).
func (f *framing) setRequestBody(req *message.Request, end int) *Error {
	if f.codings+f.lengths == 0 {
		return nil
	}
	if err := f.checkBothLengths(req.Minor, end); err != nil {
		return err
	}
	if req.Method == message.MethodConnect {
		return bad(end, "content in a CONNECT request")
	}
	if f.codings > 0 {
		req.Body.Kind = message.BodyChunked
		return checkCoding(f.coding, end)
	}
	if f.lengths > 1 {
		return bad(end, "more than one Content-Length field")
	}
	length, reason := parseLength(f.length)
	if reason != "" {
		return bad(end, reason)
	}
	req.Body = message.Body{Kind: message.BodyLength, Length: length}
	return nil
}

// checkBothLengths refuses what makes one receiver see another message than the
// next (RFC 9112 sections 6.1 and 11.2).
func (f *framing) checkBothLengths(minor uint8, end int) *Error {
	switch {
	case f.codings > 0 && f.lengths > 0:
		return bad(end, "both Transfer-Encoding and Content-Length")
	case f.codings > 0 && minor == 0:
		return bad(end, "Transfer-Encoding in HTTP/1.0")
	case f.codings > 1:
		return bad(end, "more than one Transfer-Encoding field")
	}
	return nil
}

// checkCoding takes "chunked" alone. A list of other codings that ends with
// chunked has an end and could be served by somebody: 501 (RFC 9112 section
// 6.1). Everything else has no end: 400 (section 6.3).
func checkCoding(value []byte, end int) *Error {
	if message.EqualToken(value, "chunked") {
		return nil
	}
	codings, chunked, last := 0, 0, false
	for coding := range message.List(value) {
		if wordEnd(coding, 0, len(coding), classToken) < len(coding) {
			return bad(end, "malformed Transfer-Encoding field")
		}
		codings++
		if last = message.EqualToken(coding, "chunked"); last {
			chunked++
		}
	}
	if last && chunked == 1 && codings > 1 {
		return fault(501, end, "transfer coding other than chunked")
	}
	return bad(end, "Transfer-Encoding that is not chunked, once")
}

// parseLength reads the digits of a Content-Length (RFC 9110 section 8.6).
func parseLength(value []byte) (length int64, reason string) {
	if len(value) == 0 {
		return 0, "empty Content-Length field"
	}
	for _, c := range value {
		if !is(c, classDigit) {
			return 0, "Content-Length that is not a number"
		}
		digit := int64(c - '0')
		if length > (math.MaxInt64-digit)/10 {
			return 0, "Content-Length too large"
		}
		length = length*10 + digit
	}
	return length, ""
}

// setContinue reads Expect, which is a list (RFC 9110 section 10.1.1): a request
// without content waits for nothing, and HTTP/1.0 knows no 100.
func setContinue(req *message.Request, end int) *Error {
	for value := range req.Fields.Values(message.Expect) {
		for member := range message.List(value) {
			if !message.EqualToken(member, "100-continue") {
				return fault(417, end, "Expect field other than 100-continue")
			}
			req.Continue = req.Minor > 0 && (req.Body.Kind == message.BodyChunked || req.Body.Length > 0)
		}
	}
	return nil
}
