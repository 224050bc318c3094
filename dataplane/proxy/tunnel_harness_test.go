package proxy_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go/quicvarint"

	"github.com/headgate/headgate/dataplane/http2"
	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
)

// A pipe is one end of a tunnel, over either protocol.
type pipe interface {
	io.ReadWriteCloser
	CloseWrite() error
	Abort()
}

// connPipe is a connection that has switched protocols.
type connPipe struct {
	*net.TCPConn
	in *bufio.Reader
}

func (p connPipe) Read(b []byte) (int, error) { return p.in.Read(b) }

func (p connPipe) Abort() {
	_ = p.SetLinger(0)
	_ = p.Close()
}

// streamPipe is a stream.
type streamPipe struct {
	*http2.Stream
	close func() error
}

func (p streamPipe) Read(b []byte) (int, error) {
	for len(p.Buffered()) == 0 {
		if err := p.Fill(0, socket.Now()+int64(patience)); err != nil {
			return 0, err
		}
	}
	n := copy(b, p.Buffered())
	p.Consume(n)
	return n, nil
}

func (p streamPipe) Write(b []byte) (int, error) {
	return p.WriteData(b, false, socket.Now()+int64(patience))
}

func (p streamPipe) CloseWrite() error {
	_, err := p.WriteData(nil, true, 0)
	return err
}

func (p streamPipe) Abort()       { p.Reset(http2.Cancel) }
func (p streamPipe) Close() error { return p.close() }

// A handshake is a request for a tunnel as a backend sees it, before it has
// answered.
type handshake struct {
	method, path, protocol string
	header                 http.Header
	stream                 *http2.Stream
	conn                   connPipe
}

// open accepts, with fields as names and values in turn, and sends bytes at once.
func (h *handshake) open(early string, fields ...string) pipe {
	if h.stream != nil {
		h.answer(200, false, fields...)
		p := streamPipe{h.stream, func() error { return nil }}
		if early != "" {
			_, _ = p.Write([]byte(early))
		}
		return p
	}
	text := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + h.protocol + "\r\n"
	if key := h.header.Get("Sec-WebSocket-Key"); key != "" {
		text += "Sec-WebSocket-Accept: " + accept(key) + "\r\n"
	}
	for i := 0; i < len(fields); i += 2 {
		text += fields[i] + ": " + fields[i+1] + "\r\n"
	}
	_, _ = io.WriteString(h.conn, text+"\r\n"+early)
	return h.conn
}

// refuse answers like any request.
func (h *handshake) refuse(status int, body string, fields ...string) {
	fields = append(fields, "Content-Length", fmt.Sprint(len(body)))
	if h.stream != nil {
		h.answer(status, body == "", fields...)
		if body != "" {
			_, _ = h.stream.WriteData([]byte(body), true, 0)
		}
		return
	}
	text := fmt.Sprintf("HTTP/1.1 %d No\r\n", status)
	for i := 0; i < len(fields); i += 2 {
		text += fields[i] + ": " + fields[i+1] + "\r\n"
	}
	_, _ = io.WriteString(h.conn, text+"\r\n"+body)
}

func (h *handshake) answer(status int, end bool, fields ...string) {
	var list message.Fields
	for i := 0; i < len(fields); i += 2 {
		list.Add([]byte(strings.ToLower(fields[i])), []byte(fields[i+1]))
	}
	_ = h.stream.WriteResponseHead(status, &list, end, 0)
}

// tunnelServer is the address of a backend that has each handshake handled, in a
// protocol. It ends with the test.
func tunnelServer(t testing.TB, protocol string, handle func(h *handshake)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	var open sync.Map
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open.Store(c, true)
			running.Go(func() {
				defer open.Delete(c)
				serveTunnel(c.(*net.TCPConn), protocol, handle)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		open.Range(func(c, _ any) bool {
			_ = c.(net.Conn).Close()
			return true
		})
		running.Wait()
	})
	return l.Addr().String()
}

func serveTunnel(c *net.TCPConn, protocol string, handle func(h *handshake)) {
	defer c.Close()
	if protocol == "HTTP/2" {
		_ = http2.NewServer(socket.New(c), http2.Options{ExtendedConnect: true}, func(st *http2.Stream) {
			st.MayWait()
			r := st.Request()
			h := &handshake{method: string(r.MethodName), path: string(r.Path), protocol: string(r.Upgrade), header: http.Header{}, stream: st}
			for _, f := range r.Fields.All() {
				h.header.Add(string(f.Name), string(f.Value))
			}
			handle(h)
		}).Serve()
		return
	}
	in := bufio.NewReader(c)
	r, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	handle(&handshake{method: r.Method, path: r.URL.Path, protocol: r.Header.Get("Upgrade"), header: r.Header, conn: connPipe{c, in}})
}

// echoes opens every tunnel and gives back what comes, up to its end.
func echoes(h *handshake) {
	p := h.open("")
	_, _ = io.Copy(struct{ io.Writer }{p}, struct{ io.Reader }{p})
	_ = p.CloseWrite()
}

// quicPipe is a stream of HTTP/3.
type quicPipe struct {
	*quicRequest
	left []byte // of the last frame of DATA
}

func (p *quicPipe) Read(b []byte) (int, error) {
	for len(p.left) == 0 {
		kind, payload, err := p.next()
		if err != nil {
			return 0, err
		}
		if kind == 0 {
			p.left = payload
		}
	}
	n := copy(b, p.left)
	p.left = p.left[n:]
	return n, nil
}

func (p *quicPipe) Write(b []byte) (int, error) {
	_ = p.SetWriteDeadline(time.Now().Add(patience))
	head := quicvarint.Append([]byte{0}, uint64(len(b)))
	if _, err := p.Stream.Write(append(head, b...)); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (p *quicPipe) CloseWrite() error { return p.Stream.Close() }
func (p *quicPipe) Abort()            { p.cancel() }

func (p *quicPipe) Close() error {
	p.cancel()
	return nil
}

// A switcher is a client that opens tunnels: on HTTP/2 and HTTP/3 all over one
// connection.
type switcher struct {
	t      testing.TB
	g      *gate
	client *http2.Client // nil: it is another
	quic   *quicPeer     // the same
}

// streams reports whether the tunnels are streams.
func (s *switcher) streams() bool { return s.client != nil || s.quic != nil }

func switcherOver(t testing.TB, protocol string, g *gate) *switcher {
	t.Helper()
	s := &switcher{t: t, g: g}
	switch protocol {
	case "HTTP/1":
		return s
	case "HTTP/3":
		s.quic = g.quicFrames()
		return s
	}
	raw, err := net.Dial("tcp", g.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s.client = http2.NewClient(socket.New(raw), http2.Options{})
	s.client.Start()
	t.Cleanup(func() {
		s.client.Close()
		<-s.client.Done()
	})
	if err := s.client.AwaitSettings(socket.Now() + int64(patience)); err != nil || !s.client.ExtendedConnect() {
		t.Fatalf("settings: %v, extended CONNECT: %v", err, s.client.ExtendedConnect())
	}
	return s
}

// someKey is the example of RFC 6455 section 1.3.
const someKey = "dGhlIHNhbXBsZSBub25jZQ=="

// opened is what a client gets for a handshake.
type opened struct {
	status int
	header http.Header
	pipe
}

// ask sends a handshake with fields as names and values in turn, and bytes behind
// it that do not wait for the answer.
func (s *switcher) ask(path, early string, fields ...string) *opened {
	s.t.Helper()
	switch {
	case s.client != nil:
		return s.askStream(path, early, fields...)
	case s.quic != nil:
		return s.askQUIC(path, early, fields...)
	}
	c := s.g.dial().conn
	text := "GET " + path + " HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + someKey + "\r\n"
	for i := 0; i < len(fields); i += 2 {
		text += fields[i] + ": " + fields[i+1] + "\r\n"
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, text+"\r\n"+early); err != nil {
		s.t.Fatal(err)
	}
	p := connPipe{c, bufio.NewReader(c)}
	r, err := http.ReadResponse(p.in, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return &opened{r.StatusCode, r.Header, p}
}

func (s *switcher) askStream(path, early string, fields ...string) *opened {
	s.t.Helper()
	st, err := s.client.NewStream()
	if err != nil {
		s.t.Fatal(err)
	}
	var list message.Fields
	list.Add([]byte("sec-websocket-version"), []byte("13"))
	for i := 0; i < len(fields); i += 2 {
		list.Add([]byte(strings.ToLower(fields[i])), []byte(fields[i+1]))
	}
	deadline := socket.Now() + int64(patience)
	head := http2.RequestHead{
		Method: []byte("CONNECT"), Protocol: []byte("websocket"), Authority: []byte("h"), Target: []byte(path), Fields: &list,
	}
	if err := st.WriteRequestHead(&head, false, deadline); err != nil {
		s.t.Fatal(err)
	}
	if early != "" {
		if _, err := st.WriteData([]byte(early), false, deadline); err != nil {
			s.t.Fatal(err)
		}
	}
	r, err := st.ReadHead(deadline)
	if err != nil {
		s.t.Fatal(err)
	}
	o := &opened{r.Status, http.Header{}, streamPipe{st, sync.OnceValue(func() error { st.Finish(); return nil })}}
	for _, f := range r.Fields.All() {
		o.header.Add(string(f.Name), string(f.Value))
	}
	return o
}

func (s *switcher) askQUIC(path, early string, fields ...string) *opened {
	s.t.Helper()
	all := []string{":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":authority", "h", ":path", path, "sec-websocket-version", "13"}
	for i := 0; i < len(fields); i += 2 {
		all = append(all, strings.ToLower(fields[i]), fields[i+1])
	}
	r := s.quic.openWith(false, all...)
	if early != "" {
		r.data(early)
	}
	_, section, err := r.next()
	if err != nil {
		s.t.Fatal(err)
	}
	o := &opened{header: http.Header{}, pipe: &quicPipe{quicRequest: r}}
	for name, value := range fieldsOf(section) {
		o.header.Add(name, value)
	}
	o.status, _ = strconv.Atoi(fieldsOf(section)[":status"])
	return o
}

// mustOpen holds that the tunnel is open, in the words of the protocol.
func (s *switcher) mustOpen(o *opened) *opened {
	s.t.Helper()
	if s.streams() {
		if o.status != 200 || o.header.Get("Sec-WebSocket-Accept") != "" || o.header.Get("Upgrade") != "" {
			s.t.Fatalf("%d %v", o.status, o.header)
		}
	} else if o.status != 101 || o.header.Get("Sec-WebSocket-Accept") != accept(someKey) || o.header.Get("Upgrade") != "websocket" ||
		o.header.Get("Connection") != "Upgrade" {
		s.t.Fatalf("%d %v", o.status, o.header)
	}
	return o
}

// reads wants exactly these bytes next.
func (o *opened) reads(t testing.TB, want string) {
	t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(o.pipe, got)
	if string(got[:n]) != want {
		t.Fatalf("%.100q and %v, want %.100q", got[:n], err, want)
	}
}

// ends wants nothing more, and the end of the stream.
func (o *opened) ends(t testing.TB) {
	t.Helper()
	rest, err := io.ReadAll(struct{ io.Reader }{o.pipe})
	if len(rest) > 0 || err != nil && !errors.Is(err, io.EOF) {
		t.Fatalf("%.100q and %v, want the end", rest, err)
	}
}

// overTunnels runs a test over every pair of protocols.
func overTunnels(t *testing.T, handle func(h *handshake), run func(t *testing.T, s *switcher)) {
	for _, w := range wires {
		t.Run(w.client+" to "+w.upstream, func(t *testing.T) {
			t.Parallel()
			g := start(t, singleOver(w.upstream, tunnelServer(t, w.upstream, handle)))
			run(t, switcherOver(t, w.client, g))
		})
	}
}
