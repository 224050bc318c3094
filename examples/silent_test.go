package examples_test

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestSilent(t *testing.T) {
	need(t, "curl")
	r := follow(t, "silent")
	// A connection of the request before is kept, so the next one will use it.
	r.connections(1)
	r.running["backend"].signal(syscall.SIGSTOP)
	r.refusedInTime("a reused connection")
	r.connections(0)
	r.refusedInTime("a fresh connection")
	r.running["backend"].signal(syscall.SIGCONT)
	r.check(step{"curl -s http://127.0.0.1:8080/", "red GET /\n"})
}

// refusedInTime asks a silent backend. The time is at least firstByte, and far
// from request.
func (r *tour) refusedInTime(over string) {
	r.t.Helper()
	out := r.must(`curl -si -w '\n%{time_total}' http://127.0.0.1:8080/`)
	if !strings.HasPrefix(out, "HTTP/1.1 504 ") || !like("...\nProxy-Status: ...error=http_response_timeout...\n...\n...").MatchString(strings.ReplaceAll(out, "\r", "")) {
		r.t.Errorf("over %s:\n%s", over, out)
	}
	seconds, err := strconv.ParseFloat(out[strings.LastIndex(out, "\n")+1:], 64)
	if err != nil || seconds < 0.5 || seconds > 30 {
		r.t.Errorf("over %s it took %v s, %v; want firstByte, which is 0.5 s", over, seconds, err)
	}
}

// connections checks how many connections to the endpoint there are.
func (r *tour) connections(want int) {
	r.t.Helper()
	status := r.status()
	if got := status.Clusters[0].Endpoints[0].Connections; got != uint64(want) {
		r.t.Fatalf("%d connections to the endpoint, want %d", got, want)
	}
}
