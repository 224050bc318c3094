package http2

import (
	"net"
	"sync"
	"testing"

	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
)

// BenchmarkRequests is requests of a handler that answers at once, on 10
// connections of 32 streams, both sides of the wire being ours.
func BenchmarkRequests(b *testing.B) {
	fields := &message.Fields{}
	fields.Add([]byte("content-type"), []byte("text/plain"))
	fields.Add([]byte("content-length"), []byte("5"))
	address := listen(b, Options{}, func(s *Stream) {
		_ = s.WriteResponseHead(200, fields, false, 0)
		_, _ = s.WriteData([]byte("hello"), true, 0)
	})
	var work sync.WaitGroup
	calls := make(chan struct{}, 1024)
	for range 10 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			b.Fatal(err)
		}
		client := NewClient(socket.New(c), Options{})
		client.Start()
		defer func() {
			client.Close()
			<-client.Done()
		}()
		for range 32 {
			work.Go(func() {
				for range calls {
					get(b, client)
				}
			})
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		calls <- struct{}{}
	}
	close(calls)
	work.Wait()
	b.StopTimer()
}

var getFields = func() *message.Fields {
	f := &message.Fields{}
	f.Add([]byte("user-agent"), []byte("bench"))
	f.Add([]byte("accept"), []byte("*/*"))
	return f
}()

var benchHead = RequestHead{Method: []byte("GET"), Authority: []byte("test"), Target: []byte("/some/path"), Fields: getFields}

func get(tb testing.TB, client *Client) {
	s, err := client.NewStream()
	if err != nil {
		tb.Error(err)
		return
	}
	defer s.Finish()
	if err := s.WriteRequestHead(&benchHead, true, 0); err != nil {
		tb.Error(err)
		return
	}
	if _, err := s.ReadHead(0); err != nil {
		tb.Error(err)
		return
	}
	for s.Fill(0, 0) == nil {
		s.Consume(len(s.Buffered()))
	}
}

// BenchmarkRelay is gRPC-like calls through a relay of our two sides to a server
// of ours: four sides of the wire for each call.
func BenchmarkRelay(b *testing.B) {
	fields := &message.Fields{}
	fields.Add([]byte("content-type"), []byte("application/grpc"))
	trailers := &message.Fields{}
	trailers.Add([]byte("grpc-status"), []byte("0"))
	backend := dial(b, listen(b, Options{MaxConcurrentStreams: 1000}, func(s *Stream) {
		for s.Fill(0, 0) == nil {
			s.Consume(len(s.Buffered()))
		}
		_ = s.WriteResponseHead(200, fields, false, 0)
		_, _ = s.WriteData([]byte("hello"), false, 0)
		_ = s.WriteTrailers(trailers, 0)
	}), Options{MaxConcurrentStreams: 1000})
	if err := backend.AwaitSettings(socket.Now() + 1e9); err != nil {
		b.Fatal(err)
	}
	address := listen(b, Options{}, func(s *Stream) { relay(s, backend) })
	var work sync.WaitGroup
	calls := make(chan struct{}, 1024)
	for range 10 {
		client := dial(b, address, Options{})
		for range 32 {
			work.Go(func() {
				for range calls {
					get(b, client)
				}
			})
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		calls <- struct{}{}
	}
	close(calls)
	work.Wait()
	b.StopTimer()
}
