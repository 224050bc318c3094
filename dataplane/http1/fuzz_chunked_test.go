package http1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/dataplane/http1/testdata/corpus"
	"github.com/headgate/headgate/dataplane/message"
)

// stricterChunks holds the reasons for which we refuse a chunked body that
// net/http takes.
var stricterChunks = []string{
	"LF without CR after a chunk size",
	"chunk size that is not a hex number", // white space around it
	"chunk size too large",
	"malformed chunk extension",
	"framing field among trailers",
	"too many trailer fields",
	"folded field line",
	"white space after a field name",
	"LF without CR in a field value",
	"LF without CR in place of a field line",
	"CR without LF in a field value",
	"control byte in a field value",
	"NUL in a field value",
}

// theirStricterChunks are the errors of net/http for bodies that are well-formed:
// with white space behind a size (RFC 9112 section 7.1.1), and with zeros before one
// so that it has more than 16 digits.
var theirStricterChunks = []string{"invalid byte in chunk length", "http chunk length too large"}

// FuzzChunked holds that net/http takes each chunked body that we take, but for
// theirStricterChunks, with the same data, trailers and end; and that it does not matter in which pieces it
// comes.
func FuzzChunked(f *testing.F) {
	for _, class := range corpus.Chunked {
		for _, c := range class.Cases {
			if len(c.In) < 1000 {
				f.Add([]byte(c.In), uint8(len(c.In)))
			}
		}
	}
	f.Fuzz(checkChunked)
}

func checkChunked(t *testing.T, in []byte, size uint8) {
	if len(in) > 4000 { // the longest line that net/http takes
		return
	}
	chunked := message.Body{Kind: message.BodyChunked}
	ours := decode(t, chunked, string(in), func(left int) int { return left })
	pieces := decode(t, chunked, string(in), func(left int) int { return min(int(size)+1, left) })
	if pieces != ours {
		t.Fatalf("%q in pieces of %d: %s, at once: %s", in, int(size)+1, pieces, ours)
	}
	data, rest, trailer, err := theirChunked(t, in)
	if !strings.HasPrefix(ours, `"`) {
		if _, reason, _ := strings.Cut(ours, " "); err == nil && !slices.Contains(stricterChunks, reason) {
			t.Errorf("%q: net/http takes it, we do not: %s", in, ours)
		}
		return
	}
	if err != nil {
		if !slices.Contains(theirStricterChunks, err.Error()) {
			t.Fatalf("%q: we take it, net/http does not: %v", in, err)
		}
		return
	}
	compareChunked(t, in, data, rest, trailer)
}

// theirChunked is the body that net/http reads, what it leaves, and its trailers.
func theirChunked(t *testing.T, in []byte) (data, rest []byte, trailer http.Header, err error) {
	t.Helper()
	r := bufio.NewReaderSize(io.MultiReader(strings.NewReader("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), bytes.NewReader(in)), 1<<16)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if data, err = io.ReadAll(resp.Body); err != nil {
		return nil, nil, nil, err
	}
	rest, err = io.ReadAll(r)
	return data, rest, resp.Trailer, err
}

func compareChunked(t *testing.T, in, data, rest []byte, trailer http.Header) {
	t.Helper()
	var d Decoder
	var ours []byte
	d.Reset(message.Body{Kind: message.BodyChunked}, nil)
	left := in
	for !d.Done() {
		piece, n, err := d.Next(left)
		if err != nil {
			t.Fatal(err)
		}
		ours, left = append(ours, piece...), left[n:]
	}
	if !bytes.Equal(ours, data) || !bytes.Equal(left, rest) {
		t.Errorf("%q: data %q and rest %q, net/http has %q and %q", in, ours, left, data, rest)
	}
	values := http.Header{}
	for _, f := range d.Trailers().All() {
		values.Add(string(f.Name), string(f.Value))
	}
	for name := range values {
		if !slices.Equal(values[name], trailer[name]) {
			t.Errorf("%q: trailer %s: %q, net/http has %q", in, name, values[name], trailer[name])
		}
	}
}
