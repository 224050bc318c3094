package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"text/template"
	"time"
)

// firstByte is how long the proxies wait for the head of an answer, and for a
// connection. It is what a request can lose to one frozen backend.
const firstByte = time.Second

// programDir is where the data plane's program is built, once.
var programDir = filepath.Join(os.TempDir(), fmt.Sprintf("headgate-e2e-%d", os.Getpid()))

var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(programDir, "dataplane")
	args := []string{"build", "-pgo=off", "-o", path}
	if raced {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "../../cmd/dataplane")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the data plane: %w: %s", err, out)
	}
	return path, nil
})

// proxy is a data plane or an nginx in front of the backends.
type proxy struct {
	*child
	address string
}

// setting is what a configuration says beside what all of them say.
type setting struct {
	Address   string // of the listener
	Backends  []string
	HTTP2     bool   // towards the backends
	Client2   bool   // the clients speak HTTP/2
	Retry     string // the route's retry policy; "": all is as it is by default
	Dir       string
	FirstByte time.Duration
}

// defaultsText says nothing that need not be said, but that an ejection is short,
// or nothing would happen for long.
const defaultsText = `
listeners: [{name: web, address: "{{.Address}}"}]
clusters:
  - name: app
    endpoints: [{{range $i, $b := .Backends}}{{if $i}}, {{end}}{address: "{{$b}}"}{{end}}]
    {{if .HTTP2}}http2: {}{{end}}
    outlierDetection: {ejectionTime: 0.2s}
routes: [{name: app, forward: {backends: [{cluster: app}]}}]
`

// headgateText is made for an operator who wants every request answered as long as
// one backend lives: each backend may be tried, all but the last may be put out
// of service, and the budget of retries is no less than the requests.
const headgateText = `
listeners: [{name: web, address: "{{.Address}}"}]
clusters:
  - name: app
    endpoints: [{{range $i, $b := .Backends}}{{if $i}}, {{end}}{address: "{{$b}}"}{{end}}]
    {{if .HTTP2}}http2: {}{{end}}
    panicThreshold: 0
    healthCheck: {http: {path: /healthz}, interval: 0.5s, timeout: 0.5s}
    outlierDetection: {ejectionTime: 0.2s, maxEjectionPercent: 100}
    timeouts: {connect: {{.FirstByte}}}
routes:
  - name: app
    forward:
      backends: [{cluster: app}]
      timeouts: {firstByte: {{.FirstByte}}}
      {{with .Retry}}retry: {{.}}{{end}}
`

// everyBackend is the policy that goes with it.
const everyBackend = `{attempts: 3, on: [connect-failure, reset-before-response, timeout], backoff: 0.005s, budgetPercent: 100}`

// startHeadgate runs the data plane.
func startHeadgate(t testing.TB, s setting) *proxy {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	text := headgateText
	if s.Retry == "" {
		text = defaultsText
	}
	conf := s.write(t, "routes.yaml", text)
	p := &proxy{spawn(t, exec.Command(path, "--config", conf, "--control", "", "--admin", "")), s.Address}
	p.ready(t, s.Client2)
	t.Cleanup(func() { p.drained(t) })
	return p
}

// drained ends the data plane as an operator does. The race detector has it exit
// with a status of its own.
func (p *proxy) drained(t testing.TB) {
	p.end(syscall.SIGTERM)
	if code := p.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the data plane ended with status %d; it said: %s", code, p.said)
	}
}

// nginxText gives nginx the same means: the same timeouts, each backend tried,
// and failed ones left alone for its shortest time.
const nginxText = `
daemon off;
worker_processes 1;
pid {{.Dir}}/pid;
error_log stderr crit;
events { worker_connections 1024; }
http {
  access_log off;
  client_body_temp_path {{.Dir}}/body;
  proxy_temp_path {{.Dir}}/proxy;
  fastcgi_temp_path {{.Dir}}/fastcgi;
  uwsgi_temp_path {{.Dir}}/uwsgi;
  scgi_temp_path {{.Dir}}/scgi;
  keepalive_requests 1000000;
  upstream app {
{{- range .Backends}}
    server {{.}} max_fails=5 fail_timeout=1s;
{{- end}}
    keepalive 64;
  }
  server {
    listen {{.Address}}{{if .Client2}} http2{{end}};
    location / {
      proxy_pass http://app;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_connect_timeout {{.FirstByte.Milliseconds}}ms;
      proxy_read_timeout {{.FirstByte.Milliseconds}}ms;
      proxy_next_upstream error timeout;
      proxy_next_upstream_tries 4;
    }
  }
}
`

func startNginx(t testing.TB, s setting) *proxy {
	t.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		path = "/usr/sbin/nginx"
	}
	s.Dir = t.TempDir()
	p := &proxy{spawn(t, exec.Command(path, "-c", s.write(t, "nginx.conf", nginxText))), s.Address}
	p.ready(t, s.Client2)
	t.Cleanup(func() { p.end(syscall.SIGTERM) })
	return p
}

// write fills a configuration in and returns its file.
func (s setting) write(t testing.TB, name, text string) string {
	t.Helper()
	s.FirstByte = firstByte
	var b bytes.Buffer
	if err := template.Must(template.New(name).Parse(text)).Execute(&b, s); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ready waits until the proxy passes a request on.
func (p *proxy) ready(t testing.TB, http2 bool) {
	t.Helper()
	l := &line{address: p.address, http2: http2}
	defer l.close()
	until(t, "an answer through "+filepath.Base(p.Path), func() bool {
		select {
		case <-p.ended:
			t.Fatalf("%s ended; it said: %s", p.Path, p.said)
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		return l.ask(ctx, http.MethodGet, shortPath, "ready").fault == nil
	})
}
