package http2

import (
	"bytes"

	"github.com/headgate/headgate/dataplane/message"
)

const maxMethodBytes = 64 // as on HTTP/1.1

// request makes req of a decoded head. A reason says why the head is malformed
// (RFC 9113 section 8.1.1), which breaks the stream; a fault can be answered, and
// then req holds what was understood.
func (h *head) request(req *message.Request, o *Options) (malformed string, fault *Fault) {
	fields := h.fields
	*req = message.Request{Major: 2, Fields: fields}
	if h.malformed != "" {
		return h.malformed, nil
	}
	if h.oversize != "" {
		h.sketch(req)
		return "", &Fault{431, h.oversize}
	}
	if reason := h.shape(o.ExtendedConnect); reason != "" {
		return reason, nil
	}
	h.sketch(req)
	if fault := h.requestTarget(req, o); fault != nil {
		return "", fault
	}
	if fault := h.host(req); fault != nil {
		return "", fault
	}
	return h.requestBody(req)
}

// shape checks which pseudo-header fields are there (section 8.3.1, and section 4
// of RFC 8441).
func (h *head) shape(extended bool) string {
	method := h.pseudo[pseudoMethod]
	connect := string(method) == "CONNECT"
	switch {
	case h.has(pseudoStatus):
		return ":status in a request"
	case !h.has(pseudoMethod) || len(method) == 0 || !all(method, classToken):
		return "bad or missing :method"
	case h.has(pseudoProtocol) && (!extended || !connect || !all(h.pseudo[pseudoProtocol], classToken) || len(h.pseudo[pseudoProtocol]) == 0):
		return "bad :protocol"
	case h.has(pseudoAuthority) && bytes.IndexByte(h.pseudo[pseudoAuthority], '@') >= 0:
		return "user information in :authority"
	case connect && !h.has(pseudoProtocol):
		if h.has(pseudoScheme) || h.has(pseudoPath) || len(h.pseudo[pseudoAuthority]) == 0 {
			return "CONNECT with other than :authority"
		}
	case !h.has(pseudoScheme) || !h.has(pseudoPath) || len(h.pseudo[pseudoPath]) == 0:
		return "missing :scheme or :path"
	}
	return ""
}

// sketch fills in what needs no check.
func (h *head) sketch(req *message.Request) {
	req.MethodName = h.pseudo[pseudoMethod]
	req.Method = message.ParseMethod(req.MethodName)
	req.Authority = h.pseudo[pseudoAuthority]
	req.HTTPS = message.EqualToken(h.pseudo[pseudoScheme], "https")
	req.Target = h.pseudo[pseudoPath]
	req.Upgrade = h.pseudo[pseudoProtocol]
	req.TETrailers = h.fields.Has(message.TE)
}

// requestTarget reads :path, or the authority of a plain CONNECT.
func (h *head) requestTarget(req *message.Request, o *Options) *Fault {
	if len(req.MethodName) > maxMethodBytes {
		return &Fault{501, "method too long"}
	}
	if req.Method == message.MethodConnect && !h.has(pseudoProtocol) {
		req.Form, req.Target = message.FormAuthority, req.Authority
		return nil
	}
	if scheme := h.pseudo[pseudoScheme]; !req.HTTPS && !message.EqualToken(scheme, "http") {
		return &Fault{400, ":scheme that is neither http nor https"}
	}
	path := req.Target
	if len(path) > o.MaxTargetBytes {
		return &Fault{414, "request target too long"}
	}
	if i := bytes.IndexByte(path, '?'); i >= 0 {
		req.HasQuery = true
		path, req.Query = path[:i], path[i+1:]
	}
	req.Path = path
	switch {
	case !all(path, classPath) || !all(req.Query, classQuery):
		return &Fault{400, "byte not allowed in :path"}
	case len(path) > 0 && path[0] == '/':
		return nil
	case string(req.Target) == "*" && req.Method == message.MethodOptions:
		req.Form = message.FormAsterisk
		return nil
	}
	return &Fault{400, ":path that does not begin with a slash"}
}

// host settles on the authority: :authority, or else Host, which must not differ
// from it (section 8.3.1).
func (h *head) host(req *message.Request) *Fault {
	host := h.fields.Get(message.Host)
	switch {
	case h.fields.Count(message.Host) > 1:
		return &Fault{400, "more than one Host field"}
	case h.has(pseudoAuthority) && h.fields.Has(message.Host) && !message.EqualFold(host, req.Authority):
		return &Fault{400, "Host field that differs from :authority"}
	case !h.has(pseudoAuthority):
		req.Authority = host
	}
	name, port, reason := cutHost(req.Authority)
	switch {
	case reason != "":
		return &Fault{400, ":authority: " + reason}
	case len(name) == 0:
		return &Fault{400, "request without an authority"}
	case req.Form == message.FormAuthority && port <= 0:
		return &Fault{400, "CONNECT target that is not host:port"}
	}
	req.Host = name
	return nil
}

// requestBody reads what the fields say of the body.
func (h *head) requestBody(req *message.Request) (malformed string, fault *Fault) {
	length, reason := h.lengths(false)
	req.Fields = h.fields
	switch {
	case reason != "":
		return reason, nil
	case req.Method == message.MethodConnect:
		if length >= 0 {
			return "content in a CONNECT request", nil
		}
	case length >= 0:
		if h.end && length > 0 {
			return "Content-Length without a body", nil
		}
		req.Body = message.Body{Kind: message.BodyLength, Length: length}
	case !h.end:
		req.Body.Kind = message.BodyChunked
	}
	h.dropUnderscores()
	req.Fields = h.fields
	return "", h.expectation(req)
}

// expectation reads Expect, which is a list (RFC 9110 section 10.1.1).
func (h *head) expectation(req *message.Request) *Fault {
	for value := range req.Fields.Values(message.Expect) {
		for member := range message.List(value) {
			if !message.EqualToken(member, "100-continue") {
				return &Fault{417, "Expect field other than 100-continue"}
			}
			req.Continue = !h.end
		}
	}
	return nil
}

// dropUnderscores leaves out fields that gateways behind cannot tell from others.
func (h *head) dropUnderscores() {
	list := h.fields.All()
	for i := 0; i < len(list); i++ {
		if list[i].ID == message.Other && list[i].Underscore() {
			h.fields.Del(list[i].Name)
			list = h.fields.All()
			i--
		}
	}
}

// requestBytes is how many bytes of DATA must follow, or -1 if that is not known.
func (h *head) requestBytes(req *message.Request) int64 {
	switch {
	case req.Body.Kind == message.BodyLength:
		return req.Body.Length
	case h.end:
		return 0
	}
	return -1
}
