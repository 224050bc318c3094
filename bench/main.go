// Command bench measures the data plane beside nginx and HAProxy, all on one
// machine of two cores: the proxies on one, the load and the backend on the
// other. README.md says how, and how to read what it prints.
package main

import (
	"bytes"
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
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

func main() {
	only := flag.String("only", defaultScenario, "scenarios to measure, separated by commas, or all")
	dataplane := flag.String("dataplane", "build/dataplane", "the data plane's program; several, separated by commas, are compared; may be empty")
	twin := flag.Bool("twin", false, "measure a second nginx too: how far it is from the first is how far to trust a ratio")
	md := flag.String("md", "", "a file for the table of all ratios, in Markdown")
	p := plan{}
	flag.StringVar(&p.profiles, "profiles", "", "a directory for a CPU profile of the data plane in each round")
	flag.IntVar(&p.rounds, "rounds", 5, "rounds; all proxies are started afresh in each")
	flag.IntVar(&p.cores, "cores", 1, "cores of each proxy; on a machine with fewer than twice as many the load is on some of them too")
	flag.DurationVar(&p.each, "each", 1200*time.Millisecond, "load on each proxy in a round")
	flag.DurationVar(&p.slice, "slice", 100*time.Millisecond, "load on one proxy before the next has its turn")
	flag.DurationVar(&p.warmUp, "warmup", 200*time.Millisecond, "load on each proxy in a round that is not counted")
	flag.DurationVar(&p.think, "think", 0, "how long the backend takes for an answer over HTTP/1.1; in the table it takes none")
	flag.Parse()
	list, err := chosen(*only)
	if err == nil && (flag.NArg() > 0 || p.rounds < 1 || p.slice <= 0) {
		err = errors.New("no arguments, one round or more, and a slice longer than nothing")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	if err := run(p, list, proxies(*dataplane, *twin), *md); err != nil {
		slog.Error("the benchmark ended", "error", err)
		os.Exit(1)
	}
}

// run measures every scenario, writes each result as it is there, and all of
// them in one table in the end.
func run(p plan, list []scenario, targets []target, md string) error {
	machine, err := layOut()
	if err != nil {
		return err
	}
	debug.SetGCPercent(400)
	// The proxies end with the thread that started them, which must not end before.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	where, err := prepare(p.think)
	if err != nil {
		return err
	}
	defer os.RemoveAll(where.dir)
	var head bytes.Buffer
	if err := describe(ctx, io.MultiWriter(os.Stdout, &head), p, targets); err != nil {
		return err
	}
	var results []result
	for _, s := range list {
		r, err := p.scenario(ctx, where, machine, targets, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if err := r.write(os.Stdout); err != nil {
			return err
		}
		results = append(results, *r)
	}
	if err := summarize(io.MultiWriter(os.Stdout, &head), results); err != nil {
		return err
	}
	if md != "" {
		err = os.WriteFile(md, head.Bytes(), 0o600)
	}
	return err
}

// scenario measures one scenario.
func (p plan) scenario(ctx context.Context, where site, machine layout, targets []target, s scenario) (_ *result, err error) {
	cores := s.cores
	if cores == 0 {
		cores = p.cores
	}
	if where.layout, err = machine.with(cores); err != nil {
		return nil, err
	}
	if err := where.layout.pinLoad(); err != nil {
		return nil, err
	}
	rounds := p.rounds
	if s.idle {
		rounds = 1 // memory does not change with the machine's mood
	}
	r := &result{scenario: s, targets: s.takesPart(targets)}
	for range rounds {
		samples, err := p.round(ctx, where, r)
		if err != nil {
			return nil, err
		}
		r.rounds = append(r.rounds, samples)
	}
	return r, nil
}

// prepare starts what stands behind and beside the proxies.
func prepare(think time.Duration) (site, error) {
	b, err := startBackend(think)
	if err != nil {
		return site{}, err
	}
	s, err := startSink()
	if err != nil {
		return site{}, err
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return site{}, err
	}
	a, err := newAuthority(dir)
	return site{dir: dir, backend: b, sink: s, authority: a}, err
}

// describe heads the report with what one has to know to read it.
func describe(ctx context.Context, w io.Writer, p plan, targets []target) error {
	var names []string
	for _, t := range targets {
		if !t.largeBuffers {
			names = append(names, t.name+" "+versionOf(ctx, t))
		}
	}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s; %s; %s. %d rounds of %v each in slices of %v. Load average before: %s.\n",
		strings.Join(names, ", "), runtime.Version(), processor(), p.rounds, p.each, p.slice, strings.Join(strings.Fields(string(load))[:3], " "))
	return err
}

// processor is what the kernel calls the machine's cores, and how many there are.
func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "cores unknown"
	}
	_, after, _ := strings.Cut(string(info), "model name")
	line, _, _ := strings.Cut(after, "\n")
	return fmt.Sprintf("%d cores of %s", runtime.NumCPU(), strings.TrimLeft(line, "\t :"))
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
