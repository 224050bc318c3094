package http1

import (
	"bytes"

	"github.com/headgate/headgate/dataplane/message"
)

// trailer collects a trailer section, a line at a time, in storage of its own.
type trailer struct {
	fields message.Fields
	store  []byte // every line so far, with its CRLF
	line   int    // where the line that is being read begins in store
	count  int
	answer bool // it is that of an answer
}

// keptTrailerBytes is the most storage that outlives a body: connections are
// many, and large trailer sections few.
const keptTrailerBytes = 4 << 10

// reset empties it and keeps the storage, unless it has grown large.
func (t *trailer) reset() {
	if cap(t.store) > keptTrailerBytes {
		*t = trailer{}
	}
	t.fields.Reset()
	t.store = t.store[:0]
	t.line, t.count, t.answer = 0, 0, false
}

// feed takes bytes up to the end of a line, and reports whether it was the empty
// one that ends the section.
func (t *trailer) feed(buf []byte, lim *Limits) (n int, done bool, err *Error) {
	n = bytes.IndexByte(buf, '\n') + 1
	ends := n > 0
	if !ends {
		n = len(buf)
	}
	if len(t.store)+n > lim.HeadBytes {
		return 0, false, fault(431, 0, "trailer section too large")
	}
	t.store = append(t.store, buf[:n]...)
	if !ends {
		return n, false, nil
	}
	text := t.store[t.line:]
	t.line = len(t.store)
	if len(text) == 2 && text[0] == '\r' {
		return n, true, nil
	}
	return n, false, t.add(text, lim)
}

// add takes a whole line.
func (t *trailer) add(text []byte, lim *Limits) *Error {
	if t.count++; t.count > lim.Fields {
		return fault(431, 0, "too many trailer fields")
	}
	var l line
	if ok, err := l.parse(text, 0); !ok {
		if err == nil {
			err = bad(0, "malformed trailer field")
		}
		return err
	}
	id := message.Intern(l.name)
	switch {
	case refusedTrailer[id] && !t.answer:
		return bad(0, "framing field among trailers")
	case refusedTrailer[id] || l.underscore || droppedTrailer[id] || isDroppedTrailer(l.name):
	default:
		t.fields.AddID(id, l.name, l.value)
	}
	return nil
}

// refusedTrailer are the fields that frame or route a message: as trailers they
// can only be there to deceive (RFC 9110 section 6.5.1).
var refusedTrailer = [256]bool{
	message.Host: true, message.ContentLength: true, message.TransferEncoding: true,
	message.Connection: true, message.KeepAlive: true, message.ProxyConnection: true,
	message.Upgrade: true, message.TE: true, message.Trailer: true, message.Expect: true,
	message.HTTP2Settings: true,
}

// droppedTrailer are the known fields that authenticate, describe the content,
// control the request or are set by proxies, and count only in a head.
var droppedTrailer = [256]bool{
	message.Via: true, message.Forwarded: true, message.XForwardedFor: true,
	message.XForwardedProto: true, message.XForwardedHost: true,
	message.ProxyAuthenticate: true, message.ProxyAuthorization: true,
	message.ProxyStatus: true, message.Traceparent: true, message.Tracestate: true,
	message.Baggage: true, message.ContentType: true, message.UserAgent: true,
	message.Accept: true, message.AcceptEncoding: true, message.Authorization: true,
	message.Cookie: true, message.SetCookie: true, message.Date: true, message.Server: true,
	message.Location: true, message.RetryAfter: true, message.CacheControl: true,
	message.XRequestID: true, message.Origin: true,
}

// droppedNames are further such names, in lower case.
var droppedNames = []string{
	"age", "expires", "pragma", "vary", "warning", "range", "max-forwards",
	"www-authenticate", "authentication-info", "proxy-authentication-info",
	"clear-site-data", "early-data", "priority", "x-real-ip",
}

// droppedPrefixes are families of such names. Content-Digest is made for
// trailers (RFC 9530 section 2) and is kept.
var droppedPrefixes = []string{"content-", "if-", "x-forwarded-", "access-control-", "sec-"}

func isDroppedTrailer(name []byte) bool {
	for _, dropped := range droppedNames {
		if message.EqualToken(name, dropped) {
			return true
		}
	}
	for _, prefix := range droppedPrefixes {
		if hasPrefixFold(name, prefix) {
			return !message.EqualToken(name, "content-digest")
		}
	}
	return false
}
