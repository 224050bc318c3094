package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

//go:embed peers
var configurations embed.FS

// target is a proxy that is measured. In its configuration and its command,
// {port}, {admin}, {backend}, {dir}, {name} and {conf} are filled in.
type target struct {
	name          string
	configuration string   // a file in peers/
	command       []string // run on proxyCore with GOMAXPROCS=1
	environment   []string // beside ours
	version       string   // the flag that makes it say its version
	peer          bool     // ratios are taken to the best of the peers
}

// proxies returns what is measured: the peers, then each of the data plane's
// programs, of which there may be two builds to compare or none, then, if
// asked for, a second nginx.
func proxies(dataplanes string, twin bool) []target {
	nginx := target{name: "nginx", configuration: "nginx.conf", command: []string{"nginx", "-c", "{conf}"}, version: "-v", peer: true}
	haproxy := target{name: "haproxy", configuration: "haproxy.cfg", command: []string{"haproxy", "-db", "-f", "{conf}"}, version: "-v", peer: true}
	list := []target{nginx, haproxy}
	for i, program := range strings.FieldsFunc(dataplanes, func(r rune) bool { return r == ',' }) {
		t := headgate(program)
		if i > 0 {
			t.name += "-" + strconv.Itoa(i+1)
		}
		list = append(list, t)
	}
	if twin {
		nginx.name, nginx.peer = "nginx-twin", false
		list = append(list, nginx)
	}
	return list
}

func headgate(program string) target {
	return target{
		name: "headgate", configuration: "headgate.yaml",
		command: []string{
			program, "--config", "{conf}", "--state-dir", "{dir}/{name}-state",
			"--control", "unix:{dir}/{name}.sock", "--admin", "127.0.0.1:{admin}",
		},
		environment: []string{
			"OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
			"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:{sink}",
		},
		version: "--version",
	}
}

// running is a target's processes and the load on them.
type running struct {
	target

	address string
	process *exec.Cmd
	ended   chan struct{} // closed once the process has ended and exit is set
	exit    error
	said    string // the file with what it wrote to stdout and stderr
	pids    []int  // its process and those below it
	load    *load
}

// site is where targets run.
type site struct {
	dir     string // for their files; a new one for each round
	backend int    // its port
	sink    int    // the port of the OTLP receiver
}

// start runs t and waits until it passes a request on.
func (s site) start(ctx context.Context, t target) (*running, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	conf := filepath.Join(s.dir, t.name+filepath.Ext(t.configuration))
	fill := strings.NewReplacer(
		"{port}", strconv.Itoa(ports[0]), "{admin}", strconv.Itoa(ports[1]), "{backend}", strconv.Itoa(s.backend),
		"{sink}", strconv.Itoa(s.sink), "{dir}", s.dir, "{name}", t.name, "{conf}", conf).Replace
	text, err := configurations.ReadFile("peers/" + t.configuration)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(conf, []byte(fill(string(text))), 0o600); err != nil {
		return nil, err
	}
	r := &running{target: t, address: fmt.Sprintf("127.0.0.1:%d", ports[0]), said: filepath.Join(s.dir, t.name+".out")}
	if err := r.run(ctx, fill); err != nil {
		return nil, fmt.Errorf("%s: %w", t.name, err)
	}
	if err := r.ready(); err != nil {
		r.stop()
		return nil, err
	}
	r.pids = descendants(r.process.Process.Pid)
	return r, nil
}

// run starts the process on its core. taskset becomes the proxy, so the
// process id is the proxy's own.
func (r *running) run(ctx context.Context, fill func(string) string) error {
	out, err := os.Create(r.said)
	if err != nil {
		return err
	}
	defer out.Close()
	arguments := []string{"-c", strconv.Itoa(proxyCore)}
	for _, word := range r.command {
		arguments = append(arguments, fill(word))
	}
	r.process = exec.CommandContext(ctx, "taskset", arguments...)
	r.process.Env = append(os.Environ(), "GOMAXPROCS=1", "PATH="+os.Getenv("PATH")+":/usr/sbin")
	for _, setting := range r.environment {
		r.process.Env = append(r.process.Env, fill(setting))
	}
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

// ready waits until the proxy answers as the backend does.
func (r *running) ready() error {
	const patience = 10 * time.Second
	probe, err := named(defaultScenario)
	if err != nil {
		return err
	}
	probe.connections = 1
	fault := errors.New("nothing tried")
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		select {
		case <-r.ended:
			return fmt.Errorf("%s ended (%w); it said: %s", r.name, r.exit, r.words())
		default:
		}
		l, err := connect(r.address, probe)
		if err != nil {
			fault = err
			continue
		}
		fault = l.once().fault
		l.close()
		if fault == nil {
			return nil
		}
	}
	return fmt.Errorf("%s does not pass requests on after %v: %w; it said: %s", r.name, patience, fault, r.words())
}

// words is the end of what the proxy wrote.
func (r *running) words() string {
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
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
