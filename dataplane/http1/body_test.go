package http1

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/dataplane/message"
)

func TestBodyLength(t *testing.T) {
	var d Decoder
	d.Reset(message.Body{Kind: message.BodyLength, Length: 10}, nil)
	if d.Done() || d.Remaining() != 10 {
		t.Fatal(d.Done(), d.Remaining())
	}
	data, n, err := d.Next([]byte("abc"))
	if string(data) != "abc" || n != 3 || err != nil || d.Remaining() != 7 {
		t.Fatal(data, n, err, d.Remaining())
	}
	d.Advance(5)
	if d.Done() || d.Remaining() != 2 {
		t.Fatal(d.Remaining())
	}
	data, n, err = d.Next([]byte("deGET"))
	if string(data) != "de" || n != 2 || err != nil || !d.Done() {
		t.Fatal(data, n, err, d.Done())
	}
	if data, n, err = d.Next([]byte("GET")); len(data) != 0 || n != 0 || err != nil {
		t.Error("more after the end:", data, n, err)
	}
	if err := d.EOF(); err != nil {
		t.Error(err)
	}
}

func TestBodyOfLengthZeroAndNone(t *testing.T) {
	for _, body := range []message.Body{{}, {Kind: message.BodyLength}} {
		var d Decoder
		d.Reset(body, nil)
		if !d.Done() || d.EOF() != nil || d.Trailers().Len() != 0 {
			t.Errorf("%+v: done %v", body, d.Done())
		}
		if data, n, err := d.Next([]byte("x")); len(data) != 0 || n != 0 || err != nil {
			t.Errorf("%+v: %q %d %v", body, data, n, err)
		}
	}
	var zero Decoder
	if !zero.Done() || zero.EOF() != nil || zero.Remaining() != -1 {
		t.Error("the zero Decoder is not at an end")
	}
}

func TestBodyUntilClose(t *testing.T) {
	var d Decoder
	d.Reset(message.Body{Kind: message.BodyUntilClose}, nil)
	data, n, err := d.Next([]byte("abc"))
	if string(data) != "abc" || n != 3 || err != nil || d.Done() || d.Remaining() != -1 {
		t.Fatal(data, n, err, d.Done())
	}
	d.Advance(1 << 40)
	if d.Done() || d.EOF() != nil || !d.Done() {
		t.Error("the end of the connection is not the end of the body")
	}
}

// A connection that ends too early is a fault, and stays one.
func TestBodyCutShort(t *testing.T) {
	for _, c := range []struct {
		body message.Body
		in   string
	}{
		{message.Body{Kind: message.BodyLength, Length: 10}, "abc"},
		{message.Body{Kind: message.BodyChunked}, ""},
		{message.Body{Kind: message.BodyChunked}, "5\r\nabc"},
		{message.Body{Kind: message.BodyChunked}, "3\r\nabc\r\n"},
		{message.Body{Kind: message.BodyChunked}, "0\r\n"},
		{message.Body{Kind: message.BodyChunked}, "0\r\nA: b\r\n"},
	} {
		var d Decoder
		d.Reset(c.body, nil)
		for rest := []byte(c.in); len(rest) > 0; {
			_, n, err := d.Next(rest)
			if err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		err, ok := d.EOF().(*Error)
		if !ok || err.Reason != "body cut short" || d.EOF() != err || d.Done() {
			t.Errorf("%q: %v", c.in, err)
		}
	}
}

func TestDecoderIsReset(t *testing.T) {
	var d Decoder
	chunked := message.Body{Kind: message.BodyChunked}
	for _, in := range []string{"5\r\nab", "zz", "0\r\nA: b\r\n\r\n", "5;aaaa", "0\r\nA: b\r"} {
		d.Reset(chunked, nil)
		for rest := []byte(in); len(rest) > 0; {
			_, n, err := d.Next(rest)
			if err != nil || d.Done() {
				break
			}
			rest = rest[n:]
		}
		d.Reset(chunked, nil)
		_, n, err := d.Next([]byte("0\r\n\r\n"))
		if n != 5 || err != nil || !d.Done() || d.Trailers().Len() != 0 {
			t.Errorf("after %q: %d %v done %v", in, n, err, d.Done())
		}
	}
}

func TestAdvanceOutsideOfBodyPanics(t *testing.T) {
	for _, body := range []message.Body{{}, {Kind: message.BodyChunked}, {Kind: message.BodyLength, Length: 1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v: no panic", body)
				}
			}()
			var d Decoder
			d.Reset(body, nil)
			d.Advance(2)
		}()
	}
}

// The data before a fault is not lost.
func TestDataBeforeFault(t *testing.T) {
	var d Decoder
	d.Reset(message.Body{Kind: message.BodyChunked}, nil)
	buf := []byte("3\r\nabcX")
	data, n, err := d.Next(buf)
	if string(data) != "abc" || err != nil {
		t.Fatal(string(data), err)
	}
	if _, _, err := d.Next(buf[n:]); err == nil {
		t.Error("no fault")
	}
}

// Trailers outlive the buffer that they came in.
func TestTrailersAreCopied(t *testing.T) {
	var d Decoder
	d.Reset(message.Body{Kind: message.BodyChunked}, nil)
	buf := []byte("0\r\nA: b\r\nC: d\r\n\r\n")
	for rest := buf; !d.Done(); {
		_, n, err := d.Next(rest)
		if err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	clear(buf)
	if got := string(AppendTrailers(nil, d.Trailers())); got != "0\r\nA: b\r\nC: d\r\n\r\n" {
		t.Errorf("%q", got)
	}
}

func TestEncode(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{string(AppendChunkHeader([]byte("x"), 1)), "x1\r\n"},
		{string(AppendChunkHeader(nil, 0xabcdef)), "abcdef\r\n"},
		{string(AppendTrailers(nil, nil)), LastChunk},
		{string(AppendTrailers(nil, &message.Fields{})), LastChunk},
		{string(AppendStatusLine(nil, 200, nil)), "HTTP/1.1 200 OK\r\n"},
		{string(AppendStatusLine(nil, 200, []byte{})), "HTTP/1.1 200 \r\n"},
		{string(AppendStatusLine(nil, 503, []byte("Go Away"))), "HTTP/1.1 503 Go Away\r\n"},
		{string(AppendStatusLine(nil, 299, nil)), "HTTP/1.1 299 \r\n"},
		{StatusText(431), "Request Header Fields Too Large"},
		{StatusText(99) + StatusText(1000) + StatusText(0) + StatusText(-1) + StatusText(512), ""},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestEmptyChunkPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	AppendChunkHeader(nil, 0)
}

// What one large trailer section took is not held by every connection for ever.
func TestLargeTrailersAreLetGo(t *testing.T) {
	var d Decoder
	chunked := message.Body{Kind: message.BodyChunked}
	d.Reset(chunked, nil)
	for rest := []byte("0\r\nA: " + strings.Repeat("b", 2*keptTrailerBytes) + "\r\n\r\n"); !d.Done(); {
		_, n, err := d.Next(rest)
		if err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	if d.Reset(chunked, nil); cap(d.trailer.store) > keptTrailerBytes || d.Trailers().Len() != 0 {
		t.Errorf("%d bytes and %d fields are kept", cap(d.trailer.store), d.Trailers().Len())
	}
}
