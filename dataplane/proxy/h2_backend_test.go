package proxy_test

import (
	"io"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// connectAllowed is the setting of RFC 8441 section 3.
var connectAllowed = http2.Setting{ID: 0x8, Val: 1}

// serves a connection of HTTP/2 as the test says, frame by frame: the data plane
// is its client.
func (b *backend) frames(settings ...http2.Setting) *framer {
	b.t.Helper()
	c := b.accept().conn
	_ = c.SetDeadline(time.Now().Add(patience))
	f := &framer{Framer: http2.NewFramer(c, c), t: b.t, conn: c}
	f.coder = hpack.NewEncoder(&f.block)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	f.AllowIllegalWrites = true
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c, preface); err != nil || string(preface) != http2.ClientPreface {
		b.t.Fatalf("%q, %v", preface, err)
	}
	f.must(f.WriteSettings(settings...))
	return f
}

// request waits for the head of the next request.
func (f *framer) request() *http2.MetaHeadersFrame {
	f.t.Helper()
	for {
		if head, ok := f.next().(*http2.MetaHeadersFrame); ok {
			return head
		}
	}
}

// answer sends the head of an answer.
func (f *framer) answer(id uint32, end bool, fields ...string) {
	f.t.Helper()
	f.must(f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: f.encode(fields...), EndHeaders: true, EndStream: end}))
}
