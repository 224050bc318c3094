package http1

import (
	"bytes"

	"github.com/headgate/headgate/dataplane/message"
)

// maxForeignLine is how much of a first line is waited for to see whether it is
// one of HTTP, in bytes.
const maxForeignLine = 1 << 10

// Foreign tells, of bytes that ParseRequest has refused and that begin a
// connection, whether their sender speaks something else than HTTP/1, rather than
// that badly: then an answer of HTTP/1 would mean nothing to it. The first line
// of a request that is only malformed begins with a method that is known, has a
// word that begins with "HTTP/", or its second word is a target in one of the forms of RFC 9112 section 3.2. A line
// of the PROXY protocol that is not believed stands before a request, whose sender
// is to hear of it.
//
// A line of one or two words is answered too: whoever sent it can only guess.
//
// known is false while the line has not come to its end and may yet show what it
// is. Bytes that are no text are taken as they are there.
func Foreign(buf []byte) (foreign, known bool) {
	start, fault := skipEmptyLines(buf)
	if fault != nil || start == len(buf) {
		return false, fault != nil
	}
	line, _, whole := bytes.Cut(buf[start:], []byte("\n"))
	switch {
	case looksLikeRequest(line):
		return false, true
	case whole && len(bytes.TrimSpace(line)) == 0:
		return false, true
	}
	if whole && isText(line[0]) && len(bytes.Fields(line)) < 3 {
		return false, true // too few words for a line of a request, to which servers of HTTP say 400
	}
	known = whole || len(line) > maxForeignLine || !isText(line[0])
	return known, known
}

// isText reports whether a byte may begin a line of text.
func isText(c byte) bool {
	return c >= ' ' && c < 0x7f || c == '\t' || c == '\r'
}

// startsHTTP reports whether the first word of a line is a method of HTTP, or the
// beginning of a line of the PROXY protocol.
func startsHTTP(word []byte) bool {
	return message.ParseMethod(word) != message.MethodOther || string(word) == "PROXY"
}

// looksLikeRequest reports whether a line, or its beginning, has what shows that a
// request was meant.
func looksLikeRequest(line []byte) bool {
	method := []byte(nil)
	for n := 0; ; n++ {
		word, rest := nextWord(line)
		switch {
		case len(word) == 0:
			return false
		case hasPrefixFold(word, "http/"):
			return true
		case n == 0 && len(rest) > 0 && startsHTTP(word):
			return true
		case n == 0:
			method = word
		case n == 1 && looksLikeTarget(method, word):
			return true
		}
		line = rest
	}
}

// nextWord cuts off the first word of a line.
func nextWord(line []byte) (word, rest []byte) {
	line = bytes.TrimLeft(line, " \t\v\f\r")
	if end := bytes.IndexAny(line, " \t\v\f\r"); end >= 0 {
		return line[:end], line[end:]
	}
	return line, nil
}

func looksLikeTarget(method, word []byte) bool {
	return word[0] == '/' || string(word) == "*" || bytes.Contains(word, []byte("://")) || string(method) == "CONNECT"
}
