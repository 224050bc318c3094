package http1

import (
	"bufio"
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/headgate/headgate/dataplane/http1/testdata/corpus"
	"github.com/headgate/headgate/dataplane/message"
)

// stricter holds the reasons for which we refuse what net/http takes. Any other
// difference is a fault of ours or theirs, to be looked at.
var stricter = []string{
	// The request line.
	"too many empty lines before the request line",
	"method too long",
	"request target too long",
	"empty request target",
	"fragment in the request target",
	"backslash in the path of the request target",
	"byte outside of ASCII in the request target",
	"request target that is neither a path nor an http URL",
	"request target * of a method other than OPTIONS",
	"request target without a host",
	"host of the request target: ",
	"CONNECT target",
	"HTTP version not supported",
	"HTTP/2 connection preface",
	"HTTP version of the response not supported",
	"LF without CR in the request line",
	"CR without LF after the HTTP version",
	"malformed status in the status line",
	"control byte in the status line",
	"status below 100",
	// Host.
	"no Host field",
	"empty Host field",
	"Host field: ",
	// Fields.
	"folded field line",
	"LF without CR in a field value",
	"LF without CR in place of a field line",
	"CR without LF in a field value",
	"control byte in a field value",
	"NUL in a field value",
	"too many field lines",
	"request head too large",
	"response head too large",
	"white space after a field name",
	// Framing.
	"both Transfer-Encoding and Content-Length",
	"Transfer-Encoding in HTTP/1.0",
	"more than one Content-Length field",
	"Content-Length that is not a number",
	"Content-Length too large",
	"empty Content-Length field",
	"Content-Length values that differ",
	"content in a CONNECT request",
	"Expect field other than 100-continue",
	// Framing that net/http does not look at in a response without a body, or in HTTP/1.0.
	"more than one Transfer-Encoding field",
	"transfer coding other than chunked",
	"Transfer-Encoding that is not chunked, once",
	"malformed Transfer-Encoding field",
}

func isStricter(reason string) bool {
	for _, prefix := range stricter {
		if strings.HasPrefix(reason, prefix) {
			return true
		}
	}
	return false
}

// checkRefusal holds that what net/http takes is refused by us for a documented
// reason, at the latest when the head ends.
func checkRefusal(t *testing.T, in []byte, parse func(in []byte) (int, error)) {
	t.Helper()
	_, err := parse(in)
	if err == nil {
		_, err = parse(append(bytes.Clone(in), "\r\n\r\n"...))
	}
	if e, ok := err.(*Error); !ok {
		t.Errorf("%q: net/http takes it, we say %v", in, err)
	} else if !isStricter(e.Reason) {
		t.Errorf("%q: net/http takes it, we do not: %s", in, e.Reason)
	}
}

func seedHeads(f *testing.F, classes []corpus.Class) {
	for _, class := range classes {
		for _, c := range class.Cases {
			if len(c.In) < 1000 {
				f.Add([]byte(c.In))
			}
		}
	}
	f.Add([]byte(browserHead))
	f.Add([]byte(curlHead))
}

// FuzzRequestHead holds that net/http takes each request that we take, and sees
// the same in it.
func FuzzRequestHead(f *testing.F) {
	seedHeads(f, corpus.Requests())
	f.Fuzz(checkRequest)
}

func checkRequest(t *testing.T, in []byte) {
	var req message.Request
	n, err := ParseRequest(in, &req, nil)
	skipped, _ := skipEmptyLines(in)
	theirs, theirErr := http.ReadRequest(bufio.NewReader(bytes.NewReader(in[skipped:])))
	if n == 0 {
		if theirErr == nil {
			checkRefusal(t, in, func(in []byte) (int, error) { return ParseRequest(in, &req, nil) })
		}
		return
	}
	if err != nil {
		t.Fatalf("%d bytes and %v", n, err)
	}
	checkPrefixes(t, in[:n], func(in []byte) (int, error) { return ParseRequest(in, new(message.Request), nil) })
	if req.Form == message.FormOrigin || req.Form == message.FormAbsolute {
		if _, err := message.NormalizePath(nil, req.Path, true); err != nil {
			return // refused by whoever routes it
		}
	}
	if theirErr == nil {
		compareRequests(t, in, &req, theirs)
	} else if !theyAloneRefuse(theirErr) {
		t.Fatalf("%q: we take it, net/http does not: %v", in, theirErr)
	}
}

// theyAloneRefuse is true of a Trailer field that announces a framing field,
// which net/http refuses: a hint that we do not act upon.
func theyAloneRefuse(err error) bool { return strings.Contains(err.Error(), "bad trailer key") }

// checkPrefixes holds that a whole head has one verdict, and each part of it
// none.
func checkPrefixes(t *testing.T, head []byte, parse func(in []byte) (int, error)) {
	t.Helper()
	if n, err := parse(head); n != len(head) || err != nil {
		t.Fatalf("%q alone: %d, %v", head, n, err)
	}
	for cut := 1; cut < len(head); cut++ {
		if n, err := parse(head[:cut]); n != 0 || err != nil {
			t.Fatalf("%q cut at %d: %d, %v", head, cut, n, err)
		}
	}
}

func compareRequests(t *testing.T, in []byte, req *message.Request, theirs *http.Request) {
	t.Helper()
	if theirs.Method != string(req.MethodName) || theirs.RequestURI != string(req.Target) ||
		theirs.ProtoMajor != int(req.Major) || theirs.ProtoMinor != int(req.Minor) {
		t.Errorf("%q: net/http reads %s %s", in, theirs.Method, theirs.RequestURI)
	}
	if theirs.Host != string(req.Authority) {
		t.Errorf("%q: host %q, net/http has %q", in, req.Authority, theirs.Host)
	}
	if path, err := url.PathUnescape(string(req.Path)); err != nil || req.Form == message.FormOrigin && path != theirs.URL.Path {
		t.Errorf("%q: path %q, net/http has %q", in, path, theirs.URL.Path)
	}
	if req.Form != message.FormAuthority && theirs.URL.RawQuery != string(req.Query) {
		t.Errorf("%q: query %q, net/http has %q", in, req.Query, theirs.URL.RawQuery)
	}
	compareLengths(t, in, req.Body, theirs.ContentLength, theirs.TransferEncoding, 0)
	compareFields(t, in, &req.Fields, theirs.Header)
}

// compareLengths takes the length that net/http gives a message without one.
func compareLengths(t *testing.T, in []byte, body message.Body, length int64, coding []string, unknown int64) {
	t.Helper()
	want := unknown
	switch body.Kind {
	case message.BodyLength:
		want = body.Length
	case message.BodyChunked:
		want = -1
	}
	chunked := len(coding) == 1 && coding[0] == "chunked"
	if length != want || chunked != (body.Kind == message.BodyChunked) {
		t.Errorf("%q: body %s, net/http has length %d, coding %q", in, bodySummary(body), length, coding)
	}
}

// compareFields holds that each of our fields is theirs and the reverse, but for
// the framing ones, which net/http takes out.
func compareFields(t *testing.T, in []byte, fields *message.Fields, theirs http.Header) {
	t.Helper()
	ours := http.Header{}
	for _, field := range fields.All() {
		ours.Add(string(field.Name), string(field.Value))
	}
	for _, name := range []string{"Host", "Content-Length", "Transfer-Encoding", "Trailer"} {
		ours.Del(name)
		theirs.Del(name)
	}
	if ours.Get("Pragma") == "no-cache" && ours["Cache-Control"] == nil {
		theirs.Del("Cache-Control") // net/http makes one
	}
	for name, values := range ours {
		if strings.Join(values, "\n") != strings.Join(theirs[name], "\n") {
			t.Errorf("%q: %s: %q, net/http has %q", in, name, values, theirs[name])
		}
	}
	for name := range theirs {
		if ours[name] == nil && !strings.Contains(name, "_") {
			t.Errorf("%q: net/http has a field %q", in, name)
		}
	}
}
