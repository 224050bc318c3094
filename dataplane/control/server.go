package control

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// Bounds of the server.
const (
	maxConnections = 512 // open; more wait to be accepted
	maxStreams     = 100 // on each connection
)

// Pings of both sides. A peer that is gone is noticed in 40 seconds.
const (
	pingAfter   = 30 * time.Second // without a frame from the peer
	pingTimeout = 10 * time.Second
	pingMinimum = 5 * time.Second // between pings of a client; faster ones are cut off
)

// Options are what a Server works with. Applier and Node are needed.
type Options struct {
	Applier *Applier
	Node    Node
	Tap     TapFunc       // nil: Tap is UNIMPLEMENTED
	Stats   StatsFunc     // nil: Stats is UNIMPLEMENTED
	Drainer Drainer       // nil: there is no DrainService
	Handler stats.Handler // of every call, for traces and metrics; nil: none
	Logger  *slog.Logger  // default: discards
	Auth    Auth
}

// Server serves the control API.
type Server struct {
	grpc     *grpc.Server
	health   *health.Server
	log      *slog.Logger
	auth     Auth
	stopping chan struct{} // closed by Stop: streams end
	stop     sync.Once
}

// NewServer returns a server that serves nothing yet.
func NewServer(o Options) *Server {
	s := &Server{health: health.NewServer(), log: o.Logger, auth: o.Auth, stopping: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.grpc = grpc.NewServer(s.options(o)...)
	controlv1.RegisterSnapshotServiceServer(s.grpc, &snapshotService{applier: o.Applier, stopping: s.stopping})
	controlv1.RegisterEventServiceServer(s.grpc, &eventService{log: o.Applier.Events(), stopping: s.stopping})
	controlv1.RegisterInspectServiceServer(s.grpc, &inspectService{
		applier: o.Applier, node: o.Node, tap: o.Tap, stats: o.Stats, stopping: s.stopping,
	})
	if o.Drainer != nil {
		controlv1.RegisterDrainServiceServer(s.grpc, &drainService{drainer: o.Drainer, store: o.Applier.Store()})
	}
	healthv1.RegisterHealthServer(s.grpc, s.health)
	for name := range s.grpc.GetServiceInfo() {
		s.health.SetServingStatus(name, healthv1.HealthCheckResponse_SERVING)
	}
	reflection.Register(s.grpc)
	return s
}

func (s *Server) options(o Options) []grpc.ServerOption {
	all := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(pingTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingMinimum, PermitWithoutStream: true}),
		grpc.InTapHandle(o.Auth.admit),
		grpc.ChainUnaryInterceptor(s.unary),
		grpc.ChainStreamInterceptor(s.streamed),
	}
	if o.Handler != nil {
		all = append(all, grpc.StatsHandler(o.Handler))
	}
	if o.Auth.TLS != nil {
		all = append(all, grpc.Creds(credentials.NewTLS(o.Auth.TLS)))
	}
	return all
}

// Serve accepts on l until Stop, which makes it return nil.
func (s *Server) Serve(l net.Listener) error {
	if tcp, ok := l.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() && s.auth.TLS == nil {
		s.log.Warn("the control API's token crosses the network in clear", "address", tcp.String())
	}
	err := s.grpc.Serve(netutil.LimitListener(l, maxConnections))
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// Stop ends all streams with UNAVAILABLE, lets calls end until ctx does, and
// returns once nothing runs any more.
func (s *Server) Stop(ctx context.Context) {
	s.stop.Do(func() { close(s.stopping) })
	s.health.Shutdown()
	cut := context.AfterFunc(ctx, s.grpc.Stop)
	defer cut()
	s.grpc.GracefulStop()
}

func (s *Server) unary(ctx context.Context, m any, i *grpc.UnaryServerInfo, next grpc.UnaryHandler) (out any, err error) {
	defer s.recovered(i.FullMethod, &err)
	return next(ctx, m)
}

func (s *Server) streamed(srv any, stream grpc.ServerStream, i *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer s.recovered(i.FullMethod, &err)
	return next(srv, stream)
}

// recovered makes a panic the end of one call and not of the process, which
// carries traffic.
func (s *Server) recovered(method string, err *error) {
	if v := recover(); v != nil {
		s.log.Error("panic in the control API", "method", method, "panic", v, "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "internal error; the node's log says more")
	}
}
