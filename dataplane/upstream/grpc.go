package upstream

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/dataplane/http2"
	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/socket"
)

// channel is the connection that an endpoint is asked over by gRPC. It is kept
// from one probe to the next, as clients of gRPC keep theirs, and carries nothing
// else. Who has taken it uses it alone.
type channel struct {
	client  *http2.Client
	version uint64 // of the TLS
}

// takeChannel is the one of an endpoint that can still be used, or nil.
func (g *group) takeChannel(e *Endpoint) *channel {
	g.mu.Lock()
	c := e.channel
	e.channel = nil
	g.mu.Unlock()
	switch {
	case c == nil:
		return nil
	case !c.client.CanTake() || e.secure != nil && c.version != e.secure.Version():
		c.client.Close()
		return nil
	}
	return c
}

// keepChannel keeps it for the next probe, if there is to be one.
func (g *group) keepChannel(e *Endpoint, c *channel) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e.check == nil || e.check.Probe != snapshot.ProbeGRPC || e.channel != nil {
		c.client.Close()
		return
	}
	e.channel = c
}

// closeChannel is for an endpoint that is not asked by gRPC any more. The caller
// holds mu.
func (e *Endpoint) closeChannel() {
	if e.channel != nil {
		e.channel.client.Close()
		e.channel = nil
	}
}

// openChannel connects.
func (e *Endpoint) openChannel(ctx context.Context) (*channel, error) {
	conn, version, err := e.open(ctx, []string{protocolHTTP2})
	if err != nil {
		return nil, err
	}
	c := &channel{version: version}
	c.client = http2.NewClient(socket.New(conn), http2.Options{MaxHeaderBytes: maxProbeHead})
	c.client.Start()
	return c, nil
}

// askGRPC asks for the health of a service by grpc.health.v1. Anything but SERVING
// is a failure. That a connection which was kept is of no use any more is none.
func (r *Registry) askGRPC(ctx context.Context, e *Endpoint, check *snapshot.HealthCheck) (ok bool, result string, err error) {
	if c := e.group.takeChannel(e); c != nil {
		if ok, result, err = r.call(ctx, c, e, check); err == nil || ctx.Err() != nil {
			return ok, result, err
		}
	}
	c, err := e.openChannel(ctx)
	if err != nil {
		return false, "", err
	}
	return r.call(ctx, c, e, check)
}

// call asks over a connection, and keeps it if it gave an answer.
func (r *Registry) call(ctx context.Context, c *channel, e *Endpoint, check *snapshot.HealthCheck) (ok bool, result string, err error) {
	stop := context.AfterFunc(ctx, c.client.Close)
	ok, result, err = c.ask(ctx, r.healthHead(e, check), check.Service)
	if !stop() || err != nil {
		c.client.Close()
		return ok, result, err
	}
	e.group.keepChannel(e, c)
	return ok, result, nil
}

// healthHead is the head of the call.
func (r *Registry) healthHead(e *Endpoint, check *snapshot.HealthCheck) *http2.RequestHead {
	fields := new(message.Fields)
	for _, f := range [...][2]string{
		{"te", "trailers"}, {"content-type", "application/grpc"}, {"user-agent", r.options.UserAgent},
		{"grpc-timeout", strconv.FormatInt(max(1, check.Timeout.Milliseconds()), 10) + "m"},
	} {
		fields.Add([]byte(f[0]), []byte(f[1]))
	}
	return &http2.RequestHead{
		Method: []byte("POST"), HTTPS: e.secure != nil, Authority: []byte(e.host(check)),
		Target: []byte(grpc_health_v1.Health_Check_FullMethodName), Fields: fields,
	}
}

// grpcPrefix is what a message of gRPC begins with: a flag and its length.
const grpcPrefix = 5

var (
	errLongBody  = errors.New("the answer is too long")
	errNoMessage = errors.New("the answer is no message of gRPC")
)

// ask makes the call and judges the answer.
func (c *channel) ask(ctx context.Context, head *http2.RequestHead, service string) (ok bool, result string, err error) {
	deadline := int64(0)
	if d, limited := ctx.Deadline(); limited {
		deadline = socket.Now() + int64(time.Until(d))
	}
	body, err := proto.Marshal(&grpc_health_v1.HealthCheckRequest{Service: service})
	if err != nil {
		return false, "", err
	}
	body = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
	s, err := c.client.NewStream()
	if err != nil {
		return false, "", err
	}
	defer s.Finish()
	whole, err := s.WriteRequest(head, body, deadline)
	if err == nil && !whole {
		_, err = s.WriteData(body, true, deadline)
	}
	if err != nil {
		return false, "", late(err)
	}
	status, code, err := finalHead(s, deadline)
	if err != nil {
		return false, "", late(err)
	}
	answer, err := readAll(s, deadline)
	if code == "" {
		code = grpcCode(s.Trailers())
	}
	return judge(status, code, answer, late(err))
}

// finalHead is the status of the answer, and that of gRPC if it has no body.
func finalHead(s *http2.Stream, deadline int64) (status int, code string, err error) {
	for {
		head, err := s.ReadHead(deadline)
		if err != nil {
			return 0, "", err
		}
		if head.Status >= 200 {
			return head.Status, grpcCode(&head.Fields), nil
		}
	}
}

func grpcCode(fields *message.Fields) string {
	code, _ := fields.Lookup([]byte("grpc-status"))
	return string(code)
}

// readAll reads the body, within its bound.
func readAll(s *http2.Stream, deadline int64) (body []byte, err error) {
	for {
		body = append(body, s.Buffered()...)
		s.Consume(len(s.Buffered()))
		if len(body) > maxProbeBody {
			return nil, errLongBody
		}
		switch err := s.Fill(0, deadline); {
		case err == io.EOF:
			return body, nil
		case err != nil:
			return nil, err
		}
	}
}

// judge is what an answer says. A code of gRPC counts before all else.
func judge(status int, code string, body []byte, err error) (ok bool, result string, fault error) {
	if number, bad := strconv.ParseUint(code, 10, 8); bad == nil && number != 0 {
		return false, "status " + codes.Code(number).String(), nil
	}
	switch {
	case err != nil:
		return false, "", err
	case status != 200:
		return false, "status " + strconv.Itoa(status), nil
	case len(body) < grpcPrefix || body[0] != 0 || uint64(binary.BigEndian.Uint32(body[1:])) != uint64(len(body)-grpcPrefix):
		return false, "", errNoMessage
	}
	answer := new(grpc_health_v1.HealthCheckResponse)
	if err := proto.Unmarshal(body[grpcPrefix:], answer); err != nil {
		return false, "", errNoMessage
	}
	return answer.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING, answer.GetStatus().String(), nil
}

// late is the error as the context would say it, if it is that of a deadline.
func late(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return err
}
