package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"syscall"
	"time"

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
	check    *snapshot.HealthCheck
	ok       bool
	result   string // "status 500", "connection refused"
	evidence string // "GET /healthz: status 500 in 3ms"
	next     int64  // when to probe again
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
	check := e.group.checkOf(e)
	if check == nil {
		return
	}
	start := socket.Now()
	status, err := r.ask(e, check)
	if r.stopped.Err() != nil {
		return
	}
	now := socket.Now()
	p := probe{
		check:  check,
		ok:     err == nil && expected(status, check.ExpectedStatuses),
		result: fmt.Sprintf("status %d", status),
		next:   max(now, health.Next(start, check.Interval, rand.Float64())),
	}
	if err != nil {
		p.result = reason(err, check.Timeout)
	}
	p.evidence = fmt.Sprintf("GET %s: %s in %s", check.Path, p.result, rounded(now-start))
	e.group.observe(e, p, now)
}

func expected(status int, ranges []snapshot.StatusRange) bool {
	for _, r := range ranges {
		if r.First <= status && status <= r.Last {
			return true
		}
	}
	return false
}

// ask sends the request of a check on a connection of its own. The error is
// context.DeadlineExceeded if there was no whole answer in time.
func (r *Registry) ask(e *Endpoint, check *snapshot.HealthCheck) (status int, err error) {
	ctx, cancel := context.WithTimeout(r.stopped, check.Timeout)
	defer cancel()
	conn, err := r.options.Dial(ctx, e.network, e.target)
	if err != nil {
		return 0, orTimeout(ctx, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() {
		if stop() {
			_ = conn.Close()
		}
	}()
	if _, err := io.WriteString(conn, r.question(e, check)); err != nil {
		return 0, orTimeout(ctx, err)
	}
	status, err = readAnswer(conn)
	return status, orTimeout(ctx, err)
}

// orTimeout is the error, or the context's if that is why it happened.
func orTimeout(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (r *Registry) question(e *Endpoint, check *snapshot.HealthCheck) string {
	host := check.Host
	switch {
	case host != "":
	case e.network == "unix":
		host = "localhost"
	default:
		host = e.target
	}
	return "GET " + check.Path + " HTTP/1.1\r\nHost: " + host +
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
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "..."
	}
	return text
}
