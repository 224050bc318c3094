package http2

import (
	"strings"

	"github.com/headgate/headgate/dataplane/message"
)

// checkTrailers reads a decoded trailer section (RFC 9113 section 8.1): a reason
// says why it is malformed. Fields that count only in a head are left out, and of an
// answer those that frame or route a message too: what is passed on is framed anew.
func (h *head) checkTrailers(answer bool) (malformed string) {
	switch {
	case h.malformed != "":
		return h.malformed
	case h.oversize != "":
		return h.oversize
	case h.seen != 0:
		return "pseudo-header field among trailers"
	}
	list := h.fields.All()
	for i := 0; i < len(list); i++ {
		f := &list[i]
		if refusedTrailer[f.ID] && !answer {
			return "framing field among trailers"
		}
		if refusedTrailer[f.ID] || f.Underscore() || droppedTrailer[f.ID] || f.ID == message.Other && isDroppedTrailer(f.Name) {
			h.fields.Del(f.Name)
			list = h.fields.All()
			i--
		}
	}
	return ""
}

// refusedTrailer are the fields that frame or route a message: as trailers they
// can only be there to deceive (RFC 9110 section 6.5.1).
var refusedTrailer = [256]bool{
	message.Host: true, message.ContentLength: true, message.TE: true, message.Trailer: true,
	message.Expect: true, message.HTTP2Settings: true,
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

// droppedNames are further such names.
var droppedNames = map[string]bool{
	"age": true, "expires": true, "pragma": true, "vary": true, "warning": true, "range": true,
	"max-forwards": true, "www-authenticate": true, "authentication-info": true,
	"proxy-authentication-info": true, "clear-site-data": true, "early-data": true,
	"priority": true, "x-real-ip": true,
}

// droppedPrefixes are families of such names. Content-Digest is made for trailers
// (RFC 9530 section 2) and is kept.
var droppedPrefixes = []string{"content-", "if-", "x-forwarded-", "access-control-", "sec-"}

// isDroppedTrailer looks at a name in lower case.
func isDroppedTrailer(name []byte) bool {
	if droppedNames[string(name)] {
		return true
	}
	for _, prefix := range droppedPrefixes {
		if strings.HasPrefix(string(name), prefix) {
			return string(name) != "content-digest"
		}
	}
	return false
}
