package http1

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate/dataplane/http1/testdata/corpus"
	"github.com/headgate/headgate/dataplane/message"
)

// Pieces of heads that most cases share.
const (
	start = "GET / HTTP/1.1\r\n"
	hostH = "Host: h\r\n"
	end   = "\r\n"
	okGet = "GET / @h none"
)

// eachCase runs a test for every case, and for what it says when the bytes come
// in two or more pieces.
func eachCase(t *testing.T, classes []corpus.Class, run func(t *testing.T, c corpus.Case)) {
	seen := map[string]bool{}
	for _, class := range classes {
		t.Run(class.Rule, func(t *testing.T) {
			for _, c := range class.Cases {
				if seen[c.In] {
					t.Errorf("%q is there twice", c.In)
				}
				seen[c.In] = true
				run(t, c)
			}
		})
	}
}

// summary is one line on a request.
func summary(req *message.Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", req.MethodName, req.Path)
	if req.HasQuery {
		fmt.Fprintf(&b, "?%s", req.Query)
	}
	fmt.Fprintf(&b, " @%s %s", req.Authority, bodySummary(req.Body))
	flag := func(on bool, name string) {
		if on {
			b.WriteString(" " + name)
		}
	}
	flag(req.Minor == 0, "1.0")
	flag(req.HTTPS, "https")
	flag(req.Close, "close")
	flag(req.Continue, "continue")
	flag(req.TETrailers, "trailers")
	flag(req.Upgrade != nil, "upgrade="+string(req.Upgrade))
	return b.String()
}

func responseSummary(resp *message.Response) string {
	s := fmt.Sprintf("%d %s %s", resp.Status, resp.Reason, bodySummary(resp.Body))
	if resp.Close {
		s += " close"
	}
	if resp.Upgrade != nil {
		s += " upgrade=" + string(resp.Upgrade)
	}
	return s
}

func bodySummary(body message.Body) string {
	switch body.Kind {
	case message.BodyLength:
		return fmt.Sprint(body.Length)
	case message.BodyChunked:
		return "chunked"
	case message.BodyUntilClose:
		return "until-close"
	}
	return "none"
}

// verdict is the summary, the fault, or "incomplete".
func verdict(t *testing.T, n int, err error, summary func() string) string {
	t.Helper()
	var e *Error
	switch {
	case errors.As(err, &e):
		if n != 0 {
			t.Errorf("an error and %d bytes", n)
		}
		return fmt.Sprintf("%d %s", e.Status, e.Reason)
	case err != nil:
		t.Errorf("error of type %T", err)
	case n == 0:
		return "incomplete"
	}
	return summary()
}

// inPieces parses longer and longer prefixes of in until one has a verdict, as a
// connection does, and returns that. Short inputs grow by a byte at a time.
func inPieces(in string, parse func(buf []byte) string) string {
	buf := []byte(in)
	step := max(1, len(in)/150)
	for n := 1; n <= len(in); n = min(n+step, max(len(in), n+1)) {
		// Without room behind it: what lies there must not matter.
		if v := parse(buf[:n:n]); v != "incomplete" {
			return v
		}
	}
	return "incomplete"
}

func requestVerdict(t *testing.T, in []byte, lim *Limits) string {
	t.Helper()
	var req message.Request
	n, err := ParseRequest(in, &req, lim)
	return verdict(t, n, err, func() string { return summary(&req) })
}

func responseVerdict(t *testing.T, in []byte, method message.Method) string {
	t.Helper()
	var resp message.Response
	n, err := ParseResponse(in, &resp, nil, method)
	return verdict(t, n, err, func() string { return responseSummary(&resp) })
}

// TestRequests holds what the corpus says, for the bytes at once and for every
// way to cut them off.
func TestRequests(t *testing.T) {
	eachCase(t, corpus.Requests(), func(t *testing.T, c corpus.Case) {
		if got := requestVerdict(t, []byte(c.In), nil); got != c.Want {
			t.Errorf("%q\n got %s\nwant %s", c.In, got, c.Want)
		}
		got := inPieces(c.In, func(buf []byte) string { return requestVerdict(t, buf, nil) })
		if got != c.Want {
			t.Errorf("%q in pieces\n got %s\nwant %s", c.In, got, c.Want)
		}
	})
}

func TestResponses(t *testing.T) {
	eachCase(t, corpus.Responses, func(t *testing.T, c corpus.Case) {
		method, in := message.MethodGet, c.In
		if name, rest, ok := strings.Cut(c.In, "|"); ok {
			method, in = message.ParseMethod([]byte(name)), rest
		}
		if got := responseVerdict(t, []byte(in), method); got != c.Want {
			t.Errorf("%q\n got %s\nwant %s", c.In, got, c.Want)
		}
		got := inPieces(in, func(buf []byte) string { return responseVerdict(t, buf, method) })
		if got != c.Want {
			t.Errorf("%q in pieces\n got %s\nwant %s", c.In, got, c.Want)
		}
	})
}

func TestCorpusIsLarge(t *testing.T) {
	n := 0
	for _, part := range [][]corpus.Class{corpus.Requests(), corpus.Responses, corpus.Chunked} {
		for _, class := range part {
			n += len(class.Cases)
		}
	}
	if n < 300 {
		t.Errorf("%d cases", n)
	}
}
