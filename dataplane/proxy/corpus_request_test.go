package proxy_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/dataplane/http1"
	"github.com/headgate/headgate/dataplane/http1/testdata/corpus"
	"github.com/headgate/headgate/dataplane/message"
)

// sentinel is a request that follows each case. If the two parsers along the way
// do not agree where the case ends, it does not arrive as it is.
const sentinel = "GET /sentinel HTTP/1.1\r\nHost: sentinel\r\nConnection: close\r\n\r\n"

// TestRequestCorpus sends the corpus of the parser through the engine. What the
// parser refuses gets an error and the end, and nothing of it reaches the
// backend; what it takes reaches the backend as one request that net/http and
// our parser read alike, and the request behind it too.
func TestRequestCorpus(t *testing.T) {
	for _, class := range corpus.Requests() {
		t.Run(class.Rule, func(t *testing.T) {
			t.Parallel()
			for _, c := range class.Cases {
				runRequestCase(t, c)
			}
		})
	}
}

func runRequestCase(t *testing.T, c corpus.Case) {
	t.Helper()
	b := keepLedger(t)
	g := start(t, single(b.address))
	var req message.Request
	n, err := http1.ParseRequest([]byte(c.In), &req, nil)
	var fault *http1.Error
	switch {
	case errors.Is(err, http1.ErrHTTP2Preface):
		nothingAnswered(t, g, c.In+sentinel)
	case errors.As(err, &fault):
		if foreign, _ := http1.Foreign([]byte(c.In + sentinel)); foreign {
			closedAtOnce(t, g, c.In+sentinel, fault.Status)
		} else {
			refusedWith(t, g, c.In+sentinel, fault.Status)
		}
	case n == 0:
		nothingAnswered(t, g, c.In)
	default:
		if status := refusedLater(&req); status != 0 {
			refusedWith(t, g, c.In[:n]+sentinel, status)
			break
		}
		takenCase(t, g, b, c.In[:n], &req)
		return
	}
	if _, raw := b.closed(g); raw != "" {
		t.Errorf("%.300q\nreached the backend as %.300q", c.In, raw)
	}
}

// refusedLater is the status of a request that is well-formed and yet not
// forwarded, or 0.
func refusedLater(req *message.Request) int {
	if req.Method == message.MethodConnect {
		return 405
	}
	if _, err := normalized(req); err != nil {
		return 400
	}
	return 0
}

func normalized(req *message.Request) (string, error) {
	if req.Form == message.FormAsterisk {
		return "*", nil
	}
	path, err := message.NormalizePath(nil, req.Path, true)
	return string(path), err
}

// refusedWith sends bytes and wants one answer of a status, and the end.
func refusedWith(t *testing.T, g *gate, in string, status int) {
	t.Helper()
	client := g.dial()
	defer client.close()
	client.send(in)
	got, err := client.rest()
	if err != nil || !strings.HasPrefix(got, fmt.Sprintf("HTTP/1.1 %d ", status)) || strings.Count(got, "HTTP/1.1 ") != 1 ||
		!strings.Contains(got, "\r\nConnection: close\r\n") || !strings.Contains(got, "\r\nProxy-Status: headgate; error=http_request_error;") {
		t.Errorf("%.300q\n got %v after %q, want one answer of status %d and the end", in, err, got, status)
	}
}

// closedAtOnce sends what is no request at all and wants the end without a byte,
// though it is recorded like a bad request.
func closedAtOnce(t *testing.T, g *gate, in string, status int) {
	t.Helper()
	client := g.dial()
	defer client.close()
	client.send(in)
	if got, _ := client.rest(); got != "" {
		t.Errorf("%.300q\n got %q, want nothing", in, got)
	}
	if r := g.recent(1)[0]; r.Status != status || r.Reason != "http_request_error" {
		t.Errorf("%.300q\n recorded as %s", in, recordLine(&r))
	}
}

// nothingAnswered sends what is no request of HTTP/1 yet, and leaves.
func nothingAnswered(t *testing.T, g *gate, in string) {
	t.Helper()
	client := g.dial()
	defer client.close()
	client.send(in)
	client.closeWrite()
	if got, _ := client.rest(); strings.HasPrefix(got, "HTTP/") {
		t.Errorf("%.300q\n got %q", in, got)
	}
}

// hugeBody is a length that nobody sends to its end.
const hugeBody = 1 << 40

// takenCase holds what becomes of a request that is taken.
func takenCase(t *testing.T, g *gate, b *ledger, head string, req *message.Request) {
	t.Helper()
	client := g.dial()
	defer client.close()
	if req.Body.Length >= hugeBody {
		client.send(head + "hello")
		<-b.heads
		client.close()
		if whole, _ := b.closed(g); len(whole) != 0 {
			t.Errorf("%.300q\nreached the backend whole", head)
		}
		return
	}
	body, coded := bodyFor(req.Body)
	client.send(head + coded + sentinel)
	got, err := client.rest()
	answers := 2
	if req.Close {
		answers = 1
	}
	if err != nil || strings.Count(got, "HTTP/1.1 200 OK\r\n") != answers {
		t.Errorf("%.300q\n got %v after %q, want %d answers", head, err, got, answers)
	}
	whole, raw := b.closed(g)
	if len(whole) != answers || answers == 2 && (whole[1].RequestURI != "/sentinel" || whole[1].Host != "sentinel") {
		t.Errorf("%.300q\nreached the backend as %.400q", head, raw)
		return
	}
	sameMeaning(t, req, body, b.address, whole[0], raw)
}

// bodyFor is a body for a head, and how it is sent.
func bodyFor(b message.Body) (data, coded string) {
	switch b.Kind {
	case message.BodyChunked:
		return "hello", "5\r\nhello\r\n0\r\n\r\n"
	case message.BodyLength:
		data = strings.Repeat("x", int(b.Length))
	}
	return data, data
}

// sameMeaning compares what was sent with what net/http reads in the backend,
// and that with what our own parser reads there.
func sameMeaning(t *testing.T, sent *message.Request, body, address string, theirs entry, raw string) {
	t.Helper()
	var ours message.Request
	// What the proxy adds may go over the bounds that were kept by what came.
	n, err := http1.ParseRequest([]byte(raw), &ours, &http1.Limits{HeadBytes: 1 << 20, Fields: 1000})
	if err != nil || n == 0 {
		t.Errorf("our parser does not take %.300q: %v", raw, err)
		return
	}
	target, _ := normalized(sent)
	if sent.HasQuery {
		target += "?" + string(sent.Query)
	}
	host := string(sent.Authority)
	if host == "" {
		host = address
	}
	for what, values := range map[string][3]string{
		"method": {string(sent.MethodName), theirs.Method, string(ours.MethodName)},
		"target": {target, theirs.RequestURI, string(ours.Target)},
		"host":   {host, theirs.Host, string(ours.Authority)},
		"length": {sentLength(sent), theirLength(theirs.Request), fmt.Sprint(ours.Body.Kind, ours.Body.Length)},
		"body":   {body, theirs.body, body},
		"TE":     {fmt.Sprint(sent.TETrailers), fmt.Sprint(theirs.Header.Get("TE") == "trailers"), fmt.Sprint(ours.TETrailers)},
		"fields": {forwardedFields(sent), theirFields(theirs.Header), forwardedFields(&ours)},
	} {
		if values[0] != values[1] || values[0] != values[2] {
			t.Errorf("%s: sent %.300q, net/http reads %.300q, we read %.300q in\n%.300q", what, values[0], values[1], values[2], raw)
		}
	}
}

// sentLength is the framing that an upstream is to see: where a method asks for a body
// and there is none, it is told so.
func sentLength(sent *message.Request) string {
	kind := sent.Body.Kind
	if kind == message.BodyNone {
		switch sent.Method {
		case message.MethodPost, message.MethodPut, message.MethodPatch:
			kind = message.BodyLength
		}
	}
	return fmt.Sprint(kind, sent.Body.Length)
}

func theirLength(r *http.Request) string {
	switch {
	case len(r.TransferEncoding) > 0:
		return fmt.Sprint(message.BodyChunked, 0)
	case r.ContentLength > 0 || r.Header.Get("Content-Length") != "":
		return fmt.Sprint(message.BodyLength, r.ContentLength)
	}
	return fmt.Sprint(message.BodyNone, 0)
}

// ownFields are those that a proxy writes or takes out, which the dialogues hold.
var ownFields = map[string]bool{
	"host": true, "connection": true, "content-length": true, "transfer-encoding": true, "upgrade": true, "te": true,
	"keep-alive": true, "x-forwarded-for": true, "x-forwarded-proto": true, "x-forwarded-host": true,
	"expect": true,
}

// forwardedFields are the other fields of a request in a form to be compared.
func forwardedFields(req *message.Request) string {
	var lines []string
	for _, f := range req.Fields.All() {
		if name := strings.ToLower(string(f.Name)); !ownFields[name] && !f.Underscore() {
			lines = append(lines, fmt.Sprintf("%s=%q", name, f.Value))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func theirFields(h http.Header) string {
	var lines []string
	for name, values := range h {
		for _, v := range values {
			if name = strings.ToLower(name); !ownFields[name] {
				lines = append(lines, fmt.Sprintf("%s=%q", name, v))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

const chunkedHead = "POST /chunked HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"

// TestChunkedCorpus sends chunked bodies: with the head, and once the backend has
// the head. A broken one never reaches the backend as a whole request.
func TestChunkedCorpus(t *testing.T) {
	for _, class := range corpus.Chunked {
		t.Run(class.Rule, func(t *testing.T) {
			t.Parallel()
			for _, c := range class.Cases {
				runChunkedCase(t, c, false)
				runChunkedCase(t, c, true)
			}
		})
	}
}

func runChunkedCase(t *testing.T, c corpus.Case, streamed bool) {
	t.Helper()
	b := keepLedger(t)
	g := start(t, single(b.address))
	client := g.dial()
	defer client.close()
	if streamed {
		client.send(chunkedHead)
		<-b.heads
		client.split = len(c.In)/50 + 1
		_ = client.write([]byte(c.In)) // the end may come before all of it is sent
	} else {
		client.send(chunkedHead + c.In)
	}
	data, n, err := decodeChunked(c.In)
	switch {
	case err != nil:
		refusedChunks(t, client, c, err)
	case n == 0:
		client.close()
	default:
		if status := client.head(); !strings.HasPrefix(status, "HTTP/1.1 200 OK\r\n") {
			t.Errorf("%.200q: %q", c.In, status)
		}
		client.close()
	}
	whole, raw := b.closed(g)
	switch {
	case n == 0 && len(whole) > 0:
		t.Errorf("%.200q\nreached the backend as %.300q", c.In, raw)
	case err != nil && !streamed && len(c.In) < 8<<10 && raw != "":
		t.Errorf("%.200q\nreached the backend in part as %.300q", c.In, raw)
	case n > 0 && (len(whole) != 1 || whole[0].body != data):
		t.Errorf("%.200q\nreached the backend as %.300q", c.In, raw)
	case n > 0:
		sameTrailers(t, c, whole[0].Trailer)
	}
}

// refusedChunks wants an answer that tells the fault, and the end. Where the
// bytes are many the end may cut it short, as the client is still sending.
func refusedChunks(t *testing.T, client *peer, c corpus.Case, fault error) {
	t.Helper()
	var wire *http1.Error
	if !errors.As(fault, &wire) {
		t.Fatal(fault)
	}
	got, err := client.rest()
	if err != nil || !strings.HasPrefix(got, fmt.Sprintf("HTTP/1.1 %d ", wire.Status)) || strings.Count(got, "HTTP/1.1 ") != 1 {
		t.Errorf("%.200q\n got %v after %q, want one answer of status %d and the end", c.In, err, got, wire.Status)
	}
}

// decodeChunked is the data of a chunked body and how many bytes it takes, 0 if
// it has no end.
func decodeChunked(in string) (string, int, error) {
	var d http1.Decoder
	d.Reset(message.Body{Kind: message.BodyChunked}, nil)
	var data []byte
	for used := 0; ; {
		piece, n, err := d.Next([]byte(in[used:]))
		data = append(data, piece...)
		used += n
		switch {
		case err != nil:
			return "", 0, err
		case d.Done():
			return string(data), used, nil
		case used == len(in):
			return "", 0, nil
		}
	}
}

// sameTrailers compares the trailers in the backend with those that the corpus
// says are kept.
func sameTrailers(t *testing.T, c corpus.Case, got http.Header) {
	t.Helper()
	n := 0
	for name, values := range got {
		n++
		if !strings.Contains(strings.ToLower(c.Want), fmt.Sprintf(" %s=%q", strings.ToLower(name), values[0])) {
			t.Errorf("%.200q: trailer %s: %q", c.In, name, values)
		}
	}
	if want := strings.Count(c.Want, "="); n != want {
		t.Errorf("%.200q: %d trailers, want %d", c.In, n, want)
	}
}
