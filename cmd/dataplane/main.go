// Command dataplane is the proxy. It serves what a snapshot says: one that a
// controller pushes, one from a file, or the last one that it ran.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/dataplane"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() { os.Exit(run(os.Args[1:])) }

// flags are the command line.
type flags struct {
	config   string
	logLevel slog.Level
	options  dataplane.Options
	token    string
	cert     string
	key      string
	clientCA string
}

func run(args []string) int {
	f := &flags{}
	code := exitDone
	cmd := &cobra.Command{
		Use:           "dataplane",
		Short:         "Serve HTTP as snapshots say",
		Args:          cobra.NoArgs,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(*cobra.Command, []string) error {
			if err := serve(f); err != nil {
				code = exitFailed
				return err
			}
			return nil
		},
	}
	f.bind(cmd)
	cmd.SetArgs(args)
	if err := cmd.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "dataplane:", err)
		if code == exitDone {
			code = exitUsage
		}
	}
	return code
}

func (f *flags) bind(cmd *cobra.Command) {
	p := cmd.Flags()
	p.StringVar(&f.config, "config", "", "manifest to run from, watched for changes (default: what is pushed, or was last run)")
	p.StringVar(&f.options.Control, "control", "127.0.0.1:7070", "address of the control API: host:port or unix:/path; empty for none")
	p.StringVar(&f.options.Admin, "admin", "127.0.0.1:7071", "address of the admin pages; empty for none")
	p.StringVar(&f.options.StateDir, "state-dir", "", "directory of the last-known-good snapshots (default: memory only)")
	p.StringVar(&f.options.Node, "node", "", "name of this node (default: the host's)")
	p.StringSliceVar(&f.options.Resolvers, "resolver", nil, "address of a DNS server, with a port if it is not 53; may be repeated (default: those of /etc/resolv.conf)")
	p.StringToStringVar(&f.options.Labels, "label", nil, "label of this node, key=value; may be repeated; zone=NAME has endpoints of that zone preferred")
	p.TextVar(&f.logLevel, "log-level", slog.LevelInfo, "debug, info, warn or error")
	p.StringVar(&f.token, "control-token-file", "", "file with the bearer token that controllers must send")
	p.StringVar(&f.cert, "control-cert", "", "certificate of the control API, PEM")
	p.StringVar(&f.key, "control-key", "", "private key of the control API, PEM")
	p.StringVar(&f.clientCA, "control-client-ca", "", "certificate authorities whose clients may use the control API, PEM")
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "devel"
	}
	return info.Main.Version
}

// serve runs the data plane until a signal ends it: the first drains, the
// second stops at once.
func serve(f *flags) error {
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: f.logLevel}))
	f.options.Logger, f.options.Version = logger, version()
	if f.config != "" {
		f.options.Folder = filepath.Dir(f.config)
	}
	if err := f.authenticate(); err != nil {
		return err
	}
	ctx, hurry, release := signals()
	defer release()
	s, err := dataplane.New(ctx, f.options)
	if err != nil {
		return err
	}
	running := make(chan error, 1)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { running <- s.Run(ctx, hurry) }()
	logger.Info("started", "control", text(s.ControlAddr()), "admin", text(s.AdminAddr()), "version", f.options.Version)
	if err := begin(ctx, s, f.config, logger); err != nil {
		stop()
		return errors.Join(err, <-running)
	}
	go reopenOnHangup(ctx, s, logger)
	return <-running
}

func text(a fmt.Stringer) string {
	if a == nil {
		return "none"
	}
	return a.String()
}

// signals gives a context that the first TERM or INT ends, and one that the
// second ends.
func signals() (ctx, hurry context.Context, release func()) {
	caught := make(chan os.Signal, 2)
	signal.Notify(caught, syscall.SIGTERM, syscall.SIGINT)
	ctx, drain := context.WithCancel(context.Background())
	hurry, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		for _, next := range []context.CancelFunc{drain, stop} {
			select {
			case <-caught:
				next()
			case <-done:
				return
			}
		}
	}()
	return ctx, hurry, func() {
		signal.Stop(caught)
		close(done)
		drain()
		stop()
	}
}

// reopenOnHangup opens log files anew at each HUP, as log rotation wants, and has
// certificates read again.
func reopenOnHangup(ctx context.Context, s *dataplane.Server, logger *slog.Logger) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			if err := s.Reopen(); err != nil {
				logger.Error("reopen", "error", err)
			}
		}
	}
}
