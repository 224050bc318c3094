// Package corpus holds raw bytes of HTTP/1.1 and what is to be made of them, for
// tests: those of the parser, and those that send the same bytes through the
// whole proxy. It owns the verdicts and must know nothing of who is held to them.
package corpus

// Case is bytes from a peer and what is to be made of them: a summary of the
// head or body; a status and a reason, if they are refused; or "incomplete".
type Case struct {
	In   string
	Want string
}

// Class is the cases of one rule.
type Class struct {
	Rule  string // what it is about, and the section that says so
	Cases []Case
}

// Pieces of heads that most cases share.
const (
	start = "GET / HTTP/1.1\r\n"
	hostH = "Host: h\r\n"
	end   = "\r\n"
	okGet = "GET / @h none"
)

// Requests are heads of requests. Want is method, path and query, host, length
// of the body, and what else was understood.
func Requests() []Class {
	var all []Class
	for _, part := range [][]Class{lineCases, targetCases, fieldCases, framingCases} {
		all = append(all, part...)
	}
	return all
}
