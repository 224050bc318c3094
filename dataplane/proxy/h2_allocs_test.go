package proxy_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// streamCaller sends the same request on one stream after the other, and
// allocates nothing meanwhile.
type streamCaller struct {
	conn    net.Conn
	frames  []byte // HEADERS, and DATA if there is a body; the streams are filled in
	at      []int  // where these frames begin
	stream  uint32
	in      []byte
	r, w    int
	answers int // bytes of DATA of each answer
}

const frameHead = 9

// What the requests say, besides the method.
var (
	usualPseudo = []string{":scheme", "http", ":authority", "example.com", ":path", "/path?q=1"}
	usualFields = []string{"user-agent", "test", "accept", "*/*"}
)

// newStreamCaller connects to a gate. body may be empty.
func newStreamCaller(t testing.TB, g *gate, method, body string, answers int) *streamCaller {
	t.Helper()
	var block bytes.Buffer
	coder := hpack.NewEncoder(&block)
	encode := func() []byte {
		block.Reset()
		fields := slices.Concat([]string{":method", method}, usualPseudo, usualFields)
		if body != "" {
			fields = append(fields, "content-length", fmt.Sprint(len(body)))
		}
		for i := 0; i < len(fields); i += 2 {
			_ = coder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
		}
		return block.Bytes()
	}
	// The first block fills the table, so that the second means the same whenever
	// it is sent, as with any client that asks for the same again.
	c := &streamCaller{conn: g.dial().conn, stream: 1, in: make([]byte, 64<<10), answers: answers}
	c.write(encode(), body)
	first := *c
	c.write(encode(), body)
	var hello bytes.Buffer
	hello.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&hello, nil)
	_ = framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
	_ = framer.WriteSettingsAck()
	_ = framer.WriteWindowUpdate(0, 1<<30)
	if _, err := c.conn.Write(hello.Bytes()); err != nil {
		t.Fatal(err)
	}
	first.call(t)
	c.stream, c.r, c.w = first.stream, first.r, first.w
	return c
}

// write makes the frames of a request.
func (c *streamCaller) write(block []byte, body string) {
	var frames bytes.Buffer
	framer := http2.NewFramer(&frames, nil)
	_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true, EndStream: body == ""})
	c.at = []int{0}
	if body != "" {
		c.at = append(c.at, frames.Len())
		_ = framer.WriteData(1, true, []byte(body))
	}
	c.frames = frames.Bytes()
}

// call sends the request and reads the answer to its end.
func (c *streamCaller) call(t testing.TB) {
	for _, at := range c.at {
		binary.BigEndian.PutUint32(c.frames[at+5:], c.stream)
	}
	if _, err := c.conn.Write(c.frames); err != nil {
		t.Fatal(err)
	}
	for got, ended := 0, false; !ended; {
		size, kind, flags, stream := c.frame(t)
		if stream != c.stream {
			continue
		}
		switch kind {
		case http2.FrameRSTStream:
			t.Fatal("the stream was reset")
		case http2.FrameData:
			got += size
		}
		ended = flags.Has(http2.FlagDataEndStream)
		if ended && got != c.answers {
			t.Fatalf("%d bytes, want %d", got, c.answers)
		}
	}
	c.stream += 2
}

// frame reads the next frame.
func (c *streamCaller) frame(t testing.TB) (size int, kind http2.FrameType, flags http2.Flags, stream uint32) {
	c.need(t, frameHead)
	head := c.in[c.r:]
	size = int(head[0])<<16 | int(head[1])<<8 | int(head[2])
	kind, flags, stream = http2.FrameType(head[3]), http2.Flags(head[4]), binary.BigEndian.Uint32(head[5:])
	c.need(t, frameHead+size)
	c.r += frameHead + size
	return size, kind, flags, stream
}

// need reads until n bytes are there.
func (c *streamCaller) need(t testing.TB, n int) {
	for c.w-c.r < n {
		if c.r > 0 {
			c.w = copy(c.in, c.in[c.r:c.w])
			c.r = 0
		}
		m, err := c.conn.Read(c.in[c.w:])
		if err != nil && err != io.EOF || m == 0 {
			t.Fatal(err)
		}
		c.w += m
	}
}

// streamErrands are requests on streams of which the allocations count.
func streamErrands() []errand {
	small := "HTTP/1.1 200 OK\r\nContent-Length: 100\r\nContent-Type: text/plain\r\n\r\n" + strings.Repeat("#", 100)
	return []errand{
		{name: "GET", answer: small, config: plainRoute},
		{name: "GET 10 KiB", answer: "HTTP/1.1 200 OK\r\nContent-Length: 10240\r\n\r\n" + strings.Repeat("#", 10240), config: plainRoute},
		{name: "GET chunked", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n" + strings.Repeat("#", 100) + "\r\n0\r\nX-T: 1\r\n\r\n", config: plainRoute},
		{name: "GET traced at 0", answer: small, config: plainRoute + "\ntelemetry: {tracing: {sampleRatio: 0}}"},
		{name: "POST 1 KiB", request: strings.Repeat("x", 1<<10), answer: small, config: plainRoute},
		{name: "POST 10 KiB", request: strings.Repeat("x", 10<<10), answer: small, config: plainRoute},
	}
}

// ready is a caller for an errand whose request, if any, is a body. It finds out
// first what goes upstream.
func (e *errand) ready(t testing.TB) *streamCaller {
	t.Helper()
	probe := newBackend(t)
	config := func(address string) string {
		return manifest("clusters: [{name: main, endpoints: [{address: '"+address+"'}]}]", e.config)
	}
	g := start(t, config(probe.address()))
	f := g.frames()
	method, fields := "GET", usualFields
	if e.request != "" {
		method, fields = "POST", slices.Concat(usualFields, []string{"content-length", fmt.Sprint(len(e.request))})
	}
	id := f.openWith(e.request == "", slices.Concat([]string{":method", method}, usualPseudo, fields)...)
	if e.request != "" {
		f.must(f.WriteData(id, true, []byte(e.request)))
	}
	up := probe.accept()
	forwarded := len(up.head()) + len(e.request)
	up.send(emptyAnswer)
	f.await(id)
	g.apply(config(answering(t, forwarded, e.answer)))
	c := newStreamCaller(t, g, method, e.request, strings.Count(e.answer, "#"))
	_ = c.conn.SetDeadline(time.Now().Add(patience))
	for range 300 {
		c.call(t)
	}
	_ = c.conn.SetDeadline(time.Time{})
	return c
}

// wantStreamAllocs is what may be allocated a request over HTTP/2: nothing, but
// the collector empties pools now and then.
const wantStreamAllocs = 0.5

func TestStreamAllocations(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates")
	}
	for _, e := range streamErrands() {
		t.Run(e.name, func(t *testing.T) {
			c := e.ready(t)
			const calls = 3000
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range calls {
				c.call(t)
			}
			runtime.ReadMemStats(&after)
			each := float64(after.Mallocs-before.Mallocs) / calls
			t.Logf("%.3f allocations a request", each)
			if each > wantStreamAllocs {
				t.Errorf("%.3f allocations a request, want at most %v", each, wantStreamAllocs)
			}
		})
	}
}

func BenchmarkStream(b *testing.B) {
	for _, e := range streamErrands() {
		b.Run(e.name, func(b *testing.B) {
			c := e.ready(b)
			b.ReportAllocs()
			for b.Loop() {
				c.call(b)
			}
		})
	}
}
