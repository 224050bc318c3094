// Command bench measures the data plane beside nginx and HAProxy, all on one
// machine of two cores: the proxies on one, the load and the backend on the
// other. README.md says how, and how to read what it prints.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"
)

func main() {
	only := flag.String("only", defaultScenario, "scenarios to measure, separated by commas, or all")
	dataplane := flag.String("dataplane", "build/dataplane", "the data plane's program; several, separated by commas, are compared; may be empty")
	twin := flag.Bool("twin", false, "measure a second nginx too: how far it is from the first is how far to trust a ratio")
	p := plan{}
	flag.IntVar(&p.rounds, "rounds", 7, "rounds; all proxies are started afresh in each")
	flag.DurationVar(&p.each, "each", 2*time.Second, "load on each proxy in a round")
	flag.DurationVar(&p.slice, "slice", 100*time.Millisecond, "load on one proxy before the next has its turn")
	flag.DurationVar(&p.warmUp, "warmup", 300*time.Millisecond, "load on each proxy in a round that is not counted")
	flag.Parse()
	list, err := chosen(*only)
	if err == nil && (flag.NArg() > 0 || p.rounds < 1 || p.slice <= 0) {
		err = errors.New("no arguments, one round or more, and a slice longer than nothing")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	if err := run(p, list, proxies(*dataplane, *twin)); err != nil {
		slog.Error("the benchmark ended", "error", err)
		os.Exit(1)
	}
}

// run measures every scenario and writes each result as it is there.
func run(p plan, list []scenario, targets []target) error {
	if err := pinLoad(); err != nil {
		return err
	}
	// The proxies end with the thread that started them, which must not end before.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	where, received, err := prepare()
	if err != nil {
		return err
	}
	defer os.RemoveAll(where.dir)
	if err := describe(ctx, os.Stdout, p, targets); err != nil {
		return err
	}
	for _, s := range list {
		r := result{scenario: s, targets: targets}
		for range p.rounds {
			samples, err := p.round(ctx, where, targets, s)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			r.rounds = append(r.rounds, samples)
		}
		if err := r.write(os.Stdout); err != nil {
			return err
		}
	}
	_, err = fmt.Printf("\nTraces received from headgate: %d kB.\n", received.bytes.Load()/1024)
	return err
}

// prepare starts what stands behind and beside the proxies.
func prepare() (site, *sink, error) {
	b, err := startBackend()
	if err != nil {
		return site{}, nil, err
	}
	s, err := startSink()
	if err != nil {
		return site{}, nil, err
	}
	dir, err := os.MkdirTemp("", "bench")
	return site{dir: dir, backend: b.port(), sink: s.port()}, s, err
}

// describe heads the report with what one has to know to read it.
func describe(ctx context.Context, w io.Writer, p plan, targets []target) error {
	var names []string
	for _, t := range targets {
		names = append(names, t.name+" "+versionOf(ctx, t))
	}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "# bench\n\n%s; %s. %d rounds of %v each in slices of %v. Load average before: %s.\n",
		strings.Join(names, ", "), runtime.Version(), p.rounds, p.each, p.slice, strings.Join(strings.Fields(string(load))[:3], " "))
	return err
}

// versionOf finds the version in the first line of what the program says of it:
// "nginx version: nginx/1.22.1", "HAProxy version 2.6.12 2023/12/16", or
// "dataplane version (devel)".
func versionOf(ctx context.Context, t target) string {
	for _, dir := range []string{"", "/usr/sbin/"} {
		said, err := exec.CommandContext(ctx, dir+t.command[0], t.version).CombinedOutput()
		if err != nil {
			continue
		}
		line, _, _ := strings.Cut(string(said), "\n")
		if _, after, ok := strings.Cut(line, "version"); ok && strings.TrimSpace(after) != "" {
			version := strings.Fields(strings.TrimPrefix(after, ":"))[0]
			return strings.TrimPrefix(version, "nginx/")
		}
	}
	return "of unknown version"
}
