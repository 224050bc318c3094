package proxy_test

import (
	"bufio"
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
	quichttp "github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"

	"github.com/headgate/headgate/dataplane/certificate/testca"
	"github.com/headgate/headgate/dataplane/http3"
	"github.com/headgate/headgate/dataplane/listener"
)

// partialDelivery has clients get what was sent before a reset.
var partialDelivery = &quic.Config{EnableStreamResetPartialDelivery: true}

// quicSide is how a gate is reached by HTTP/3.
type quicSide struct {
	*listener.Side
	socket  *http3.Socket
	client  *tls.Config
	accepts sync.WaitGroup
	quic    *http3.Listener
}

// overQUIC has the gate reached by HTTP/3 too, from now on.
func (g *gate) overQUIC() *quicSide {
	g.t.Helper()
	if g.side != nil {
		return g.side
	}
	socket, err := http3.Bind("127.0.0.1:0")
	if err != nil {
		g.t.Fatal(err)
	}
	ca := testca.New(g.t, "for HTTP/3")
	server := &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{http3.Protocol},
		Certificates: []tls.Certificate{ca.Issue([]string{"127.0.0.1", "h"}).TLS(g.t)},
	}
	s := &quicSide{Side: g.listener.NewSide(), socket: socket}
	s.client = &tls.Config{RootCAs: ca.Pool(), NextProtos: []string{http3.Protocol}, ServerName: "h"}
	s.quic, err = socket.Listen(&http3.Terms{
		TLS:     func() *tls.Config { return server },
		Admit:   func(netip.AddrPort) bool { return s.HasRoom() },
		Options: func() http3.Options { return g.engine.QUICOptions(0) },
	})
	if err != nil {
		g.t.Fatal(err)
	}
	s.accepts.Go(func() { g.accept(s) })
	g.side = s
	return s
}

func (g *gate) accept(s *quicSide) {
	for {
		c, err := s.quic.Accept()
		if err != nil {
			return
		}
		if !s.Start(func(n uint64) listener.Conn { return g.engine.NewQUICConn(c, 0, int(n%gateShards)) }) {
			_ = c.CloseWithError(0, "")
		}
	}
}

// drain ends the connections as those of a retired listener.
func (s *quicSide) drain(ctx context.Context) (cut int) {
	_ = s.quic.Close()
	s.accepts.Wait()
	return s.Drain(ctx)
}

// visitQUIC is visit over HTTP/3.
func visitQUIC(t testing.TB, g *gate) *visitor {
	t.Helper()
	s := g.overQUIC()
	transport := &quichttp.Transport{TLSClientConfig: s.client, QUICConfig: partialDelivery}
	t.Cleanup(func() { _ = transport.Close() })
	v := visit(t, g)
	v.Transport, v.base = transport, "https://"+s.socket.Addr().String()
	return v
}

// quicPeer is a client of HTTP/3 that does what the test says, frame by frame.
type quicPeer struct {
	t    testing.TB
	conn *quic.Conn
}

// quicFrames connects one. Its control stream is open.
func (g *gate) quicFrames() *quicPeer {
	g.t.Helper()
	s := g.overQUIC()
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		g.t.Fatal(err)
	}
	transport := &quic.Transport{Conn: udp}
	conn, err := transport.Dial(g.t.Context(), s.socket.Addr(), s.client, partialDelivery)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() {
		_ = conn.CloseWithError(0x100, "")
		_ = transport.Close()
		_ = udp.Close()
	})
	control, err := conn.OpenUniStream()
	if err != nil {
		g.t.Fatal(err)
	}
	if _, err := control.Write([]byte{0, 4, 0}); err != nil {
		g.t.Fatal(err)
	}
	return &quicPeer{t: g.t, conn: conn}
}

// quicRequest is one stream of a quicPeer.
type quicRequest struct {
	*quic.Stream
	t  testing.TB
	in *bufio.Reader // nil until something is read
}

// open begins a request with fields besides the usual ones.
func (p *quicPeer) open(end bool, method, path string, fields ...string) *quicRequest {
	p.t.Helper()
	all := append([]string{":method", method, ":scheme", "https", ":authority", "h", ":path", path}, fields...)
	return p.openWith(end, all...)
}

// openWith begins a request with these fields alone, names and values in turn.
func (p *quicPeer) openWith(end bool, fields ...string) *quicRequest {
	p.t.Helper()
	stream, err := p.conn.OpenStreamSync(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	r := &quicRequest{Stream: stream, t: p.t}
	r.headers(fields...)
	if end {
		_ = stream.Close()
	}
	return r
}

// headers sends a HEADERS frame.
func (r *quicRequest) headers(fields ...string) {
	r.t.Helper()
	var block bytes.Buffer
	coder := qpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		_ = coder.WriteField(qpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	r.frame(1, block.Bytes())
}

// frame sends a frame.
func (r *quicRequest) frame(kind uint64, payload []byte) {
	r.t.Helper()
	b := quicvarint.Append(quicvarint.Append(nil, kind), uint64(len(payload)))
	if _, err := r.Write(append(b, payload...)); err != nil {
		r.t.Error(err)
	}
}

// data sends a DATA frame.
func (r *quicRequest) data(text string) { r.frame(0, []byte(text)) }

// next reads the next frame.
func (r *quicRequest) next() (kind uint64, payload []byte, err error) {
	_ = r.SetReadDeadline(time.Now().Add(patience))
	if r.in == nil {
		r.in = bufio.NewReader(r)
	}
	if kind, err = quicvarint.Read(r.in); err != nil {
		return 0, nil, err
	}
	length, err := quicvarint.Read(r.in)
	if err != nil {
		return 0, nil, err
	}
	payload = make([]byte, length)
	_, err = io.ReadFull(r.in, payload)
	return kind, payload, err
}

// head reads up to the final head, and returns its status.
func (r *quicRequest) head() string {
	r.t.Helper()
	for {
		_, payload, err := r.next()
		if err != nil {
			r.t.Fatal(err)
		}
		if status := fieldsOf(payload)[":status"]; status >= "200" {
			return status
		}
	}
}

func fieldsOf(section []byte) map[string]string {
	fields := map[string]string{}
	next := qpack.NewDecoder().Decode(section)
	for f, err := next(); err == nil; f, err = next() {
		fields[f.Name] = f.Value
	}
	return fields
}

// quicReply is what came on a stream.
type quicReply struct {
	status   string
	fields   map[string]string
	body     string
	trailers map[string]string
	reset    http3.Code // 0: it ended in order
}

// reply reads up to the end.
func (r *quicRequest) reply() *quicReply {
	r.t.Helper()
	out := &quicReply{}
	for {
		kind, payload, err := r.next()
		if reset, ok := errors.AsType[*quic.StreamError](err); ok {
			out.reset = http3.Code(reset.ErrorCode)
			return out
		}
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			r.t.Fatal(err)
		}
		fields := fieldsOf(payload)
		switch {
		case kind == 0:
			out.body += string(payload)
		case fields[":status"] == "":
			out.trailers = fields
		case fields[":status"] >= "200":
			out.status, out.fields = fields[":status"], fields
		}
	}
}

// cancel gives the request up.
func (r *quicRequest) cancel() {
	r.CancelRead(quic.StreamErrorCode(http3.RequestCancelled))
	r.CancelWrite(quic.StreamErrorCode(http3.RequestCancelled))
}

// refused waits until the rest of the request is not wanted, and returns why.
func (r *quicRequest) refused() http3.Code {
	r.t.Helper()
	select {
	case <-r.Context().Done():
	case <-time.After(patience):
		r.t.Fatal("the rest of the request is still wanted")
	}
	stopped, ok := errors.AsType[*quic.StreamError](context.Cause(r.Context()))
	if !ok {
		r.t.Fatal(context.Cause(r.Context()))
	}
	return http3.Code(stopped.ErrorCode)
}

// serves holds that the connection still carries requests, with a backend that
// answers this one.
func (p *quicPeer) serves(b *backend) {
	p.t.Helper()
	r := p.open(true, "GET", "/still")
	up := b.accept()
	defer up.close()
	up.head()
	up.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nstill")
	if got := r.reply(); got.status != "200" || got.body != "still" {
		p.t.Errorf("the connection no longer serves: %+v", got)
	}
}
