package http2

import "github.com/headgate/headgate/dataplane/message"

// The static table of RFC 7541 appendix A.

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

var staticPairs = [staticLast][2]string{
	{":authority", ""}, {":method", "GET"}, {":method", "POST"}, {":path", "/"}, {":path", "/index.html"},
	{":scheme", "http"}, {":scheme", "https"}, {":status", "200"}, {":status", "204"}, {":status", "206"},
	{":status", "304"}, {":status", "400"}, {":status", "404"}, {":status", "500"}, {"accept-charset", ""},
	{"accept-encoding", "gzip, deflate"}, {"accept-language", ""}, {"accept-ranges", ""}, {"accept", ""},
	{"access-control-allow-origin", ""}, {"age", ""}, {"allow", ""}, {"authorization", ""}, {"cache-control", ""},
	{"content-disposition", ""}, {"content-encoding", ""}, {"content-language", ""}, {"content-length", ""},
	{"content-location", ""}, {"content-range", ""}, {"content-type", ""}, {"cookie", ""}, {"date", ""}, {"etag", ""},
	{"expect", ""}, {"expires", ""}, {"from", ""}, {"host", ""}, {"if-match", ""}, {"if-modified-since", ""},
	{"if-none-match", ""}, {"if-range", ""}, {"if-unmodified-since", ""}, {"last-modified", ""}, {"link", ""},
	{"location", ""}, {"max-forwards", ""}, {"proxy-authenticate", ""}, {"proxy-authorization", ""}, {"range", ""},
	{"referer", ""}, {"refresh", ""}, {"retry-after", ""}, {"server", ""}, {"set-cookie", ""},
	{"strict-transport-security", ""}, {"transfer-encoding", ""}, {"user-agent", ""}, {"vary", ""}, {"via", ""},
	{"www-authenticate", ""},
}

// staticFields are the pairs as a decoder gives them, by index; the first is
// not used. Their bytes are never written to.
var staticFields = func() (fields [staticLast + 1]field) {
	for i, pair := range staticPairs {
		f := &fields[i+1]
		f.name, f.value, f.kept = []byte(pair[0]), []byte(pair[1]), true
		f.judgeName()
		f.known = true
		f.judgeValue()
	}
	return fields
}()

// staticNames is the lowest index of each name, for an encoder.
var staticNames = func() map[string]uint8 {
	names := make(map[string]uint8, staticLast)
	for i, pair := range staticPairs {
		if names[pair[0]] == 0 {
			names[pair[0]] = uint8(i + 1)
		}
	}
	return names
}()

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
