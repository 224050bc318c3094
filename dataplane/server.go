// Package dataplane is the proxy as a whole. It is the only place that wires
// the rest together: it turns a compiled snapshot into sockets, live clusters
// and a generation of the engine, and makes that live by one pointer swap.
package dataplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/propagators/autoprop"

	"github.com/headgate/headgate/dataplane/admin"
	"github.com/headgate/headgate/dataplane/certificate"
	"github.com/headgate/headgate/dataplane/control"
	"github.com/headgate/headgate/dataplane/proxy"
	"github.com/headgate/headgate/dataplane/telemetry"
	"github.com/headgate/headgate/dataplane/upstream"
	"github.com/headgate/headgate/dataplane/upstream/resolve"
)

// Options say how a data plane is reached and where it keeps its state. The
// zero value has no control API and no admin pages and keeps nothing.
type Options struct {
	Control   string            // host:port or unix:/path of the control API; "": none
	Admin     string            // host:port of the admin pages; "": none
	StateDir  string            // of the last-known-good snapshots; "": memory only
	Node      string            // name; default the host's
	Labels    map[string]string // shown in Status; the one called "zone" says where the node is
	Version   string            // of the program
	Folder    string            // where relative paths of certificates begin; default the working directory
	Resolvers []string          // host or host:port of DNS servers; default those of /etc/resolv.conf
	Auth      control.Auth      // who may use the control API
	Logger    *slog.Logger      // default: discards
}

// Server is a data plane. New makes it, Run serves until its context ends.
type Server struct {
	options  Options
	started  time.Time
	logger   *slog.Logger
	engine   *proxy.Engine
	registry *upstream.Registry
	recorder *telemetry.Recorder
	store    *control.Store
	events   *control.EventLog
	applier  *control.Applier
	sockets  *sockets

	certificates *certificate.Store
	addresses    *resolve.File // nil: nothing is kept

	draining atomic.Bool
	ready    atomic.Bool

	control *control.Server
	lisCtl  net.Listener
	admin   *http.Server
	lisAdm  net.Listener

	background sync.WaitGroup
	end        context.CancelFunc
}

// New opens the state directory and binds the control API and the admin pages.
// Nothing is served before Run.
func New(ctx context.Context, o Options) (*Server, error) {
	o.fill()
	s := &Server{options: o, started: time.Now(), logger: o.Logger, engine: proxy.New(o.Logger)}
	s.sockets = newSockets(s.engine, o.Logger)
	var err error
	if s.recorder, err = telemetry.New(ctx, telemetry.Options{
		Version: o.Version, Node: o.Node, Shards: shards(), Logger: o.Logger,
	}); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	if s.store, err = control.OpenStore(o.StateDir); err != nil {
		return nil, errors.Join(err, s.recorder.Shutdown(ctx))
	}
	s.events = control.NewEventLog(o.Node, 0)
	if o.StateDir != "" {
		s.addresses = resolve.OpenFile(filepath.Join(o.StateDir, "addresses.json"), o.Logger)
	}
	s.registry = upstream.NewRegistry(upstream.Options{
		Shards: shards(), Zone: o.Labels[zoneLabel], Events: s.endpointChanged, Resolved: s.resolved, Logger: o.Logger,
		Resolve: resolve.Options{
			Lookup: resolve.NewClient(resolve.ClientOptions{Servers: o.Resolvers}).Lookup, Kept: s.addresses,
		},
	})
	drainer{s.registry}.restore(s.store.Drained())
	s.applier = control.NewApplier(control.ApplierOptions{
		Node: s, Store: s.store, Events: s.events, Tracer: s.recorder.Tracer(), Logger: o.Logger,
	})
	s.certificates = certificate.NewStore(certificate.Options{
		Folder: o.Folder, Issued: issuedDir(o.StateDir), Version: o.Version, Events: s.certificateChanged, Logger: o.Logger,
	})
	s.engine.Answer(s.certificates.Answer)
	s.recorder.Observe(instruments, s.observe)
	life, end := context.WithCancel(context.Background())
	s.end = end
	states := s.events.ReadNew()
	s.background.Go(func() { s.recordStates(life, states) })
	if err := s.listen(); err != nil {
		s.close(ctx)
		return nil, err
	}
	return s, nil
}

// zoneLabel is the label that says in which zone the node is.
const zoneLabel = "zone"

func (o *Options) fill() {
	if o.Node == "" {
		o.Node, _ = os.Hostname()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Version == "" {
		o.Version = "devel"
	}
}

// issuedDir is where certificates are kept that authorities gave; "": in memory.
func issuedDir(stateDir string) string {
	if stateDir == "" {
		return ""
	}
	return filepath.Join(stateDir, "acme")
}

// shards is in how many parts is kept what cores must not share.
func shards() int { return runtime.GOMAXPROCS(0) }

// listen binds the control API and the admin pages.
func (s *Server) listen() (err error) {
	if s.options.Control != "" {
		if s.lisCtl, err = control.Listen(s.options.Control, s.options.Auth); err != nil {
			return err
		}
		s.control = control.NewServer(control.Options{
			Applier: s.applier, Node: s, Tap: s.tap, Drainer: drainer{s.registry}, Logger: s.logger, Auth: s.options.Auth,
			Handler: otelgrpc.NewServerHandler(
				otelgrpc.WithTracerProvider(s.recorder.TracerProvider()),
				otelgrpc.WithMeterProvider(s.recorder.MeterProvider()),
				otelgrpc.WithPropagators(autoprop.NewTextMapPropagator()),
			),
		})
	}
	if s.options.Admin == "" {
		return nil
	}
	if s.lisAdm, err = net.Listen("tcp", s.options.Admin); err != nil {
		return fmt.Errorf("admin address: %w", err)
	}
	s.admin = &http.Server{
		Handler:           admin.Handler(s.adminOptions()),
		ReadHeaderTimeout: 10 * time.Second,
	}
	return nil
}

// ControlAddr is where the control API was bound; nil if there is none.
func (s *Server) ControlAddr() net.Addr { return addr(s.lisCtl) }

// AdminAddr is where the admin pages were bound; nil if there are none.
func (s *Server) AdminAddr() net.Addr { return addr(s.lisAdm) }

func addr(l net.Listener) net.Addr {
	if l == nil {
		return nil
	}
	return l.Addr()
}

// Apply makes a snapshot active, or says why not with a *control.Refusal.
func (s *Server) Apply(ctx context.Context, r control.Request) (*control.Result, error) {
	return s.applier.Apply(ctx, r)
}

// Restore makes the last snapshot active that is whole on disk. It reports
// whether there was one.
func (s *Server) Restore(ctx context.Context) (bool, error) {
	info, err := s.applier.Restore(ctx)
	return info != nil, err
}

// Run serves the control API and the admin pages until ctx ends, then drains
// the listeners and stops. hurry ends the drain at once.
func (s *Server) Run(ctx, hurry context.Context) error {
	failed := make(chan error, 2)
	if s.control != nil {
		go func() { failed <- s.control.Serve(s.lisCtl) }()
	}
	if s.admin != nil {
		go func() { failed <- s.admin.Serve(s.lisAdm) }()
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.stop(hurry)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// stop drains what clients use, then ends the rest.
func (s *Server) stop(hurry context.Context) {
	s.draining.Store(true)
	s.applier.Close()
	s.sockets.drainAll(hurry)
	s.close(context.WithoutCancel(hurry))
}

// flushTime bounds how long the last spans and metrics may take to leave.
const flushTime = 5 * time.Second

func (s *Server) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	s.applier.Close()
	if s.control != nil {
		s.control.Stop(ctx)
	} else if s.lisCtl != nil {
		_ = s.lisCtl.Close()
	}
	if s.admin != nil {
		_ = s.admin.Close()
	}
	s.engine.Close()
	s.registry.Close()
	if s.addresses != nil {
		s.addresses.Close()
	}
	s.certificates.Close()
	s.end()
	s.background.Wait()
	if err := s.recorder.Shutdown(ctx); err != nil {
		s.logger.Warn("telemetry", "error", err)
	}
	if err := s.store.Close(); err != nil {
		s.logger.Warn("state directory", "error", err)
	}
}

// Reopen opens log files anew after they were moved away, and reads
// certificates again.
func (s *Server) Reopen() error {
	s.certificates.Reload()
	return s.recorder.Reopen()
}
