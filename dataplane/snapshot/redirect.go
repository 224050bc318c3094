package snapshot

import (
	"strconv"

	"github.com/headgate/headgate/dataplane/message"
)

// Location appends the value of the Location field for a request to dst. path is the
// normalized path of the request. What the redirect leaves out is the
// request's: the scheme, the host, the port unless the scheme changes it, and
// path and query together; a path of the redirect brings its own query or none.
//
// A redirect of the path alone is written as a path: it stays true behind a
// proxy that changes scheme or host. A request that names no host cannot be
// given an absolute URL, and gets a path too.
func (r *Redirect) Location(dst []byte, req *message.Request, path []byte) []byte {
	if r.Scheme != "" || r.Host != "" || r.Port != 0 {
		dst = r.appendOrigin(dst, req)
	}
	if r.Path != "" {
		return append(dst, r.Path...)
	}
	dst = appendPath(dst, path)
	if req.HasQuery {
		dst = append(dst, '?')
		dst = append(dst, req.Query...)
	}
	return dst
}

// appendPath keeps a path from being read as an authority: a reference that
// begins with "//" names a host (RFC 3986 section 4.2).
func appendPath(dst, path []byte) []byte {
	if len(dst) == 0 && len(path) > 1 && path[0] == '/' && path[1] == '/' {
		dst = append(dst, "/."...)
	}
	return append(dst, path...)
}

// appendOrigin writes scheme, host and port.
func (r *Redirect) appendOrigin(dst []byte, req *message.Request) []byte {
	host := r.Host
	if host == "" {
		host = string(req.Host)
	}
	if host == "" {
		return dst
	}
	scheme := r.Scheme
	if scheme == "" {
		scheme = requestScheme(req)
	}
	dst = append(dst, scheme...)
	dst = append(dst, "://"...)
	dst = append(dst, host...)
	return append(dst, r.port(req, scheme)...)
}

// port is ":" and the port, or nothing where it is the scheme's own.
func (r *Redirect) port(req *message.Request, scheme string) string {
	port := ""
	switch {
	case r.Port != 0:
		port = strconv.Itoa(r.Port)
	case r.Scheme == "":
		port = requestPort(req)
	}
	if port == "" || scheme == "http" && port == "80" || scheme == "https" && port == "443" {
		return ""
	}
	return ":" + port
}

func requestScheme(req *message.Request) string {
	if req.HTTPS {
		return "https"
	}
	return "http"
}

// requestPort is what follows the host in the authority, without the colon.
func requestPort(req *message.Request) string {
	if len(req.Authority) <= len(req.Host)+1 {
		return ""
	}
	return string(req.Authority[len(req.Host)+1:])
}
