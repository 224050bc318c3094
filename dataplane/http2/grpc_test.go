package http2

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// relay carries a stream of our server over one of our client, both directions
// at once.
func relay(s *Stream, client *Client) {
	s.MayWait()
	up, err := client.NewStream()
	if err != nil {
		s.Reset(RefusedStream)
		return
	}
	defer up.Finish()
	s.OnReset(func() { up.Reset(Cancel) })
	defer s.OnReset(nil)
	req := s.Request()
	head := RequestHead{Method: req.MethodName, Authority: req.Authority, Target: req.Target, Fields: &req.Fields}
	if err := up.WriteRequestHead(&head, false, 0); err != nil {
		s.Reset(RefusedStream)
		return
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	sending.Go(func() { pass(s, up) })
	for {
		resp, err := up.ReadHead(0)
		if err != nil {
			s.Reset(Cancel)
			return
		}
		end := up.HeadOnly()
		if s.WriteResponseHead(resp.Status, &resp.Fields, end, 0) != nil || end {
			return
		}
		if resp.Status >= 200 {
			break
		}
	}
	pass(up, s)
}

// pass carries a body and its trailers.
func pass(from, to *Stream) {
	for {
		if b := from.Buffered(); len(b) > 0 {
			if _, err := to.WriteData(b, false, 0); err != nil {
				return
			}
			from.Consume(len(b))
		}
		switch err := from.Fill(0, 0); {
		case errors.Is(err, io.EOF):
			_ = to.WriteTrailers(from.Trailers(), 0)
			return
		case err != nil:
			to.Reset(Cancel)
			return
		}
	}
}

// words is a service whose messages are strings, in the codec below.
type words struct{ cancelled chan error }

type wordCodec struct{}

func (wordCodec) Name() string                    { return "words" }
func (wordCodec) Marshal(v any) ([]byte, error)   { return []byte(*v.(*string)), nil }
func (wordCodec) Unmarshal(b []byte, v any) error { *v.(*string) = string(b); return nil }

// chat sends each message back, and ends as it is told.
func (w *words) chat(_ any, stream grpc.ServerStream) error {
	stream.SetTrailer(metadata.Pairs("x-count", "done"))
	for {
		var word string
		if err := stream.RecvMsg(&word); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		switch word {
		case "fail":
			return status.Error(codes.DataLoss, "as told")
		case "hang":
			if err := stream.SendMsg(&word); err != nil {
				return err
			}
			<-stream.Context().Done()
			w.cancelled <- stream.Context().Err()
			return stream.Context().Err()
		}
		if err := stream.SendMsg(&word); err != nil {
			return err
		}
	}
}

// grpcThrough is a connection of grpc-go's client to grpc-go's server, with both
// of our sides between them.
func grpcThrough(t *testing.T) (*grpc.ClientConn, *words) {
	t.Helper()
	w := &words{cancelled: make(chan error, 1)}
	server := grpc.NewServer(grpc.ForceServerCodec(wordCodec{}))
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "words", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{
		{StreamName: "Chat", Handler: w.chat, ServerStreams: true, ClientStreams: true},
	}}, w)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() {
		server.Stop()
		running.Wait()
	})
	client := dial(t, l.Addr().String(), Options{})
	address := listen(t, Options{}, func(s *Stream) { relay(s, client) })
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodec(wordCodec{})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn, w
}

var chatDesc = &grpc.StreamDesc{StreamName: "Chat", ServerStreams: true, ClientStreams: true}

func TestGRPC(t *testing.T) {
	conn, w := grpcThrough(t)
	open := func(ctx context.Context) grpc.ClientStream {
		t.Helper()
		stream, err := conn.NewStream(ctx, chatDesc, "/words/Chat")
		if err != nil {
			t.Fatal(err)
		}
		return stream
	}
	say := func(stream grpc.ClientStream, word string) {
		t.Helper()
		if err := stream.SendMsg(&word); err != nil {
			t.Error(err)
		}
	}
	var heard string

	t.Run("ping pong", func(t *testing.T) {
		stream := open(t.Context())
		large := string(make([]byte, 300<<10))
		for _, word := range []string{"", "a", "bc", large, "d"} {
			say(stream, word)
			if err := stream.RecvMsg(&heard); err != nil || heard != word {
				t.Errorf("%d bytes, %v", len(heard), err)
			}
		}
		_ = stream.CloseSend()
		if err := stream.RecvMsg(&heard); !errors.Is(err, io.EOF) || stream.Trailer().Get("x-count")[0] != "done" {
			t.Errorf("%v, %v", err, stream.Trailer())
		}
	})
	t.Run("status in trailers alone", func(t *testing.T) {
		stream := open(t.Context())
		say(stream, "fail")
		if err := stream.RecvMsg(&heard); status.Code(err) != codes.DataLoss {
			t.Error(err)
		}
	})
	t.Run("no such method", func(t *testing.T) {
		word := "x"
		if err := conn.Invoke(t.Context(), "/words/None", &word, &heard); status.Code(err) != codes.Unimplemented {
			t.Error(err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		stream := open(ctx)
		say(stream, "hang")
		if err := stream.RecvMsg(&heard); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-w.cancelled; !errors.Is(err, context.Canceled) {
			t.Errorf("the server saw %v", err)
		}
	})
	t.Run("deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		stream := open(ctx)
		say(stream, "hang")
		err := stream.RecvMsg(&heard)
		if err == nil {
			err = stream.RecvMsg(&heard)
			<-w.cancelled
		}
		if status.Code(err) != codes.DeadlineExceeded {
			t.Error(err)
		}
	})
	t.Run("many", func(t *testing.T) {
		var calls sync.WaitGroup
		for range 50 {
			calls.Go(func() {
				for range 5 {
					stream, err := conn.NewStream(t.Context(), chatDesc, "/words/Chat")
					if err != nil {
						t.Error(err)
						return
					}
					word, heard := "hello", ""
					_ = stream.SendMsg(&word)
					_ = stream.CloseSend()
					if err := stream.RecvMsg(&heard); err != nil || heard != word {
						t.Errorf("%q, %v", heard, err)
					}
					if err := stream.RecvMsg(&heard); !errors.Is(err, io.EOF) {
						t.Error(err)
					}
				}
			})
		}
		calls.Wait()
	})
}
