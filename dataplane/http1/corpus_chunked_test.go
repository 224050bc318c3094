package http1

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate/dataplane/message"
)

var chunkedCorpus = []exampleClass{
	{"chunks (RFC 9112 section 7.1)", []exampleCase{
		{"0\r\n\r\n", `""`},
		{"5\r\nhello\r\n0\r\n\r\n", `"hello"`},
		{"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", `"hello world"`},
		{"A\r\n0123456789\r\n0\r\n\r\n", `"0123456789"`},
		{"a\r\n0123456789\r\n000\r\n\r\n", `"0123456789"`},
		{"0005\r\nhello\r\n0\r\n\r\n", `"hello"`},
		{"0\r\n\r\nGET / HTTP/1.1\r\n", `"" +16`},
		{"5\r\nhel", "incomplete"},
		{"5\r\nhello\r\n0\r\n", "incomplete"},
		{"5\r\nhello\r\n0\r\n\r", "incomplete"},
		{"\r\n", "400 chunk size that is not a hex number"},
		{"g\r\n", "400 chunk size that is not a hex number"},
		{"+5\r\nhello\r\n", "400 chunk size that is not a hex number"},
		{"-5\r\nhello\r\n", "400 chunk size that is not a hex number"},
		{"0x5\r\nhello\r\n", "400 chunk size that is not a hex number"},
		{"5g\r\nhello\r\n", "400 chunk size that is not a hex number"},
		{" 5\r\nhello\r\n", "400 chunk size that is not a hex number"},
		{"5 \r\nhello\r\n", "400 chunk size that is not a hex number"},
		{"5_0\r\nhello\r\n", "400 chunk size that is not a hex number"},
		{"5\nhello\r\n0\r\n\r\n", "400 LF without CR after a chunk size"},
		{"5\rhello\r\n", "400 CR without LF in a chunk line"},
		{"5\r\nhello\n0\r\n\r\n", "400 chunk data longer than its size"},
		{"5\r\nhelloX\r\n0\r\n\r\n", "400 chunk data longer than its size"},
		{"5\r\nhello\rX", "400 CR without LF after chunk data"},
		{"5\r\nhello0\r\n\r\n", "400 chunk data longer than its size"},
		{"6\r\nhello\r\n0\r\n\r\n", "400 chunk data longer than its size"},
		{"7fffffffffffffff\r\nhello", "incomplete"},
		{"8000000000000000\r\nhello", "400 chunk size too large"},
		{"ffffffffffffffff\r\nhello", "400 chunk size too large"},
		{"10000000000000005\r\nhello\r\n", "400 chunk size too large"},
		{"00000000000000005\r\nhello\r\n", "400 chunk size too large"},
	}},
	{"extensions (RFC 9112 section 7.1.1)", []exampleCase{
		{"5;a\r\nhello\r\n0\r\n\r\n", `"hello"`},
		{"5;a=b;c=\"d \\\" ;\t\";e\r\nhello\r\n0;x=y\r\n\r\n", `"hello"`},
		{"5;a=\"\"\r\nhello\r\n0\r\n\r\n", `"hello"`},
		{"5;\r\nhello\r\n", "400 malformed chunk extension"},
		{"5;;a\r\nhello\r\n", "400 malformed chunk extension"},
		{"5; a\r\nhello\r\n", "400 malformed chunk extension"},
		{"5;a =b\r\nhello\r\n", "400 malformed chunk extension"},
		{"5;a=\r\nhello\r\n", "400 malformed chunk extension"},
		{"5;a=b c\r\nhello\r\n", "400 malformed chunk extension"},
		{"5;a=b=c\r\nhello\r\n", "400 malformed chunk extension"},
		{"5;a=\"b\r\nhello\r\n", "400 malformed chunk extension"},
		{"5;a=\"b\"c\r\nhello\r\n", "400 malformed chunk extension"},
		{"5;a=\"b\\\x01\"\r\nhello\r\n", "400 malformed chunk extension"},
		{"5;a\nhello\r\n0\r\n\r\n", "400 malformed chunk extension"},
		{"5;a\x00\r\nhello\r\n", "400 malformed chunk extension"},
		{"5;" + strings.Repeat("a", 9000) + "\r\nhello\r\n0\r\n\r\n", "400 too many bytes of chunk extensions"},
		{strings.Repeat("1;"+strings.Repeat("a", 100)+"\r\nx\r\n", 90), "400 too many bytes of chunk extensions"},
	}},
	{"trailers (RFC 9112 section 7.1.2)", []exampleCase{
		{"0\r\nGrpc-Status: 0\r\n\r\n", `"" Grpc-Status="0"`},
		{"1\r\nx\r\n0\r\nA: b\r\nC:\td \r\n\r\n", `"x" A="b" C="d"`},
		{"0\r\nContent-Digest: x\r\nETag: y\r\n\r\n", `"" Content-Digest="x" ETag="y"`},
		{"0\r\nContent-Length: 5\r\n\r\n", "400 framing field among trailers"},
		{"0\r\ntransfer-encoding: chunked\r\n\r\n", "400 framing field among trailers"},
		{"0\r\nHost: x\r\n\r\n", "400 framing field among trailers"},
		{"0\r\nConnection: close\r\n\r\n", "400 framing field among trailers"},
		{"0\r\nTrailer: x\r\n\r\n", "400 framing field among trailers"},
		{"0\r\nAuthorization: x\r\nCookie: a\r\nSet-Cookie: b\r\nA: b\r\n\r\n", `"" A="b"`},
		{"0\r\nContent-Type: x\r\nContent-Encoding: gzip\r\nContent-Range: x\r\n\r\n", `""`},
		{"0\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Port: 1\r\nForwarded: x\r\n\r\n", `""`},
		{"0\r\nCache-Control: x\r\nIf-Match: x\r\nRange: x\r\nMax-Forwards: 1\r\n\r\n", `""`},
		{"0\r\nX_Auth_User: root\r\n\r\n", `""`},
		{"0\r\nA : b\r\n\r\n", "400 white space after a field name"},
		{"0\r\nA\r\n\r\n", "400 field line without a colon"},
		{"0\r\n: b\r\n\r\n", "400 empty field name"},
		{"0\r\nA: b\r\n c\r\n\r\n", "400 folded field line"},
		{"0\r\nA: b\n\r\n", "400 LF without CR in a field value"},
		{"0\r\nA: b\rC: d\r\n\r\n", "400 CR without LF in a field value"},
		{"0\r\nA: \x00\r\n\r\n", "400 NUL in a field value"},
		{"0\r\n\n", "400 LF without CR in place of a field line"},
		{"0\r\n\rX\r\n", "400 CR without LF in place of a field line"},
		{"0\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", "400 white space after a field name"},
		{"0\r\n" + strings.Repeat("A: b\r\n", 129) + "\r\n", "431 too many trailer fields"},
		{"0\r\nA: " + strings.Repeat("b", 65536) + "\r\n\r\n", "431 trailer section too large"},
	}},
}

// decode feeds in to a decoder in pieces of the size that step gives, and
// describes what came out.
func decode(t *testing.T, body message.Body, in string, step func(left int) int) string {
	t.Helper()
	var d Decoder
	d.Reset(body, nil)
	var data strings.Builder
	rest := []byte(in)
	for !d.Done() {
		if len(rest) == 0 {
			return "incomplete"
		}
		piece, n, err := d.Next(rest[:step(len(rest))])
		data.Write(piece)
		if err != nil {
			return decodeFault(t, &d, err)
		}
		if n == 0 {
			t.Fatalf("nothing consumed of %q", rest)
		}
		rest = rest[n:]
	}
	out := fmt.Sprintf("%q", data.String())
	for _, f := range d.Trailers().All() {
		out += fmt.Sprintf(" %s=%q", f.Name, f.Value)
	}
	if len(rest) > 0 {
		out += fmt.Sprintf(" +%d", len(rest))
	}
	return out
}

// decodeFault describes a fault, which must stay.
func decodeFault(t *testing.T, d *Decoder, err error) string {
	t.Helper()
	if _, n, again := d.Next([]byte("0\r\n\r\n")); again != err || n != 0 || d.Done() || d.EOF() != err {
		t.Errorf("after %v: consumed %d, %v, done %v", err, n, again, d.Done())
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error of type %T", err)
	}
	return fmt.Sprintf("%d %s", e.Status, e.Reason)
}

func TestChunked(t *testing.T) {
	chunked := message.Body{Kind: message.BodyChunked}
	eachCase(t, chunkedCorpus, func(t *testing.T, c exampleCase) {
		for _, size := range []int{1 << 20, 1, 2, 3, 7, 64} {
			step := func(left int) int { return min(size, left) }
			if got := decode(t, chunked, c.in, step); got != c.want {
				t.Errorf("%.200q in pieces of %d\n got %s\nwant %s", c.in, size, got, c.want)
			}
		}
		for cut := 1; cut < min(len(c.in), 80); cut++ {
			first := func(left int) int {
				if before := left - (len(c.in) - cut); before > 0 {
					return before
				}
				return left
			}
			if got := decode(t, chunked, c.in, first); got != c.want {
				t.Errorf("%.200q cut at %d\n got %s\nwant %s", c.in, cut, got, c.want)
			}
		}
	})
}
