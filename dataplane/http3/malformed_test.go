package http3

import (
	"bytes"
	"strings"
	"testing"

	"github.com/quic-go/quic-go/quicvarint"
)

// usual are the pseudo-header fields of a request.
var usual = []string{":method", "POST", ":scheme", "https", ":authority", "h", ":path", "/"}

func with(fields ...string) []byte {
	return frameOf(frameHeaders, section(append(append([]string{}, usual...), fields...)...))
}

func only(fields ...string) []byte { return frameOf(frameHeaders, section(fields...)) }

// Requests that break their stream, and nothing else (RFC 9114 section 4.1.2).
func TestMalformed(t *testing.T) {
	p := open(t, Options{ExtendedConnect: true}, echo).dial().greet()
	for _, c := range []struct {
		name string
		sent [][]byte
		code Code
	}{
		{"upper case", [][]byte{with("X-A", "1")}, MessageError},
		{"no :method", [][]byte{only(":scheme", "https", ":authority", "h", ":path", "/")}, MessageError},
		{"no :path", [][]byte{only(":method", "GET", ":scheme", "https", ":authority", "h")}, MessageError},
		{"empty :path", [][]byte{only(":method", "GET", ":scheme", "https", ":authority", "h", ":path", "")}, MessageError},
		{":status", [][]byte{with(":status", "200")}, MessageError},
		{"unknown pseudo-header", [][]byte{only(append([]string{":x", "1"}, usual...)...)}, MessageError},
		{":path twice", [][]byte{only(append([]string{":path", "/"}, usual...)...)}, MessageError},
		{"pseudo-header late", [][]byte{only(":method", "GET", ":scheme", "https", ":authority", "h", "x-a", "1", ":path", "/")}, MessageError},
		{"connection", [][]byte{with("connection", "close")}, MessageError},
		{"transfer-encoding", [][]byte{with("transfer-encoding", "chunked")}, MessageError},
		{"upgrade", [][]byte{with("upgrade", "websocket")}, MessageError},
		{"te", [][]byte{with("te", "gzip")}, MessageError},
		{"line break in a value", [][]byte{with("x-a", "1\r\nx-b: 2")}, MessageError},
		{"space in a name", [][]byte{with("x a", "1")}, MessageError},
		{"two lengths", [][]byte{with("content-length", "1", "content-length", "2")}, MessageError},
		{"bad length", [][]byte{with("content-length", "1x")}, MessageError},
		{"plain :protocol", [][]byte{with(":protocol", "websocket")}, MessageError},
		{"less than the length", [][]byte{with("content-length", "5"), dataOf("four")}, MessageError},
		{"nothing of the length", [][]byte{with("content-length", "5")}, MessageError},
		{"more than the length", [][]byte{with("content-length", "3"), dataOf("four")}, MessageError},
		{"more in pieces", [][]byte{with("content-length", "3"), dataOf("th"), dataOf("re"), dataOf("e")}, MessageError},
		{"pseudo-header in trailers", [][]byte{with(), dataOf("x"), only(":path", "/")}, MessageError},
		{"framing in trailers", [][]byte{with(), dataOf("x"), only("content-length", "1")}, MessageError},
		{"no head", nil, RequestIncomplete},
		{"unknown frames alone", [][]byte{frameOf(0x21, []byte("x"))}, RequestIncomplete},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := p.begin()
			r.send(c.sent...)
			r.end()
			if got := r.reply(); got.reset() != c.code {
				t.Errorf("%+v: %v, want %v", got, got.reset(), c.code)
			}
			if got := p.get("/"); got.status != "200" || got.err != nil {
				t.Fatalf("the connection no longer serves: %+v", got)
			}
		})
	}
}

// Requests that can be understood and are refused.
func TestRefused(t *testing.T) {
	o := Options{MaxHeaderBytes: 4096, MaxHeaders: 10, MaxTargetBytes: 100, ExtendedConnect: true}
	p := open(t, o, echo).dial().greet()
	many := append([]string{}, usual...)
	for range 11 {
		many = append(many, "x-a", "1")
	}
	for _, c := range []struct {
		name   string
		head   []byte
		status string
	}{
		{"head too large", with("x-a", strings.Repeat("v", 5000)), "431"},
		{"frame far too large", with("x-a", strings.Repeat("v", 300_000)), "431"},
		{"too many fields", only(many...), "431"},
		{"target too long", only(":method", "GET", ":scheme", "https", ":authority", "h", ":path", "/"+strings.Repeat("p", 100)), "414"},
		{"host that differs", with("host", "other"), "400"},
		{"no authority", only(":method", "GET", ":scheme", "https", ":path", "/"), "400"},
		{"bad authority", only(":method", "GET", ":scheme", "https", ":authority", "h:x", ":path", "/"), "400"},
		{"scheme", only(":method", "GET", ":scheme", "ftp", ":authority", "h", ":path", "/"), "400"},
		{"path", only(":method", "GET", ":scheme", "https", ":authority", "h", ":path", "a"), "400"},
		{"space in the path", only(":method", "GET", ":scheme", "https", ":authority", "h", ":path", "/a b"), "400"},
		{"expectation", with("expect", "more"), "417"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := p.begin()
			r.send(c.head)
			r.end()
			if got := r.reply(); got.status != c.status || got.err != nil {
				t.Errorf("%+v, want %s", got, c.status)
			}
			if got := p.get("/"); got.status != "200" || got.err != nil {
				t.Fatalf("the connection no longer serves: %+v", got)
			}
		})
	}
}

// What breaks the connection: on request streams, on the control stream, on those of
// QPACK, and on others.
func TestConnectionErrors(t *testing.T) {
	on := func(sent ...[]byte) func(p *peer) {
		return func(p *peer) {
			r := p.greet().begin()
			r.send(sent...)
			r.end()
		}
	}
	control := func(payload ...[]byte) func(p *peer) {
		return func(p *peer) { p.other(streamControl, bytes.Join(payload, nil)) }
	}
	settings := frameOf(frameSettings, nil)
	setting := func(id uint64) []byte { return append(quicvarint.Append(nil, id), 1) }
	for _, c := range []struct {
		name string
		do   func(p *peer)
		code Code
	}{
		{"DATA before the head", on(dataOf("x")), FrameUnexpected},
		{"DATA after trailers", on(with(), only("x-a", "1"), dataOf("x")), FrameUnexpected},
		{"HEADERS after trailers", on(with(), only("x-a", "1"), only("x-a", "1")), FrameUnexpected},
		{"SETTINGS on a request", on(with(), settings), FrameUnexpected},
		{"GOAWAY on a request", on(with(), frameOf(frameGoAway, []byte{0})), FrameUnexpected},
		{"PUSH_PROMISE", on(with(), frameOf(framePushPromise, []byte{0})), FrameUnexpected},
		{"frame of HTTP/2", on(frameOf(0x8, []byte{0})), FrameUnexpected},
		{"frame cut short", on(with(), dataOf("four")[:4]), FrameError},
		{"frame header cut short", on(with(), []byte{0x40}), FrameError},
		{"unknown frame cut short", on(with(), frameOf(0x21, []byte("four"))[:4]), FrameError},
		{"head cut short", on(with()[:9]), FrameError},
		{"no section", on(frameOf(frameHeaders, nil)), DecompressionFailed},
		{"dynamic table", on(frameOf(frameHeaders, []byte{2, 0, 0x80})), DecompressionFailed},
		{"section cut short", on(frameOf(frameHeaders, section(usual...)[:5])), DecompressionFailed},

		{"no SETTINGS", control(frameOf(frameGoAway, []byte{0})), MissingSettings},
		{"second SETTINGS", control(settings, settings), FrameUnexpected},
		{"setting of HTTP/2", control(frameOf(frameSettings, setting(3))), SettingsError},
		{"setting twice", control(frameOf(frameSettings, append(setting(6), setting(6)...))), SettingsError},
		{"setting cut short", control(frameOf(frameSettings, []byte{6})), FrameError},
		{"SETTINGS too large", control(appendFrame(nil, frameSettings, 1<<20)), ExcessiveLoad},
		{"DATA on the control stream", control(settings, dataOf("x")), FrameUnexpected},
		{"HEADERS on the control stream", control(settings, with()), FrameUnexpected},
		{"end of the control stream", func(p *peer) { _ = p.other(streamControl, settings).Close() }, ClosedCriticalStream},
		{"two control streams", func(p *peer) { p.greet().greet() }, StreamCreationError},
		{"push stream", func(p *peer) { p.greet().other(streamPush, []byte{0}) }, StreamCreationError},

		{"end of the encoder stream", func(p *peer) { _ = p.other(streamEncoder, []byte{0x20}).Close() }, ClosedCriticalStream},
		{"insertion", func(p *peer) { p.other(streamEncoder, []byte{0x20, 0xc0, 1, 'x'}) }, EncoderStreamError},
		{"capacity", func(p *peer) { p.other(streamEncoder, []byte{0x21}) }, EncoderStreamError},
		{"acknowledgement", func(p *peer) { p.other(streamDecoder, []byte{0x7f, 0x80, 1, 0x80}) }, DecoderStreamError},
		{"increment", func(p *peer) { p.other(streamDecoder, []byte{1}) }, DecoderStreamError},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := open(t, Options{}, echo)
			p := h.dial()
			c.do(p)
			if got := p.code(); got != c.code {
				t.Errorf("closed with %v, want %v", got, c.code)
			}
			if err := h.fault(); err == nil || !strings.Contains(err.Error(), c.code.String()) {
				t.Errorf("Serve says %v", err)
			}
		})
	}
}

// What means nothing is passed over.
func TestIgnored(t *testing.T) {
	p := open(t, Options{}, echo).dial()
	p.other(streamControl, bytes.Join([][]byte{
		frameOf(frameSettings, []byte{6, 10, 0x21, 1}), frameOf(frameMaxPushID, []byte{5}), frameOf(0x21, []byte("x")),
		frameOf(frameCancelPush, []byte{0}), frameOf(frameGoAway, []byte{0}), appendFrame(nil, 0xf0700, 4), []byte("prio"),
	}, nil))
	p.other(streamEncoder, []byte{0x20, 0x20})
	p.other(streamDecoder, []byte{0x44, 0x7f, 0x80, 1})
	for range 10 { // as many as may be at once, and more
		p.other(0x21, []byte("x"))
	}
	r := p.begin()
	r.send(frameOf(0x21, make([]byte, 100_000)), with(), frameOf(0x40, nil))
	r.end()
	if got := r.reply(); got.status != "200" || got.err != nil {
		t.Errorf("%+v", got)
	}
}
