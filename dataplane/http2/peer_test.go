package http2

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/headgate/headgate/dataplane/socket"
)

// peer speaks frames by hand.
type peer struct {
	t     *testing.T
	net   net.Conn
	fr    *xhttp2.Framer
	block bytes.Buffer
	enc   *hpack.Encoder
}

func newPeer(t *testing.T, c net.Conn) *peer {
	t.Helper()
	p := &peer{t: t, net: c, fr: xhttp2.NewFramer(c, c)}
	p.enc = hpack.NewEncoder(&p.block)
	p.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	p.fr.AllowIllegalWrites = true
	// Nothing here depends on it: it ends a test that would wait for ever.
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	t.Cleanup(func() { c.Close() })
	return p
}

// clientPeer is a client by hand, after its preface.
func clientPeer(t *testing.T, address string, settings ...xhttp2.Setting) *peer {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	p := newPeer(t, c)
	p.raw([]byte(preface))
	p.ok(p.fr.WriteSettings(settings...))
	return p
}

// serverPeer is a server by hand, and our client to it.
func serverPeer(t *testing.T, o Options, settings ...xhttp2.Setting) (*peer, *Client) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	mine, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	client := NewClient(socket.New(mine), o)
	client.Start()
	t.Cleanup(func() {
		client.Close()
		<-client.Done()
	})
	p := newPeer(t, theirs)
	greeting := make([]byte, len(preface))
	if _, err := theirs.Read(greeting); err != nil || string(greeting) != preface {
		t.Fatalf("preface %q, %v", greeting, err)
	}
	p.ok(p.fr.WriteSettings(settings...))
	return p, client
}

func (p *peer) ok(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) raw(b []byte) {
	p.t.Helper()
	_, err := p.net.Write(b)
	p.ok(err)
}

// encode makes a block of pairs.
func (p *peer) encode(pairs ...string) []byte {
	p.block.Reset()
	for i := 0; i < len(pairs); i += 2 {
		_ = p.enc.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return bytes.Clone(p.block.Bytes())
}

var plainGet = []string{":method", "GET", ":scheme", "http", ":path", "/echo", ":authority", "test"}

func get1(extra ...string) []string { return append(append([]string(nil), plainGet...), extra...) }

// headers sends a head in one frame.
func (p *peer) headers(id uint32, end bool, pairs ...string) {
	p.t.Helper()
	p.ok(p.fr.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: p.encode(pairs...), EndHeaders: true, EndStream: end}))
}

// line is a frame as text; frames of the connection's own housekeeping are "".
func line(f xhttp2.Frame) string {
	h := f.Header()
	end := ""
	if h.Flags.Has(xhttp2.FlagDataEndStream) {
		end = " end"
	}
	switch f := f.(type) {
	case *xhttp2.MetaHeadersFrame:
		var b strings.Builder
		for _, field := range f.Fields {
			fmt.Fprintf(&b, " %s=%s", field.Name, field.Value)
		}
		return fmt.Sprintf("HEADERS %d%s%s", h.StreamID, end, b.String())
	case *xhttp2.DataFrame:
		return fmt.Sprintf("DATA %d %d%s", h.StreamID, len(f.Data()), end)
	case *xhttp2.RSTStreamFrame:
		return fmt.Sprintf("RST %d %v", h.StreamID, f.ErrCode)
	case *xhttp2.GoAwayFrame:
		return fmt.Sprintf("GOAWAY %d %v", f.LastStreamID, f.ErrCode)
	case *xhttp2.PingFrame:
		return fmt.Sprintf("PING ack=%v", f.IsAck())
	case *xhttp2.WindowUpdateFrame:
		if h.StreamID != 0 {
			return fmt.Sprintf("WINDOW %d %d", h.StreamID, f.Increment)
		}
	}
	return ""
}

// next is the next frame that matters, or "closed".
func (p *peer) next() string {
	p.t.Helper()
	for {
		f, err := p.fr.ReadFrame()
		if err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				p.t.Fatal("nothing came")
			}
			return "closed"
		}
		if s, ok := f.(*xhttp2.SettingsFrame); ok && !s.IsAck() {
			p.ok(p.fr.WriteSettingsAck())
		}
		if text := line(f); text != "" {
			return text
		}
	}
}

// expect reads frames until one begins with want; before it only DATA, HEADERS
// and PING may come.
func (p *peer) expect(want string) string {
	p.t.Helper()
	for {
		got := p.next()
		switch {
		case strings.HasPrefix(got, want):
			return got
		case strings.HasPrefix(got, "DATA"), strings.HasPrefix(got, "HEADERS"), strings.HasPrefix(got, "PING"), strings.HasPrefix(got, "WINDOW"):
		default:
			p.t.Fatalf("got %q, want %q", got, want)
		}
	}
}
