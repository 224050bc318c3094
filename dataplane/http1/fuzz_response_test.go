package http1

import (
	"bufio"
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/headgate/headgate/dataplane/http1/testdata/corpus"
	"github.com/headgate/headgate/dataplane/message"
)

// FuzzResponseHead holds that net/http takes each response that we take, and
// sees the same in it.
func FuzzResponseHead(f *testing.F) {
	for _, class := range corpus.Responses {
		for _, c := range class.Cases {
			name, in, ok := strings.Cut(c.In, "|")
			if !ok {
				name, in = "GET", c.In
			}
			f.Add([]byte(in), name == "HEAD")
		}
	}
	f.Add([]byte(nginxHead), false)
	f.Fuzz(checkResponse)
}

func checkResponse(t *testing.T, in []byte, head bool) {
	method := message.MethodGet
	if head {
		method = message.MethodHead
	}
	parse := func(in []byte) (int, error) { return ParseResponse(in, new(message.Response), nil, method) }
	var resp message.Response
	n, err := ParseResponse(in, &resp, nil, method)
	asked := &http.Request{Method: method.String()}
	theirs, theirErr := http.ReadResponse(bufio.NewReader(strings.NewReader(corpus.PlainNames(string(in)))), asked)
	if n == 0 {
		if theirErr == nil {
			checkRefusal(t, in, parse)
		}
		return
	}
	if err != nil {
		t.Fatalf("%d bytes and %v", n, err)
	}
	checkPrefixes(t, in[:n], parse)
	if theirErr == nil {
		compareResponses(t, in, &resp, theirs)
	} else if !theyAloneRefuse(theirErr) && !listsLengths(in[:n]) {
		t.Fatalf("%q: we take it, net/http does not: %v", in, theirErr)
	}
}

// listsLengths is true of equal Content-Length values in one list, or written
// differently, which RFC 9112 section 6.3 allows to be taken as one.
func listsLengths(head []byte) bool {
	var fields message.Fields
	_, err := parseFields(head, bytes.IndexByte(head, '\n')+1, DefaultFields, &fields, false)
	return err == nil && (fields.Count(message.ContentLength) > 1 || bytes.IndexByte(fields.Get(message.ContentLength), ',') >= 0)
}

func compareResponses(t *testing.T, in []byte, resp *message.Response, theirs *http.Response) {
	t.Helper()
	if theirs.StatusCode != resp.Status || theirs.ProtoMinor != int(resp.Minor) {
		t.Errorf("%q: net/http reads %s %d", in, theirs.Proto, theirs.StatusCode)
	}
	if resp.Body.Kind == message.BodyNone {
		if theirs.Body != http.NoBody {
			t.Errorf("%q: net/http sees a body", in)
		}
	} else {
		compareLengths(t, in, resp.Body, theirs.ContentLength, theirs.TransferEncoding, -1)
	}
	if theirs.Close {
		resp.Fields.DelID(message.Connection) // net/http takes it out
		theirs.Header.Del("Connection")
	}
	compareFields(t, in, &resp.Fields, theirs.Header)
}
