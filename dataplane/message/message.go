// Package message is the form that every request and response head has inside
// the data plane, whatever wire it came over: a start line and an ordered list
// of fields. It owns no bytes: every slice points into a buffer of the
// connection that the head was read from and is valid until that buffer is
// reused. It knows nothing of sockets, of net/http or of any wire format.
package message

// Method is a request method; the common ones are interned, so that comparing
// them is comparing a byte. The zero value is a method that was not yet read.
type Method uint8

// The methods of RFC 9110 section 9 and RFC 5789. MethodOther is any other
// token; its bytes are in Request.MethodName.
const (
	MethodNone Method = iota
	MethodGet
	MethodHead
	MethodPost
	MethodPut
	MethodDelete
	MethodConnect
	MethodOptions
	MethodTrace
	MethodPatch
	MethodOther
)

// BodyKind says how the end of a body is found.
type BodyKind uint8

const (
	// BodyNone: there is no body.
	BodyNone BodyKind = iota
	// BodyLength: Content-Length bytes follow; may be 0.
	BodyLength
	// BodyChunked: the chunked transfer coding (RFC 9112 section 7.1), or
	// on HTTP/2 and HTTP/3 a body whose length was not told.
	BodyChunked
	// BodyUntilClose: a response that ends with its connection.
	BodyUntilClose
)

// Body is the framing of a message body.
type Body struct {
	Kind   BodyKind
	Length int64 // bytes; only with BodyLength
}

// Form is the form of a request target (RFC 9112 section 3.2).
type Form uint8

const (
	FormOrigin    Form = iota // /path?query
	FormAbsolute              // http://host/path
	FormAuthority             // host:port, with CONNECT only
	FormAsterisk              // *, with OPTIONS only
)

// Request is the head of a request.
type Request struct {
	Method     Method
	MethodName []byte // as received
	Form       Form
	Target     []byte // the request target as received
	HTTPS      bool   // the scheme: https, or else http
	Authority  []byte // Host, :authority or the authority of an absolute target, as received; may be empty in HTTP/1.0
	Host       []byte // Authority without its port, as received, brackets of an IPv6 address included
	Path       []byte // before the query, as received; NormalizePath gives the form that is matched and forwarded
	Query      []byte // after the first "?", which is not part of it
	HasQuery   bool   // there was a "?"
	Major      uint8  // 1, 2 or 3
	Minor      uint8  // HTTP/1.0 or 1.1
	Fields     Fields
	Body       Body
	Close      bool   // the connection ends after this exchange (RFC 9112 section 9.3)
	Upgrade    []byte // first value of Upgrade where Connection names it, else nil; of a stream, :protocol
	Continue   bool   // Expect: 100-continue
	TETrailers bool   // TE contains trailers
}

// Response is the head of a response.
type Response struct {
	Status  int // 100 to 999
	Reason  []byte
	Major   uint8
	Minor   uint8
	Fields  Fields
	Body    Body
	Close   bool
	Upgrade []byte
}

// Reset empties the head for reuse and keeps its storage.
func (r *Request) Reset() {
	fields := r.Fields
	fields.Reset()
	*r = Request{Fields: fields}
}

// Reset empties the head for reuse and keeps its storage.
func (r *Response) Reset() {
	fields := r.Fields
	fields.Reset()
	*r = Response{Fields: fields}
}

// Idempotent reports whether sending the request twice is the same as sending
// it once (RFC 9110 section 9.2.2).
func (r *Request) Idempotent() bool {
	switch r.Method {
	case MethodGet, MethodHead, MethodPut, MethodDelete, MethodOptions, MethodTrace:
		return true
	}
	return false
}
