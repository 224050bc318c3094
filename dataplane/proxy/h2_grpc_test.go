package proxy_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// calls is a service that tells what it sees of its calls.
type calls struct {
	testgrpc.UnimplementedTestServiceServer
	began chan context.Context
	ended chan error
}

// EmptyCall waits until its call is over.
func (c *calls) EmptyCall(ctx context.Context, _ *testgrpc.Empty) (*testgrpc.Empty, error) {
	c.began <- ctx
	<-ctx.Done()
	c.ended <- ctx.Err()
	return nil, status.FromContextError(ctx.Err()).Err()
}

// UnaryCall gives the payload back, or the status that is asked for.
func (c *calls) UnaryCall(ctx context.Context, r *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	if s := r.GetResponseStatus(); s != nil {
		return nil, status.Error(codes.Code(s.GetCode()), s.GetMessage())
	}
	in, _ := metadata.FromIncomingContext(ctx)
	_ = grpc.SetHeader(ctx, metadata.Pairs("x-head", strings.Join(in.Get("x-sent"), "|"), "x-raw-bin", strings.Join(in.Get("x-raw-bin"), "|")))
	_ = grpc.SetTrailer(ctx, metadata.Pairs("x-trail", strings.Join(in.Get("x-sent"), "|"), "x-raw-bin", "\x00\xff"))
	return &testgrpc.SimpleResponse{Payload: r.GetPayload()}, nil
}

// FullDuplexCall gives each payload back as it comes, and ends as it is told.
func (c *calls) FullDuplexCall(s grpc.BidiStreamingServer[testgrpc.StreamingOutputCallRequest, testgrpc.StreamingOutputCallResponse]) error {
	c.began <- s.Context()
	for {
		r, err := s.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			c.ended <- err
			return err
		case r.GetResponseStatus() != nil:
			return status.Error(codes.Code(r.GetResponseStatus().GetCode()), r.GetResponseStatus().GetMessage())
		}
		if err := s.Send(&testgrpc.StreamingOutputCallResponse{Payload: r.GetPayload()}); err != nil {
			c.ended <- err
			return err
		}
	}
}

// within waits for what a server tells, within patience.
func within[T any](t *testing.T, told <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-told:
	case <-time.After(patience):
		t.Fatal("the server heard nothing")
	}
	return value
}

// callThrough is a client of grpc-go whose calls go through a data plane to a
// server of grpc-go.
func callThrough(t *testing.T) (*calls, testgrpc.TestServiceClient, *gate, *grpc.Server) {
	t.Helper()
	const large = 32 << 20
	c := &calls{began: make(chan context.Context, 1), ended: make(chan error, 1)}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(large))
	testgrpc.RegisterTestServiceServer(server, c)
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
	g := start(t, singleOver("HTTP/2", l.Addr().String()))
	conn, err := grpc.NewClient(g.listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(large)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return c, testgrpc.NewTestServiceClient(conn), g, server
}

// TestCallCancelled is case 15: the server hears at once of a call that is
// cancelled, whether it has answered yet or not.
func TestCallCancelled(t *testing.T) {
	c, client, g, _ := callThrough(t)
	for n, call := range []func(ctx context.Context){
		func(ctx context.Context) { _, _ = client.EmptyCall(ctx, &testgrpc.Empty{}) },
		func(ctx context.Context) {
			if s, err := client.FullDuplexCall(ctx); err == nil {
				_, _ = s.Recv()
			}
		},
		func(ctx context.Context) {
			s, err := client.FullDuplexCall(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			_ = s.Send(&testgrpc.StreamingOutputCallRequest{})
			_, _ = s.Recv()
			_, _ = s.Recv()
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var calling sync.WaitGroup
		calling.Go(func() { call(ctx) })
		within(t, c.began)
		since := time.Now()
		cancel()
		if err := within(t, c.ended); !errors.Is(err, context.Canceled) && status.Code(err) != codes.Canceled {
			t.Errorf("call %d: the server sees %v", n, err)
		}
		t.Logf("call %d: the server heard after %v", n, time.Since(since).Round(time.Millisecond))
		calling.Wait()
		if r := g.recent(n + 1)[n]; r.Reason != "client_gone" {
			t.Errorf("call %d: %+v", n, r)
		}
	}
}

// TestCallDeadline is a deadline of the client's: the server knows it, and hears
// that it has passed.
func TestCallDeadline(t *testing.T) {
	c, client, _, _ := callThrough(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := client.EmptyCall(ctx, &testgrpc.Empty{}); err == nil {
		t.Error("the call came to an end")
	}
	if _, ok := within(t, c.began).Deadline(); !ok {
		t.Error("the server knows no deadline")
	}
	if err := within(t, c.ended); err == nil {
		t.Error("the server heard nothing")
	}
}

// TestCallStatus is statuses of all codes, in trailers alone and behind messages,
// with messages that need an escape.
func TestCallStatus(t *testing.T) {
	c, client, g, _ := callThrough(t)
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		want := &testgrpc.EchoStatus{Code: int32(code), Message: "\tspace, 100% and Unicode ☺\r\n"}
		_, err := client.UnaryCall(t.Context(), &testgrpc.SimpleRequest{ResponseStatus: want})
		if s := status.Convert(err); s.Code() != code || s.Message() != want.GetMessage() {
			t.Errorf("%v: %v", code, err)
		}
		s, err := client.FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		within(t, c.began)
		if err := s.Send(&testgrpc.StreamingOutputCallRequest{}); err != nil {
			t.Error(err)
		}
		if _, err := s.Recv(); err != nil {
			t.Error(err)
		}
		_ = s.Send(&testgrpc.StreamingOutputCallRequest{ResponseStatus: want})
		_, err = s.Recv()
		if s := status.Convert(err); s.Code() != code || s.Message() != want.GetMessage() {
			t.Errorf("%v behind a message: %v", code, err)
		}
	}
	for _, r := range g.recent(32) {
		if r.Status != 200 || r.Reason != "" || r.Attempts != 1 {
			t.Errorf("%+v", r)
		}
	}
}

// clientThrough is callThrough for those who need nothing else of it.
func clientThrough(t *testing.T) testgrpc.TestServiceClient {
	t.Helper()
	_, client, g, _ := callThrough(t)
	t.Logf("through %s", g.listener.Addr())
	return client
}

// TestCallMetadata sends metadata and messages of all sizes both ways.
func TestCallMetadata(t *testing.T) {
	client := clientThrough(t)
	for _, size := range []int{0, 1, 1000, 16 << 10, 300 << 10, 4 << 20, 20 << 20} {
		var head, trail metadata.MD
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-sent", "a", "x-sent", "b", "x-raw-bin", "\x00\x01\xfe")
		sent := noise(size)
		r, err := client.UnaryCall(ctx, &testgrpc.SimpleRequest{Payload: &testgrpc.Payload{Body: sent}}, grpc.Header(&head), grpc.Trailer(&trail))
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if string(r.GetPayload().GetBody()) != string(sent) {
			t.Errorf("%d bytes came back, want %d", len(r.GetPayload().GetBody()), size)
		}
		if head.Get("x-head")[0] != "a|b" || head.Get("x-raw-bin")[0] != "\x00\x01\xfe" || trail.Get("x-trail")[0] != "a|b" || trail.Get("x-raw-bin")[0] != "\x00\xff" {
			t.Errorf("%v, %v", head, trail)
		}
	}
}

// TestCallsAtOnce has many calls at once over one connection, while snapshots go
// live: each gets its own answer.
func TestCallsAtOnce(t *testing.T) {
	_, client, g, _ := callThrough(t)
	config := singleOver("HTTP/2", g.upstreamOf())
	var calling sync.WaitGroup
	for n := range 50 {
		calling.Go(func() {
			for range 20 {
				sent := noise(1 + n*100)
				sent[0] = byte(n)
				r, err := client.UnaryCall(t.Context(), &testgrpc.SimpleRequest{Payload: &testgrpc.Payload{Body: sent}})
				if err != nil || string(r.GetPayload().GetBody()) != string(sent) {
					t.Errorf("%d: %v", n, err)
					return
				}
			}
		})
	}
	for range 20 {
		g.apply(config)
	}
	calling.Wait()
}

// upstreamOf is the address of the only endpoint.
func (g *gate) upstreamOf() string {
	return g.engine.Live().Snapshot.Clusters[0].Endpoints[0].Address
}

// TestCallServerGone is a server that is gone, and one that goes in the middle of
// calls: the client gets a status that says so, and never an end without one.
func TestCallServerGone(t *testing.T) {
	c, client, _, server := callThrough(t)
	s, err := client.FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	within(t, c.began)
	_ = s.Send(&testgrpc.StreamingOutputCallRequest{})
	if _, err := s.Recv(); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	within(t, c.ended)
	if _, err := s.Recv(); status.Code(err) != codes.Internal && status.Code(err) != codes.Unavailable {
		t.Errorf("in the middle: %v", err)
	}
	if _, err := client.UnaryCall(t.Context(), &testgrpc.SimpleRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("gone: %v", err)
	}
}
