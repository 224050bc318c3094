package http2

import "github.com/headgate/headgate/dataplane/message"

// checkResponse reads a decoded response head to a request of a method. A reason
// says why it is malformed (RFC 9113 sections 8.1.1 and 8.3.2).
func (h *head) checkResponse(method message.Method) (malformed string) {
	switch {
	case h.malformed != "":
		return h.malformed
	case h.oversize != "":
		return h.oversize
	case h.seen != 1<<pseudoStatus:
		return "response without :status, or with other pseudo-header fields"
	}
	if h.status = parseStatus(h.pseudo[pseudoStatus]); h.status < 100 || h.status == 101 {
		return "bad :status"
	}
	if h.status < 200 {
		if h.end {
			return "interim response that ends the stream"
		}
		h.fields.DelID(message.ContentLength)
		return ""
	}
	return h.responseBody(method)
}

func parseStatus(b []byte) int {
	if len(b) != 3 || !all(b, classDigit) {
		return 0
	}
	return int(b[0]-'0')*100 + int(b[1]-'0')*10 + int(b[2]-'0')
}

// responseBody decides on the body as HTTP/1.1 does (RFC 9112 section 6.3), but
// that the end of the stream is known.
func (h *head) responseBody(method message.Method) (malformed string) {
	length, reason := h.lengths(true)
	if reason != "" {
		return reason
	}
	connected := method == message.MethodConnect && h.status < 300
	switch {
	case h.status == 204 || connected:
		h.fields.DelID(message.ContentLength)
	case h.status == 304 || method == message.MethodHead:
	case h.end && length > 0:
		return "Content-Length without a body"
	case h.end || length >= 0:
		h.body = message.Body{Kind: message.BodyLength, Length: max(length, 0)}
	default:
		h.body.Kind = message.BodyChunked
	}
	return ""
}

// response makes resp of a head that checkResponse has passed.
func (h *head) response(resp *message.Response) {
	*resp = message.Response{Status: h.status, Major: 2, Fields: h.fields, Body: h.body}
}

// bodyBytes is how many bytes of DATA must follow, or -1 if that is not known.
func (h *head) bodyBytes(method message.Method) int64 {
	switch {
	case h.body.Kind == message.BodyLength:
		return h.body.Length
	case h.body.Kind == message.BodyNone && method != message.MethodConnect:
		return 0
	}
	return -1
}
