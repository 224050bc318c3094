package proxy_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A wire is which protocol is spoken on either side of the data plane.
type wire struct{ client, upstream string }

var wires = []wire{
	{"HTTP/1", "HTTP/1"},
	{"HTTP/1", "HTTP/2"},
	{"HTTP/2", "HTTP/1"},
	{"HTTP/2", "HTTP/2"},
	{"HTTP/3", "HTTP/1"},
	{"HTTP/3", "HTTP/2"},
}

// byteWires are those whose clients a test can speak for byte by byte.
var byteWires = wires[:4]

// overWires runs a test over every pair of protocols, with a backend of net/http
// and a client of net/http or x/net/http2.
func overWires(t *testing.T, h http.HandlerFunc, run func(t *testing.T, client *visitor, g *gate)) {
	for _, w := range wires {
		t.Run(w.client+" to "+w.upstream, func(t *testing.T) {
			t.Parallel()
			address := serveOver(t, w.upstream, h)
			g := start(t, singleOver(w.upstream, address))
			run(t, visitOver(t, w.client, g), g)
		})
	}
}

// serveOver is serve in a protocol.
func serveOver(t testing.TB, protocol string, h http.Handler) string {
	t.Helper()
	if protocol == "HTTP/1" {
		return serve(t, h)
	}
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// singleOver is single with an endpoint that speaks a protocol.
func singleOver(protocol, address string) string {
	if protocol == "HTTP/1" {
		return single(address)
	}
	return manifest(
		"clusters: [{name: main, http2: {}, endpoints: [{address: '"+address+"'}]}]",
		"routes: [{name: all, forward: {backends: [{cluster: main}]}}]",
	)
}

// visitOver is visit in a protocol.
func visitOver(t testing.TB, protocol string, g *gate) *visitor {
	t.Helper()
	if protocol == "HTTP/3" {
		return visitQUIC(t, g)
	}
	v := visit(t, g)
	if protocol == "HTTP/1" {
		return v
	}
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	v.Transport = transport
	return v
}

// framer is a client of HTTP/2 that does what the test says, frame by frame.
type framer struct {
	*http2.Framer
	t     testing.TB
	conn  net.Conn
	last  uint32 // the stream that was opened last
	block bytes.Buffer
	coder *hpack.Encoder
}

// frames connects a framer. Its windows are those that RFC 9113 begins with.
func (g *gate) frames(settings ...http2.Setting) *framer {
	g.t.Helper()
	c := g.dial().conn
	_ = c.SetDeadline(time.Now().Add(patience))
	f := &framer{Framer: http2.NewFramer(c, c), t: g.t, conn: c}
	f.coder = hpack.NewEncoder(&f.block)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	f.AllowIllegalWrites = true
	if _, err := c.Write([]byte(http2.ClientPreface)); err != nil {
		g.t.Fatal(err)
	}
	f.must(f.WriteSettings(settings...))
	return f
}

func (f *framer) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// encode makes a header block of names and values in turn.
func (f *framer) encode(fields ...string) []byte {
	f.t.Helper()
	f.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		f.must(f.coder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	return f.block.Bytes()
}

// open begins a request with fields besides the usual ones, and returns its
// stream.
func (f *framer) open(end bool, method, path string, fields ...string) uint32 {
	f.t.Helper()
	all := append([]string{":method", method, ":scheme", "http", ":authority", "h", ":path", path}, fields...)
	return f.openWith(end, all...)
}

// openWith begins a request with these fields alone.
func (f *framer) openWith(end bool, fields ...string) uint32 {
	f.t.Helper()
	f.last += 2
	if f.last == 2 {
		f.last = 1
	}
	f.must(f.WriteHeaders(http2.HeadersFrameParam{StreamID: f.last, BlockFragment: f.encode(fields...), EndHeaders: true, EndStream: end}))
	return f.last
}

// next reads the next frame.
func (f *framer) next() http2.Frame {
	f.t.Helper()
	frame, err := f.read()
	if err != nil {
		f.t.Fatalf("reading a frame: %v", err)
	}
	return frame
}

// read reads the next frame that is not one of those that a peer must answer, and
// answers these.
func (f *framer) read() (http2.Frame, error) {
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return nil, err
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				err = f.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if frame.IsAck() {
				return frame, nil
			}
			err = f.WritePing(true, frame.Data)
		default:
			return frame, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// reply is what came on a stream.
type reply struct {
	interim  []string
	status   string
	fields   []hpack.HeaderField
	body     []byte
	trailers []hpack.HeaderField
	reset    *http2.ErrCode // nil: it ended
	clean    bool           // END_STREAM came
}

func (r *reply) get(name string) string { return fieldOf(r.fields, name) }

func fieldOf(fields []hpack.HeaderField, name string) string {
	for _, f := range fields {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// await reads what comes on a stream up to its end, giving back what its body
// takes from the windows.
func (f *framer) await(id uint32) *reply {
	f.t.Helper()
	r := &reply{}
	for !r.clean && r.reset == nil {
		if frame := f.next(); frame.Header().StreamID == id {
			f.take(r, frame)
		}
	}
	return r
}

// take adds a frame to what came.
func (f *framer) take(r *reply, frame http2.Frame) {
	f.t.Helper()
	switch frame := frame.(type) {
	case *http2.MetaHeadersFrame:
		switch status := frame.PseudoValue("status"); {
		case status == "":
			r.trailers = frame.RegularFields()
		case status < "200":
			r.interim = append(r.interim, status)
		default:
			r.status, r.fields = status, frame.RegularFields()
		}
		r.clean = frame.StreamEnded()
	case *http2.DataFrame:
		r.body = append(r.body, frame.Data()...)
		r.clean = frame.StreamEnded()
		if n := frame.Header().Length; n > 0 {
			f.must(f.WriteWindowUpdate(0, n))
			if !r.clean {
				f.must(f.WriteWindowUpdate(frame.StreamID, n))
			}
		}
	case *http2.RSTStreamFrame:
		r.reset = &frame.ErrCode
	}
}

// head reads up to the final head of a stream.
func (f *framer) head(id uint32) *reply {
	f.t.Helper()
	r := &reply{}
	for r.status == "" && r.reset == nil {
		if frame := f.next(); frame.Header().StreamID == id {
			f.take(r, frame)
		}
	}
	return r
}

// resets waits for the reset of a stream.
func (f *framer) resets(id uint32) http2.ErrCode {
	f.t.Helper()
	for {
		if reset, ok := f.next().(*http2.RSTStreamFrame); ok && reset.StreamID == id {
			return reset.ErrCode
		}
	}
}

// pings goes to the data plane and back: what was sent before has been read.
func (f *framer) pings() {
	f.t.Helper()
	f.must(f.WritePing(false, [8]byte{1}))
	for {
		if ping, ok := f.next().(*http2.PingFrame); ok && ping.IsAck() {
			return
		}
	}
}

// serves holds that the connection still carries requests, with a backend that
// answers this one.
func (f *framer) serves(b *backend) {
	f.t.Helper()
	id := f.open(true, "GET", "/still")
	up := b.accept()
	defer up.close()
	up.head()
	up.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nstill")
	if r := f.await(id); r.status != "200" || string(r.body) != "still" {
		f.t.Errorf("the connection no longer serves: %+v", r)
	}
}

// ended waits for the end of the connection, and returns why the data plane said
// that it ends.
func (f *framer) ended() (why http2.ErrCode) {
	f.t.Helper()
	for {
		frame, err := f.read()
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			f.t.Fatal("the connection stays")
		}
		if err != nil {
			return why
		}
		if away, ok := frame.(*http2.GoAwayFrame); ok {
			why = away.ErrCode
		}
	}
}

// once is a request of HTTP/1.1 as it goes upstream for the host h, with more
// lines before those that the proxy adds.
func once(start, lines, framing string) string {
	return fmt.Sprintf("%s HTTP/1.1\r\nHost: h\r\n%s%s\r\n%s\r\n", start, lines, crlf(forwarded), framing)
}

func crlf(s string) string { return string(bytes.ReplaceAll([]byte(s), []byte("\n"), []byte("\r\n"))) }
