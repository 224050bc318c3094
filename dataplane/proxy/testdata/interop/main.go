// Interop runs the interoperability tests of gRPC: their server, or one of their
// clients. A client that is not content ends the program with an error.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// cases are those that need no account.
var cases = map[string]func(ctx context.Context, c testgrpc.TestServiceClient, conn *grpc.ClientConn){
	"empty_unary":                 plain(interop.DoEmptyUnaryCall),
	"large_unary":                 plain(interop.DoLargeUnaryCall),
	"client_streaming":            plain(interop.DoClientStreaming),
	"server_streaming":            plain(interop.DoServerStreaming),
	"ping_pong":                   plain(interop.DoPingPong),
	"empty_stream":                plain(interop.DoEmptyStream),
	"timeout_on_sleeping_server":  plain(interop.DoTimeoutOnSleepingServer),
	"cancel_after_begin":          plain(interop.DoCancelAfterBegin),
	"cancel_after_first_response": plain(interop.DoCancelAfterFirstResponse),
	"status_code_and_message":     plain(interop.DoStatusCodeAndMessage),
	"special_status_message":      plain(interop.DoSpecialStatusMessage),
	"custom_metadata":             plain(interop.DoCustomMetadata),
	"unimplemented_method": func(ctx context.Context, _ testgrpc.TestServiceClient, conn *grpc.ClientConn) {
		interop.DoUnimplementedMethod(ctx, conn)
	},
	"unimplemented_service": func(ctx context.Context, _ testgrpc.TestServiceClient, conn *grpc.ClientConn) {
		interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(conn))
	},
}

func plain(run func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption)) func(context.Context, testgrpc.TestServiceClient, *grpc.ClientConn) {
	return func(ctx context.Context, c testgrpc.TestServiceClient, _ *grpc.ClientConn) { run(ctx, c) }
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return serve()
	}
	return call(args[0])
}

// serve prints where it listens, and serves until it is killed.
func serve() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(s, interop.NewTestServer())
	fmt.Println(l.Addr())
	return s.Serve(l)
}

// call runs the cases against an address, and prints each that is over.
func call(address string) error {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	var names []string
	for name := range cases {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		cases[name](ctx, testgrpc.NewTestServiceClient(conn), conn)
		cancel()
		fmt.Println(name)
	}
	return nil
}
