// Interop runs the interoperability tests of gRPC: their server, or one of their
// clients. A client that is not content ends the program with an error.
//
//	interop serve [CERTIFICATE KEY]    prints where it listens
//	interop call ADDRESS [CA NAME]     prints each case that is over
//
// With files it speaks TLS.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"
	_ "unsafe" // for a variable of gRPC that its own server sets too

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/orca"
)

// target is a server, and a way to make one more channel to it.
type target struct {
	address string
	dial    func(service string) (*grpc.ClientConn, error)
}

// cases are all that need no account in a cloud.
var cases = map[string]func(ctx context.Context, t target, conn *grpc.ClientConn) error{
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
	"unimplemented_method": func(ctx context.Context, _ target, conn *grpc.ClientConn) error {
		interop.DoUnimplementedMethod(ctx, conn)
		return nil
	},
	"unimplemented_service": func(ctx context.Context, _ target, conn *grpc.ClientConn) error {
		interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(conn))
		return nil
	},
	"pick_first_unary": measured("pick_first", interop.DoPickFirstUnary),
	"orca_per_rpc":     measured("test_backend_metrics_load_balancer", interop.DoORCAPerRPCTest),
	"orca_oob":         measured("test_backend_metrics_load_balancer", interop.DoORCAOOBTest),
	"rpc_soak": func(ctx context.Context, t target, conn *grpc.ClientConn) error {
		soak(ctx, t, func() (*grpc.ClientConn, func()) { return conn, func() {} })
		return nil
	},
	"channel_soak": func(ctx context.Context, t target, _ *grpc.ClientConn) error {
		var failed error
		soak(ctx, t, func() (*grpc.ClientConn, func()) {
			conn, err := t.dial("")
			failed = errors.Join(failed, err)
			return conn, func() { _ = conn.Close() }
		})
		return failed
	},
}

func plain(run func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption)) func(context.Context, target, *grpc.ClientConn) error {
	return func(ctx context.Context, _ target, conn *grpc.ClientConn) error {
		run(ctx, testgrpc.NewTestServiceClient(conn))
		return nil
	}
}

// measured runs a case over a channel of its own, with another way to balance.
func measured(policy string, run func(context.Context, testgrpc.TestServiceClient)) func(context.Context, target, *grpc.ClientConn) error {
	return func(ctx context.Context, t target, _ *grpc.ClientConn) error {
		conn, err := t.dial(`{"loadBalancingConfig": [{"` + policy + `": {}}]}`)
		if err != nil {
			return err
		}
		defer conn.Close()
		run(ctx, testgrpc.NewTestServiceClient(conn))
		return nil
	}
}

// soak runs many large calls, by the numbers of gRPC's own client, but for the time that
// one may take: a machine may be busy.
func soak(ctx context.Context, t target, channel func() (*grpc.ClientConn, func())) {
	interop.DoSoakTest(ctx, interop.SoakTestConfig{
		RequestSize: 271828, ResponseSize: 314159, Iterations: 10, NumWorkers: 1,
		PerIterationMaxAcceptableLatency: 20 * time.Second, OverallTimeout: 30 * time.Second,
		ServerAddr: t.address, ChannelForTest: channel,
	})
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) > 0 && args[0] == "serve":
		return serve(args[1:])
	case len(args) > 1 && args[0] == "call":
		return call(args[1], args[2:])
	}
	return errors.New("interop: serve or call")
}

// allowShortReports lets a server report its load each second, as the tests want.
//
//go:linkname allowShortReports google.golang.org/grpc/internal.ORCAAllowAnyMinReportingInterval
var allowShortReports any

// serve prints where it listens, and serves until it is killed.
func serve(files []string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	options := []grpc.ServerOption{orca.CallMetricsServerOption(nil), grpc.ChainUnaryInterceptor(named(l.Addr().String()))}
	if len(files) == 2 {
		secure, err := credentials.NewServerTLSFromFile(files[0], files[1])
		if err != nil {
			return err
		}
		options = append(options, grpc.Creds(secure))
	}
	s := grpc.NewServer(options...)
	recorder := orca.NewServerMetricsRecorder()
	reports := orca.ServiceOptions{MinReportingInterval: time.Second, ServerMetricsProvider: recorder}
	allowShortReports.(func(*orca.ServiceOptions))(&reports)
	if err := orca.Register(s, reports); err != nil {
		return err
	}
	testgrpc.RegisterTestServiceServer(s, interop.NewTestServer(interop.NewTestServerOptions{MetricsRecorder: recorder}))
	fmt.Println(l.Addr())
	return s.Serve(l)
}

// named says which server it is, where a call asks for that; grpc-go's server does not.
func named(id string) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		resp, err := handle(ctx, req)
		if asked, ok := req.(*testgrpc.SimpleRequest); ok && asked.GetFillServerId() && err == nil {
			resp.(*testgrpc.SimpleResponse).ServerId = id
		}
		return resp, err
	}
}

// call runs the cases against an address, and prints each that is over.
func call(address string, files []string) error {
	secure := insecure.NewCredentials()
	if len(files) == 2 {
		var err error
		if secure, err = credentials.NewClientTLSFromFile(files[0], files[1]); err != nil {
			return err
		}
	}
	t := target{address: address, dial: func(service string) (*grpc.ClientConn, error) {
		options := []grpc.DialOption{grpc.WithTransportCredentials(secure)}
		if service != "" {
			options = append(options, grpc.WithDefaultServiceConfig(service))
		}
		return grpc.NewClient(address, options...)
	}}
	conn, err := t.dial("")
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
		ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
		err := cases[name](ctx, t, conn)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Println(name)
	}
	return nil
}
