package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/headgate/headgate/dataplane/certificate"
	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/socket"
	"github.com/headgate/headgate/dataplane/upstream/health"
)

// The bounds on what a probe reads, in bytes. A body that is longer is left
// unread; that is no failure.
const (
	maxProbeHead = 64 << 10
	maxProbeBody = 64 << 10
)

var errLongHead = errors.New("the head is too long")

// probe is the result of one active check.
type probe struct {
	check  *snapshot.HealthCheck
	ok     bool
	result string // "status 500", "NOT_SERVING", "connection refused"
	took   int64  // nanoseconds
	next   int64  // when to probe again
}

// evidence is what was asked and what became of it: "GET /healthz: status 500 in 3ms".
func (p *probe) evidence() string {
	return fmt.Sprintf("%s: %s in %s", question(p.check), p.result, rounded(p.took))
}

// cause is the result as the reason for a change, after run like it in a row.
func (p *probe) cause(run int) string {
	plural, verb := "s", "failed"
	if run == 1 {
		plural = ""
	}
	if p.ok {
		verb = "passed"
	}
	return fmt.Sprintf("%d active probe%s %s: %s", run, plural, verb, p.result)
}

// probe checks an endpoint once. It runs on a worker of the schedule.
func (r *Registry) probe(e *Endpoint) {
	check, first := e.group.checkOf(e)
	if check == nil {
		return
	}
	start := socket.Now()
	p := probe{check: check}
	p.ok, p.result = r.ask(e, check)
	if r.stopped.Err() != nil {
		return
	}
	now := socket.Now()
	next := health.Next
	if first {
		next = health.Second
	}
	p.next = max(now, next(start, check.Interval, r.jitter()))
	p.took = now - start
	e.group.observe(e, p, now)
}

// question is what a check asks, in few words.
func question(check *snapshot.HealthCheck) string {
	switch check.Probe {
	case snapshot.ProbeGRPC:
		return strings.TrimSpace("grpc.health.v1 Check " + check.Service)
	case snapshot.ProbeTCP:
		return "connect"
	default:
		return "GET " + check.Path
	}
}

// ask does what a check says, on a connection of its own, within its timeout.
func (r *Registry) ask(e *Endpoint, check *snapshot.HealthCheck) (ok bool, result string) {
	ctx, cancel := context.WithTimeout(r.stopped, check.Timeout)
	defer cancel()
	var err error
	switch check.Probe {
	case snapshot.ProbeGRPC:
		ok, result, err = r.askGRPC(ctx, e, check)
	case snapshot.ProbeTCP:
		ok, result, err = askTCP(ctx, e)
	default:
		ok, result, err = r.askHTTP(ctx, e, check)
	}
	if err != nil {
		return false, reason(orTimeout(ctx, err), check.Timeout)
	}
	return ok, result
}

// askTCP is content with a connection.
func askTCP(ctx context.Context, e *Endpoint) (ok bool, result string, err error) {
	conn, _, err := e.open(ctx, nil)
	if err != nil {
		return false, "", err
	}
	_ = conn.Close()
	return true, "accepted", nil
}

func expected(status int, ranges []snapshot.StatusRange) bool {
	for _, r := range ranges {
		if r.First <= status && status <= r.Last {
			return true
		}
	}
	return false
}

// askHTTP sends a request, over HTTP/2 where that is spoken, and judges the
// status of the answer.
func (r *Registry) askHTTP(ctx context.Context, e *Endpoint, check *snapshot.HealthCheck) (ok bool, result string, err error) {
	var protocols []string // those of the cluster
	if check.HTTP2 {
		protocols = []string{protocolHTTP2}
	}
	conn, _, err := e.open(ctx, protocols)
	if err != nil {
		return false, "", err
	}
	if check.HTTP2 || spokenOver(conn) == protocolHTTP2 {
		return r.askHTTP2(ctx, conn, e, check)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() {
		if stop() {
			_ = conn.Close()
		}
	}()
	if _, err := io.WriteString(conn, r.request(e, check)); err != nil {
		return false, "", err
	}
	status, err := readAnswer(conn)
	return expected(status, check.ExpectedStatuses), fmt.Sprintf("status %d", status), err
}

// orTimeout is the error, or the context's if that is why it happened.
func orTimeout(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// host is what a check calls an endpoint.
func (e *Endpoint) host(check *snapshot.HealthCheck) string {
	switch {
	case check.Host != "":
		return check.Host
	case e.secure != nil && e.secure.ServerName() != "":
		return e.secure.ServerName()
	case e.network == "unix":
		return "localhost"
	}
	return e.target
}

func (r *Registry) request(e *Endpoint, check *snapshot.HealthCheck) string {
	return "GET " + check.Path + " HTTP/1.1\r\nHost: " + e.host(check) +
		"\r\nUser-Agent: " + r.options.UserAgent + "\r\nAccept: */*\r\nConnection: close\r\n\r\n"
}

// readAnswer reads a final response with its body, and returns its status.
func readAnswer(conn io.Reader) (status int, err error) {
	bounded := &io.LimitedReader{R: conn, N: maxProbeHead}
	in := bufio.NewReader(bounded)
	answer, err := http.ReadResponse(in, nil)
	for err == nil && answer.StatusCode < 200 && answer.StatusCode != http.StatusSwitchingProtocols {
		answer, err = http.ReadResponse(in, nil)
	}
	switch {
	case err != nil && bounded.N <= 0:
		return 0, errLongHead
	case err != nil:
		return 0, err
	}
	bounded.N = maxProbeBody
	if _, err := io.Copy(io.Discard, answer.Body); err != nil && bounded.N > 0 {
		return 0, fmt.Errorf("status %d, then the body was cut short: %w", answer.StatusCode, err)
	}
	return answer.StatusCode, nil
}

// maxReason bounds what is repeated of an error, in bytes: it may quote the peer.
const maxReason = 200

// reason is what went wrong, in few words.
func reason(err error, timeout time.Duration) string {
	var errno syscall.Errno
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout after " + timeout.String()
	case errors.As(err, &errno):
		return errno.Error()
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		return "connection closed before a whole answer"
	}
	text := err.Error()
	if fault := certificate.FaultOf(err); fault != certificate.NoFault {
		text = "TLS " + fault.String() + ": " + certificate.Reason(err)
	}
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "..."
	}
	return text
}
