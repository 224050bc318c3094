package http1

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/dataplane/http1/testdata/corpus"
	"github.com/headgate/headgate/dataplane/message"
)

func fieldLines(f *message.Fields) []string {
	var lines []string
	for _, field := range f.All() {
		lines = append(lines, fmt.Sprintf("%s=%s", field.Name, field.Value))
	}
	return lines
}

func TestRequestParts(t *testing.T) {
	const in = "\r\nPOST /a%2fb?c=d HTTP/1.1\r\nHost: h:81\r\nX-A:  b \r\nX_B: c\r\nx-a:\r\nContent-Length: 3\r\n\r\nabc"
	var req message.Request
	n, err := ParseRequest([]byte(in), &req, nil)
	if err != nil || in[n:] != "abc" {
		t.Fatal(n, err)
	}
	if req.Method != message.MethodPost || string(req.Target) != "/a%2fb?c=d" || string(req.Host) != "h" ||
		req.Form != message.FormOrigin || req.Major != 1 || req.Minor != 1 {
		t.Errorf("%+v", req)
	}
	want := []string{"Host=h:81", "X-A=b", "x-a=", "Content-Length=3"}
	if got := fieldLines(&req.Fields); !slices.Equal(got, want) {
		t.Errorf("fields %q, want %q", got, want)
	}
}

// A head is emptied before it is read: nothing of the last one is left.
func TestRequestIsReset(t *testing.T) {
	var req message.Request
	first := "POST https://x/?q HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\nTE: trailers\r\n" +
		"Connection: close, upgrade\r\nUpgrade: websocket\r\n\r\n"
	if _, err := ParseRequest([]byte(first), &req, nil); err != nil {
		t.Fatal(err)
	}
	if got := requestVerdict(t, []byte(first), nil); got != "POST /?q @x 9 https close continue trailers upgrade=websocket" {
		t.Errorf("got %s", got)
	}
	if _, err := ParseRequest([]byte(start+hostH+end), &req, nil); err != nil {
		t.Fatal(err)
	}
	if got := summary(&req); got != okGet || req.Fields.Len() != 1 || req.Fields.Has(message.TE) {
		t.Errorf("second request: %s %v", got, fieldLines(&req.Fields))
	}
}

// What was read before a fault is there for the log.
func TestRefusedRequestIsNamed(t *testing.T) {
	var req message.Request
	_, err := ParseRequest([]byte("GET /secret HTTP/1.1\r\nHost: a b\r\n\r\n"), &req, nil)
	var e *Error
	if !errors.As(err, &e) || string(req.Target) != "/secret" || string(req.MethodName) != "GET" {
		t.Fatalf("%v, target %q", err, req.Target)
	}
	if got := e.Error(); got != "http1: Host field: byte not allowed in a host (byte 35)" {
		t.Error(got)
	}
	_, err = ParseRequest([]byte("GET /secret HTTP/1.1\r\nHost: a\r\nX\x00: y\r\n\r\n"), &req, nil)
	if !errors.As(err, &e) || e.Offset != strings.IndexByte("GET /secret HTTP/1.1\r\nHost: a\r\nX\x00", 0) {
		t.Errorf("%v", err)
	}
}

func TestPrefaceIsTold(t *testing.T) {
	var req message.Request
	_, err := ParseRequest([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), &req, nil)
	if !errors.Is(err, ErrHTTP2Preface) {
		t.Error(err)
	}
}

func TestLimits(t *testing.T) {
	head := start + hostH + end
	for _, c := range []struct {
		name string
		lim  Limits
		in   string
		want string
	}{
		{"head as large as allowed", Limits{HeadBytes: len(head)}, head + "more", okGet},
		{"head one byte larger", Limits{HeadBytes: len(head) - 1}, head, "431 request head too large"},
		{"head larger, in its first line", Limits{HeadBytes: 5}, head, "431 request head too large"},
		{"head not there yet", Limits{HeadBytes: len(head) + 1}, head[:len(head)-1], "incomplete"},
		{"fields as many as allowed", Limits{Fields: 1}, head, okGet},
		{"one field more", Limits{Fields: 1}, start + hostH + "X: y\r\n\r\n", "431 too many field lines"},
		{"target as long as allowed", Limits{TargetBytes: 1}, head, okGet},
		{"target one byte longer", Limits{TargetBytes: 1}, corpus.GetTarget("/a"), "414 request target too long"},
		{"fault before the end of what is allowed", Limits{HeadBytes: 60}, start + "X y: z\r\n" + hostH + strings.Repeat("a", 60), "400 white space after a field name"},
		{"empty lines count", Limits{HeadBytes: len(head)}, "\r\n" + head, "431 request head too large"},
	} {
		if got := requestVerdict(t, []byte(c.in), &c.lim); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
		got := inPieces(c.in, func(buf []byte) string { return requestVerdict(t, buf, &c.lim) })
		if got != c.want {
			t.Errorf("%s, in pieces: got %s, want %s", c.name, got, c.want)
		}
	}
}

// Equal lengths go on as one number in one line.
func TestResponseLengthsCollapse(t *testing.T) {
	for _, in := range []string{
		corpus.OK("A: b\r\nContent-Length: 5\r\nC: d\r\ncontent-length: 5\r\n"),
		corpus.OK("A: b\r\nContent-Length: 5 , 5\r\nC: d\r\n"),
	} {
		var resp message.Response
		if _, err := ParseResponse([]byte(in), &resp, nil, message.MethodGet); err != nil {
			t.Fatal(err)
		}
		want := []string{"A=b", "Content-Length=5", "C=d"}
		if got := fieldLines(&resp.Fields); !slices.Equal(got, want) {
			t.Errorf("%q: fields %q, want %q", in, got, want)
		}
	}
}

// A response that must not have a body does not say that it has.
func TestBodilessResponseLosesFraming(t *testing.T) {
	for _, in := range []string{
		"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\nA: b\r\n\r\n",
		"HTTP/1.1 100 Continue\r\nTransfer-Encoding: chunked\r\nA: b\r\n\r\n",
	} {
		var resp message.Response
		if _, err := ParseResponse([]byte(in), &resp, nil, message.MethodGet); err != nil {
			t.Fatal(err)
		}
		if got := fieldLines(&resp.Fields); !slices.Equal(got, []string{"A=b"}) || !resp.Close {
			t.Errorf("%q: fields %q, close %v", in, got, resp.Close)
		}
	}
}

// A client cannot name away what we set, whatever it names besides.
func TestConnectionNames(t *testing.T) {
	var req message.Request
	in := corpus.GetField("Connection: X-Forwarded-For, Host, traceparent , X-Hop\r\nConnection: content-length,Cookie\r\n" +
		"X-Hop: a\r\nX-Stay: b\r\n")
	if _, err := ParseRequest([]byte(in), &req, nil); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"X-Forwarded-For": false, "Host": false, "Traceparent": false, "Content-Length": false,
		"x-hop": true, "X-Stay": false, "cookie": true, "X-Hopp": false,
	} {
		id := message.Intern([]byte(name))
		if got := req.Fields.ConnectionNames(id, []byte(name)); got != want {
			t.Errorf("ConnectionNames(%s) = %v", name, got)
		}
	}
}

// A long head that comes a byte at a time is not read from its start each time: the
// work is bounded by lines, not by bytes.
func TestTrickleIsNotReparsed(t *testing.T) {
	head := start + hostH + "X: " + strings.Repeat("y", 60000)
	var req message.Request
	for n := smallHead + 1; n < len(head); n += 1000 {
		if got, err := ParseRequest([]byte(head[:n]), &req, nil); got != 0 || err != nil {
			t.Fatal(got, err)
		}
		if req.Fields.Len() != 0 {
			t.Fatalf("fields were read at %d bytes, before a line ended", n)
		}
	}
}
