package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// running is a target's processes and the load on them.
type running struct {
	target

	at      endpoint // for the scenario's load
	process *exec.Cmd
	ended   chan struct{} // closed once the process has ended and exit is set
	exit    error
	said    string // the file with what it wrote to stdout and stderr
	pids    []int  // its process and those below it
	admin   int    // the port of its admin page, if it has one
	load    *load
}

// site is what stands behind and beside the proxies, and where their files are.
type site struct {
	dir       string // a new one for each round
	backend   *backend
	sink      *sink
	authority *authority
	layout    layout
}

// start runs t and waits until it passes the scenario's request on.
func (w *site) start(ctx context.Context, t target, s *scenario) (*running, error) {
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	set := &setting{
		Name: t.name, Conf: t.confFile(w.dir), Dir: w.dir, Port: ports[0], TLSPort: ports[1], Admin: ports[2],
		Backend: portOf(w.backend.http1), Calls: portOf(w.backend.http2), Sink: portOf(w.sink.listener),
		Certificate: w.authority.certificate, Key: w.authority.key, Both: w.authority.both,
		Cores: w.layout.cores, Log: s.log, Large: t.largeBuffers, Traced: s.traced,
	}
	r := &running{target: t, at: endpoint{port: set.Port}, admin: set.Admin, said: filepath.Join(w.dir, t.name+".out")}
	if s.tls {
		r.at = endpoint{port: set.TLSPort, tls: w.authority}
	}
	text, err := t.filled(set)
	if err == nil {
		err = os.WriteFile(set.Conf, []byte(text), 0o600)
	}
	if err == nil {
		err = r.run(ctx, set, w.layout)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.name, err)
	}
	if err := r.ready(ctx, s); err != nil {
		r.stop()
		return nil, err
	}
	r.pids = descendants(r.process.Process.Pid)
	return r, nil
}

// run starts the process on its cores. taskset becomes the proxy, so the
// process id is the proxy's own.
func (r *running) run(ctx context.Context, set *setting, on layout) error {
	out, err := os.Create(r.said)
	if err != nil {
		return err
	}
	defer out.Close()
	command, err := words(r.command, set)
	if err != nil {
		return err
	}
	environment, err := words(r.environment, set)
	if err != nil {
		return err
	}
	r.process = exec.CommandContext(ctx, "taskset", append([]string{"-c", on.proxy()}, command...)...)
	r.process.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(on.cores), "PATH="+os.Getenv("PATH")+":/usr/sbin")
	r.process.Env = append(r.process.Env, environment...)
	r.process.Stdout, r.process.Stderr = out, out
	r.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := r.process.Start(); err != nil {
		return err
	}
	r.ended = make(chan struct{})
	go func() {
		defer close(r.ended)
		r.exit = r.process.Wait()
	}()
	return nil
}

// ready waits until the proxy answers the scenario's request as the backend does.
func (r *running) ready(ctx context.Context, s *scenario) error {
	const patience = 10 * time.Second
	fault := errors.New("nothing tried")
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		select {
		case <-r.ended:
			return fmt.Errorf("%s ended (%w); it said: %s", r.name, r.exit, r.lastWords())
		default:
		}
		if fault = r.at.verify(ctx, s); fault == nil {
			return nil
		}
	}
	return fmt.Errorf("%s does not pass requests on after %v: %w; it said: %s", r.name, patience, fault, r.lastWords())
}

// lastWords is the end of what the proxy wrote.
func (r *running) lastWords() string {
	text, err := os.ReadFile(r.said)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

// stop ends the proxy and waits for it; one that does not heed TERM is killed.
func (r *running) stop() {
	if r.load != nil {
		r.load.close()
	}
	// An error means that it has ended already.
	_ = r.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-r.ended:
	case <-time.After(3 * time.Second):
		_ = r.process.Process.Kill()
		<-r.ended
	}
}

// freePorts asks the kernel for ports that nobody listens on. They are let go
// before they are used, so another process could still take one; the proxy then
// says so and ends.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, portOf(l))
	}
	return ports, nil
}
