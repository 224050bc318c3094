package http1

import (
	"github.com/headgate/headgate/dataplane/message"
)

// target is where a request target stands in a buffer.
type target struct {
	start int
	query int // of the first "?", or the end
	end   int
}

// scan finds the space after the target. It reports false, and no error, when
// buf ends before.
func (t *target) scan(buf []byte, limit int) (bool, *Error) {
	stop := t.start + limit + 1
	t.query = wordEnd(buf, t.start, stop, classPath)
	t.end = t.query
	if t.end < len(buf) && buf[t.end] == '?' {
		t.end = wordEnd(buf, t.end, stop, classQuery)
	}
	switch {
	case t.end-t.start > limit:
		return false, fault(414, t.start, "request target too long")
	case t.end == len(buf):
		return false, nil
	case buf[t.end] != ' ':
		return false, badTarget(buf, t.end)
	case t.end == t.start:
		return false, bad(t.end, "empty request target")
	}
	return true, nil
}

// badTarget names the byte that ended a target other than by a space.
func badTarget(buf []byte, pos int) *Error {
	switch c := buf[pos]; {
	case c == '\r' || c == '\n':
		return bad(pos, "request line without an HTTP version")
	case c == '#':
		return bad(pos, "fragment in the request target")
	case c == '\\':
		return bad(pos, "backslash in the path of the request target")
	case c >= 0x80:
		return bad(pos, "byte outside of ASCII in the request target")
	}
	return bad(pos, "control byte in the request target")
}

// The paths of targets that have none; they are never written to.
var (
	slash    = []byte("/")
	asterisk = []byte("*")
)

// parse tells the forms of target apart (RFC 9112 section 3.2) and fills in
// Form, Path, Query and what an absolute or authority form says of the host.
func (t *target) parse(buf []byte, req *message.Request) *Error {
	req.Path = buf[t.start:t.query]
	if t.query < t.end {
		req.HasQuery = true
		req.Query = buf[t.query+1 : t.end]
	}
	switch {
	case req.Method == message.MethodConnect:
		return t.parseAuthority(req)
	case buf[t.start] == '/':
		req.Form = message.FormOrigin
		return nil
	case t.end-t.start == 1 && buf[t.start] == '*':
		if req.Method != message.MethodOptions {
			return bad(t.start, "request target * of a method other than OPTIONS")
		}
		req.Form = message.FormAsterisk
		return nil
	}
	return t.parseAbsolute(req)
}

// parseAuthority reads the target of CONNECT: a host and a port, both needed
// (RFC 9110 section 9.3.6).
func (t *target) parseAuthority(req *message.Request) *Error {
	h, reason := parseHost(req.Target)
	switch {
	case reason != "":
		return bad(t.start, "CONNECT target: "+reason)
	case h.port <= 0:
		return bad(t.start, "CONNECT target that is not host:port")
	}
	req.Form = message.FormAuthority
	req.Authority, req.Host = req.Target, h.name
	req.Path = nil
	return nil
}

// parseAbsolute reads "http://" or "https://", an authority, and the path.
func (t *target) parseAbsolute(req *message.Request) *Error {
	var scheme int
	switch {
	case hasPrefixFold(req.Path, "http://"):
		scheme = len("http://")
	case hasPrefixFold(req.Path, "https://"):
		scheme = len("https://")
		req.HTTPS = true
	default:
		return bad(t.start, "request target that is neither a path nor an http URL")
	}
	authority := req.Path[scheme:]
	req.Path = nil
	for i, c := range authority {
		if c == '/' {
			authority, req.Path = authority[:i], authority[i:]
			break
		}
	}
	h, reason := parseHost(authority)
	switch {
	case reason != "":
		return bad(t.start, "host of the request target: "+reason)
	case len(h.name) == 0:
		return bad(t.start, "request target without a host")
	}
	req.Form = message.FormAbsolute
	req.Authority, req.Host = authority, h.name
	t.defaultPath(req)
	return nil
}

// defaultPath gives an absolute target without a path the one it stands for.
func (t *target) defaultPath(req *message.Request) {
	switch {
	case len(req.Path) > 0:
	case req.Method == message.MethodOptions && !req.HasQuery:
		req.Form, req.Path = message.FormAsterisk, asterisk
	default:
		req.Path = slash
	}
}

// hasPrefixFold reports whether b begins, in any ASCII case, with a prefix of
// lower-case letters, ":" and "/".
func hasPrefixFold(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && message.EqualToken(b[:len(prefix)], prefix)
}
