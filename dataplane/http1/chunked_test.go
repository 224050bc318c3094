package http1

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate/dataplane/http1/testdata/corpus"
	"github.com/headgate/headgate/dataplane/message"
)

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
	eachCase(t, corpus.Chunked, func(t *testing.T, c corpus.Case) {
		for _, size := range []int{1 << 20, 1, 2, 3, 7, 64} {
			step := func(left int) int { return min(size, left) }
			if got := decode(t, chunked, c.In, step); got != c.Want {
				t.Errorf("%.200q in pieces of %d\n got %s\nwant %s", c.In, size, got, c.Want)
			}
		}
		for cut := 1; cut < min(len(c.In), 80); cut++ {
			first := func(left int) int {
				if before := left - (len(c.In) - cut); before > 0 {
					return before
				}
				return left
			}
			if got := decode(t, chunked, c.In, first); got != c.Want {
				t.Errorf("%.200q cut at %d\n got %s\nwant %s", c.In, cut, got, c.Want)
			}
		}
	})
}

// TestAnswerTrailers leaves framing fields out of the trailers of an answer, which is
// whole without them; what cannot be read is a fault there too.
func TestAnswerTrailers(t *testing.T) {
	for in, want := range map[string]string{
		"0\r\nContent-Length: 9\r\nX-A: 1\r\ntransfer-encoding: chunked\r\n\r\n":                       "X-A=1",
		"0\r\nHost: h\r\nConnection: X-A\r\nKeep-Alive: 1\r\nTE: x\r\nTrailer: y\r\nExpect: z\r\n\r\n": "",
		"0\r\nSet-Cookie: a\r\nX-A: 1\r\n\r\n":                                                         "X-A=1",
		"0\r\nContent-Length : 9\r\n\r\n":                                                              "fault",
		"0\r\nContent-Length: 9\n\r\n":                                                                 "fault",
		"0\r\nContent-Length: 9\r\n 9\r\n\r\n":                                                         "fault",
	} {
		var d Decoder
		d.ResetAnswer(message.Body{Kind: message.BodyChunked})
		_, n, err := d.Next([]byte(in))
		got := ""
		for _, f := range d.Trailers().All() {
			got += fmt.Sprintf("%s=%s", f.Name, f.Value)
		}
		if err != nil {
			got = "fault"
		}
		if got != want || err == nil && (n != len(in) || !d.Done()) {
			t.Errorf("%q: %s after %d bytes, %v", in, got, n, err)
		}
		d.Reset(message.Body{Kind: message.BodyChunked}, nil)
		if _, _, err := d.Next([]byte("0\r\nContent-Length: 9\r\n\r\n")); err == nil {
			t.Error("those of a request are taken after those of an answer")
		}
	}
}
