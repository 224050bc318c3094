package message

// ID is an interned field name: equal IDs other than Other are equal names.
type ID uint8

// Other is every name that is not known; two such names must be compared.
const Other ID = 0

// The known names: those that the proxy itself looks at, and the most common.
const (
	Host ID = iota + 1
	ContentLength
	TransferEncoding
	Connection
	KeepAlive
	ProxyConnection
	Upgrade
	TE
	Trailer
	Expect
	Via
	Forwarded
	XForwardedFor
	XForwardedProto
	XForwardedHost
	ProxyAuthenticate
	ProxyAuthorization
	ProxyStatus
	Traceparent
	Tracestate
	ContentType
	UserAgent
	Accept
	AcceptEncoding
	Authorization
	Cookie
	SetCookie
	Date
	Server
	Location
	RetryAfter
	CacheControl
	XRequestID
	HTTP2Settings
	Baggage
	Origin
	GRPCTimeout
	GRPCStatus
	GRPCMessage
	lastID
)

// names holds the lower-case name of each ID.
var names = [lastID]string{
	Host: "host", ContentLength: "content-length", TransferEncoding: "transfer-encoding",
	Connection: "connection", KeepAlive: "keep-alive", ProxyConnection: "proxy-connection",
	Upgrade: "upgrade", TE: "te", Trailer: "trailer", Expect: "expect", Via: "via",
	Forwarded: "forwarded", XForwardedFor: "x-forwarded-for", XForwardedProto: "x-forwarded-proto",
	XForwardedHost: "x-forwarded-host", ProxyAuthenticate: "proxy-authenticate",
	ProxyAuthorization: "proxy-authorization", ProxyStatus: "proxy-status",
	Traceparent: "traceparent", Tracestate: "tracestate", ContentType: "content-type",
	UserAgent: "user-agent", Accept: "accept", AcceptEncoding: "accept-encoding",
	Authorization: "authorization", Cookie: "cookie", SetCookie: "set-cookie", Date: "date",
	Server: "server", Location: "location", RetryAfter: "retry-after",
	CacheControl: "cache-control", XRequestID: "x-request-id", HTTP2Settings: "http2-settings",
	Baggage: "baggage", Origin: "origin", GRPCTimeout: "grpc-timeout",
	GRPCStatus: "grpc-status", GRPCMessage: "grpc-message",
}

// String is the lower-case name, or "" for Other.
func (id ID) String() string {
	if id >= lastID {
		return ""
	}
	return names[id]
}

// Bytes is String as bytes, which must not be changed; nil for Other.
func (id ID) Bytes() []byte {
	if id >= lastID {
		return nil
	}
	return nameBytes[id]
}

var nameBytes = func() (table [lastID][]byte) {
	for id := ID(1); id < lastID; id++ {
		table[id] = []byte(names[id])
	}
	return table
}()

// HopByHop reports whether a field is for one connection only and is never
// forwarded as it came, whether Connection names it or not (RFC 9110 section
// 7.6.1). The credentials for a proxy are counted in: Headgate asks for none.
func (id ID) HopByHop() bool { return hopByHop[id] }

var hopByHop = [256]bool{
	Connection: true, KeepAlive: true, ProxyConnection: true, Upgrade: true, TE: true,
	Trailer: true, TransferEncoding: true, HTTP2Settings: true,
	ProxyAuthenticate: true, ProxyAuthorization: true,
}

// Protected reports whether a Connection field may not name the field away:
// it frames or routes the message, or the proxy writes it itself.
func (id ID) Protected() bool { return protected[id] }

var protected = [256]bool{
	Host: true, ContentLength: true, TransferEncoding: true, Expect: true, Via: true,
	Forwarded: true, XForwardedFor: true, XForwardedProto: true, XForwardedHost: true,
	ProxyStatus: true, Traceparent: true, Tracestate: true, XRequestID: true,
}
