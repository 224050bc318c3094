package http3

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/qpack"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"
	"go.uber.org/goleak"

	"github.com/headgate/headgate/dataplane/certificate/testca"
	"github.com/headgate/headgate/dataplane/message"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait for an event; only what hangs takes as long.
const patience = 60 * time.Second

// echo answers with what it was sent, body and trailers.
func echo(s *Stream) {
	var out message.Fields
	if f := s.Fault(); f != nil {
		out.Add([]byte("X-Fault"), []byte(f.Reason))
		_ = s.WriteResponseHead(f.Status, &out, true, 0)
		return
	}
	for _, f := range s.Request().Fields.All() {
		if f.ID == message.Other || f.ID == message.Cookie {
			out.Add(append([]byte("Echo-"), f.Name...), f.Value)
		}
	}
	if s.Request().Body.Kind == message.BodyNone {
		out.Add([]byte("no-body"), []byte("1"))
	}
	if s.WriteResponseHead(200, &out, false, 0) != nil {
		return
	}
	for {
		if b := s.Buffered(); len(b) > 0 {
			if _, err := s.WriteData(b, false, 0); err != nil {
				return
			}
			s.Consume(len(b))
		}
		if err := s.Fill(0, 0); err != nil {
			if errors.Is(err, io.EOF) {
				_ = s.WriteTrailers(s.Trailers(), 0)
			}
			return
		}
	}
}

// house is a server on the loopback, until the test ends.
type house struct {
	t       testing.TB
	socket  *Socket
	client  *tls.Config
	ended   chan error   // why each connection ended
	servers chan *Server // each as it begins
}

func open(t testing.TB, o Options, handle func(*Stream)) *house {
	t.Helper()
	socket, err := Bind("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ca := testca.New(t, "authority")
	h := &house{t: t, socket: socket, ended: make(chan error, 100), servers: make(chan *Server, 100)}
	server := &tls.Config{NextProtos: []string{Protocol}, Certificates: []tls.Certificate{ca.Issue([]string{"h"}).TLS(t)}}
	h.client = &tls.Config{RootCAs: ca.Pool(), ServerName: "h", NextProtos: []string{Protocol}}
	l, err := socket.Listen(&Terms{
		TLS:     func() *tls.Config { return server },
		Admit:   func(netip.AddrPort) bool { return true },
		Options: func() Options { return o },
	})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s := NewServer(c, o, handle)
			h.servers <- s
			running.Go(func() {
				defer s.Close()
				h.ended <- s.Serve()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		close := func() { // who is still there
			for {
				select {
				case s := <-h.servers:
					s.Close()
				default:
					return
				}
			}
		}
		close()
		running.Wait()
		_ = socket.Close()
	})
	return h
}

// fault is why the next connection ended.
func (h *house) fault() error {
	h.t.Helper()
	select {
	case err := <-h.ended:
		return err
	case <-time.After(patience):
		h.t.Fatal("no connection ended")
		return nil
	}
}

// peer is a client that does what the test says.
type peer struct {
	t    testing.TB
	conn *quic.Conn
}

// dial connects one, without its control stream.
func (h *house) dial(change ...func(*quic.Config)) *peer {
	h.t.Helper()
	config := &quic.Config{}
	for _, c := range change {
		c(config)
	}
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		h.t.Fatal(err)
	}
	transport := &quic.Transport{Conn: udp}
	conn, err := transport.Dial(context.Background(), h.socket.Addr(), h.client, config)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		_ = conn.CloseWithError(quic.ApplicationErrorCode(NoError), "")
		_ = transport.Close()
		_ = udp.Close()
	})
	return &peer{t: h.t, conn: conn}
}

// greet opens a control stream with no settings.
func (p *peer) greet() *peer {
	p.t.Helper()
	p.other(streamControl, []byte{frameSettings, 0})
	return p
}

// other opens a stream of a type.
func (p *peer) other(kind uint64, payload []byte) *quic.SendStream {
	p.t.Helper()
	s, err := p.conn.OpenUniStreamSync(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	_, _ = s.Write(append(quicvarint.Append(nil, kind), payload...)) // it may be refused meanwhile
	return s
}

// code is what the connection was closed with.
func (p *peer) code() Code {
	p.t.Helper()
	select {
	case <-p.conn.Context().Done():
	case <-time.After(patience):
		p.t.Fatal("the connection stays")
	}
	closed, ok := errors.AsType[*quic.ApplicationError](context.Cause(p.conn.Context()))
	if !ok {
		p.t.Fatal(context.Cause(p.conn.Context()))
	}
	return Code(closed.ErrorCode)
}

// request is a request stream.
type request struct {
	*quic.Stream
	t testing.TB
}

// begin opens a request stream without a frame.
func (p *peer) begin() *request {
	p.t.Helper()
	s, err := p.conn.OpenStreamSync(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	_ = s.SetReadDeadline(time.Now().Add(patience))
	return &request{s, p.t}
}

// open begins a request with fields besides the usual ones.
func (p *peer) open(method, path string, fields ...string) *request {
	p.t.Helper()
	r := p.begin()
	r.send(frameOf(frameHeaders, section(append([]string{":method", method, ":scheme", "https", ":authority", "h", ":path", path}, fields...)...)))
	return r
}

// get is a whole request.
func (p *peer) get(path string, fields ...string) *reply {
	p.t.Helper()
	r := p.open("GET", path, fields...)
	r.end()
	return r.reply()
}

// section encodes names and values in turn.
func section(fields ...string) []byte {
	var block bytes.Buffer
	coder := qpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		_ = coder.WriteField(qpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return block.Bytes()
}

func frameOf(kind uint64, payload []byte) []byte {
	return append(appendFrame(nil, kind, len(payload)), payload...)
}

func dataOf(text string) []byte { return frameOf(frameData, []byte(text)) }

func (r *request) send(b ...[]byte) {
	r.t.Helper()
	for _, p := range b {
		if _, err := r.Write(p); err != nil {
			return // the peer has had enough, as the test will see
		}
	}
}

func (r *request) end() { _ = r.Close() }

// reply is what came back.
type reply struct {
	status   string
	fields   map[string]string
	interim  []string
	body     []byte
	trailers map[string]string
	err      error // nil: it ended in order
}

// reset is the code with which it ended instead.
func (r *reply) reset() Code {
	if reset, ok := errors.AsType[*quic.StreamError](r.err); ok && reset.Remote {
		return Code(reset.ErrorCode)
	}
	return 0
}

// reply reads up to the end.
func (r *request) reply() *reply {
	r.t.Helper()
	all, err := io.ReadAll(r)
	out := &reply{err: err}
	for len(all) > 0 {
		kind, length, n := parseFrame(all)
		if n == 0 || uint64(len(all)-n) < length {
			if err == nil {
				r.t.Errorf("%d bytes of a frame that is cut short", len(all))
			}
			break
		}
		out.take(r.t, kind, all[n:n+int(length)])
		all = all[n+int(length):]
	}
	return out
}

func (r *reply) take(t testing.TB, kind uint64, payload []byte) {
	t.Helper()
	switch kind {
	case frameData:
		r.body = append(r.body, payload...)
	case frameHeaders:
		fields := map[string]string{}
		next := qpack.NewDecoder().Decode(payload)
		for f, err := next(); err == nil; f, err = next() {
			fields[f.Name] = f.Value
		}
		switch status := fields[":status"]; {
		case status == "":
			r.trailers = fields
		case status < "200":
			r.interim = append(r.interim, status)
		default:
			r.status, r.fields = status, fields
		}
	default:
		t.Errorf("a frame of type %d", kind)
	}
}
