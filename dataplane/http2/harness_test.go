package http2

import (
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers with what it was sent, body and trailers.
func echo(s *Stream) {
	var out message.Fields
	if f := s.Fault(); f != nil {
		out.Add([]byte("X-Fault"), []byte(f.Reason))
		_ = s.WriteResponseHead(f.Status, &out, true, 0)
		return
	}
	req := s.Request()
	out.Add([]byte("Content-Type"), []byte("text/plain"))
	for _, f := range req.Fields.All() {
		if f.ID == message.Other || f.ID == message.Cookie {
			out.Add(append([]byte("echo-"), f.Name...), f.Value)
		}
	}
	if req.Body.Kind == message.BodyLength {
		out.Add([]byte("Content-Length"), strconv.AppendInt(nil, req.Body.Length, 10))
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

// listen serves handle on a port of the loopback until the test ends.
func listen(t testing.TB, o Options, handle func(*Stream)) string {
	t.Helper()
	return listenWith(t, o, handle, func(error) {})
}

// listenWith is listen, and tells how each connection ended.
func listenWith(t testing.TB, o Options, handle func(*Stream), ended func(error)) string {
	t.Helper()
	return listenOver(t, o, handle, ended, func(c net.Conn) net.Conn { return c })
}

// listenOver is listenWith, with something between the socket and the wire.
func listenOver(t testing.TB, o Options, handle func(*Stream), ended func(error), over func(net.Conn) net.Conn) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	var mu sync.Mutex
	var servers []*Server
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s := NewServer(socket.New(over(c)), o, handle)
			mu.Lock()
			servers = append(servers, s)
			mu.Unlock()
			running.Go(func() { ended(s.Serve()) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, s := range servers {
			s.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return l.Addr().String()
}
