package http1

import (
	"strconv"

	"github.com/headgate/headgate/dataplane/message"
)

// LastChunk ends a chunked body that has no trailers.
const LastChunk = "0\r\n\r\n"

// AppendChunkHeader appends the line before a chunk of size bytes, which is at
// least 1. CRLF goes after the data.
func AppendChunkHeader(dst []byte, size int) []byte {
	if size < 1 {
		panic("http1: a chunk without data would end the body")
	}
	dst = strconv.AppendUint(dst, uint64(size), 16)
	return append(dst, '\r', '\n')
}

// AppendTrailers appends the end of a chunked body: the last chunk, the trailer
// fields, which may be nil, and the empty line.
func AppendTrailers(dst []byte, fields *message.Fields) []byte {
	dst = append(dst, "0\r\n"...)
	if fields != nil {
		list := fields.All()
		for i := range list {
			dst = AppendField(dst, list[i].Name, list[i].Value)
		}
	}
	return append(dst, '\r', '\n')
}

// AppendField appends a field line. It checks nothing: name and value were
// parsed, or are ours.
func AppendField(dst, name, value []byte) []byte {
	dst = append(dst, name...)
	dst = append(dst, ':', ' ')
	dst = append(dst, value...)
	return append(dst, '\r', '\n')
}

// AppendStatusLine appends an HTTP/1.1 status line. A nil reason stands for
// StatusText; an empty one that is not nil stays empty.
func AppendStatusLine(dst []byte, status int, reason []byte) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendUint(dst, uint64(status), 10)
	dst = append(dst, ' ')
	if reason == nil {
		dst = append(dst, StatusText(status)...)
	} else {
		dst = append(dst, reason...)
	}
	return append(dst, '\r', '\n')
}

// StatusText is the reason phrase of a status, as registered with IANA, or "".
func StatusText(status int) string {
	if status < 100 || status >= 100+len(statusTexts) {
		return ""
	}
	return statusTexts[status-100]
}

var statusTexts = [512 - 100]string{
	100 - 100: "Continue", 101 - 100: "Switching Protocols", 102 - 100: "Processing", 103 - 100: "Early Hints",
	200 - 100: "OK", 201 - 100: "Created", 202 - 100: "Accepted", 203 - 100: "Non-Authoritative Information",
	204 - 100: "No Content", 205 - 100: "Reset Content", 206 - 100: "Partial Content", 207 - 100: "Multi-Status",
	208 - 100: "Already Reported", 226 - 100: "IM Used",
	300 - 100: "Multiple Choices", 301 - 100: "Moved Permanently", 302 - 100: "Found", 303 - 100: "See Other",
	304 - 100: "Not Modified", 305 - 100: "Use Proxy", 307 - 100: "Temporary Redirect", 308 - 100: "Permanent Redirect",
	400 - 100: "Bad Request", 401 - 100: "Unauthorized", 402 - 100: "Payment Required", 403 - 100: "Forbidden",
	404 - 100: "Not Found", 405 - 100: "Method Not Allowed", 406 - 100: "Not Acceptable",
	407 - 100: "Proxy Authentication Required", 408 - 100: "Request Timeout", 409 - 100: "Conflict", 410 - 100: "Gone",
	411 - 100: "Length Required", 412 - 100: "Precondition Failed", 413 - 100: "Content Too Large",
	414 - 100: "URI Too Long", 415 - 100: "Unsupported Media Type", 416 - 100: "Range Not Satisfiable",
	417 - 100: "Expectation Failed", 421 - 100: "Misdirected Request", 422 - 100: "Unprocessable Content",
	423 - 100: "Locked", 424 - 100: "Failed Dependency", 425 - 100: "Too Early", 426 - 100: "Upgrade Required",
	428 - 100: "Precondition Required", 429 - 100: "Too Many Requests",
	431 - 100: "Request Header Fields Too Large", 451 - 100: "Unavailable For Legal Reasons",
	500 - 100: "Internal Server Error", 501 - 100: "Not Implemented", 502 - 100: "Bad Gateway",
	503 - 100: "Service Unavailable", 504 - 100: "Gateway Timeout", 505 - 100: "HTTP Version Not Supported",
	506 - 100: "Variant Also Negotiates", 507 - 100: "Insufficient Storage", 508 - 100: "Loop Detected",
	511 - 100: "Network Authentication Required",
}
