package http2

import "github.com/headgate/headgate/dataplane/message"

// The static table of RFC 7541 appendix A, as far as an encoder needs it: the
// index of each name, and of the pairs that are common.

const staticLast = 61

const (
	staticAuthority = 1
	staticGET       = 2
	staticPOST      = 3
	staticMethod    = 2
	staticPath      = 4
	staticHTTP      = 6
	staticHTTPS     = 7
	staticStatus    = 8
)

var staticNames = map[string]uint8{
	":authority": 1, ":method": 2, ":path": 4, ":scheme": 6, ":status": 8, "accept-charset": 15,
	"accept-encoding": 16, "accept-language": 17, "accept-ranges": 18, "accept": 19,
	"access-control-allow-origin": 20, "age": 21, "allow": 22, "authorization": 23,
	"cache-control": 24, "content-disposition": 25, "content-encoding": 26, "content-language": 27,
	"content-length": 28, "content-location": 29, "content-range": 30, "content-type": 31,
	"cookie": 32, "date": 33, "etag": 34, "expect": 35, "expires": 36, "from": 37, "host": 38,
	"if-match": 39, "if-modified-since": 40, "if-none-match": 41, "if-range": 42,
	"if-unmodified-since": 43, "last-modified": 44, "link": 45, "location": 46, "max-forwards": 47,
	"proxy-authenticate": 48, "proxy-authorization": 49, "range": 50, "referer": 51, "refresh": 52,
	"retry-after": 53, "server": 54, "set-cookie": 55, "strict-transport-security": 56,
	"transfer-encoding": 57, "user-agent": 58, "vary": 59, "via": 60, "www-authenticate": 61,
}

// staticStatuses are the statuses that have a pair.
var staticStatuses = [...]uint16{200, 204, 206, 304, 400, 404, 500}

// knownNames and knownStatic hold, for each interned name, its lower-case bytes,
// which are never written to, and its index in the static table or 0.
var knownNames, knownStatic = func() (known [256][]byte, static [256]uint8) {
	for id := range known {
		if name := message.ID(id).String(); name != "" {
			known[id] = []byte(name)
			static[id] = staticNames[name]
		}
	}
	return known, static
}()
