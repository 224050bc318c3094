package upstream

import (
	"context"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// askGRPC asks for the health of a service by grpc.health.v1, over HTTP/2, in
// clear text or over the TLS of the endpoint, of which grpc-go knows nothing.
// Anything but SERVING is a failure.
func (r *Registry) askGRPC(ctx context.Context, e *Endpoint, check *snapshot.HealthCheck) (ok bool, result string, err error) {
	d := dialer{endpoint: e}
	channel, err := grpc.NewClient("passthrough:///"+e.target,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(d.dial),
		grpc.WithAuthority(e.host(check)),
		grpc.WithUserAgent(r.options.UserAgent),
		grpc.WithNoProxy(), grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxProbeBody)),
		grpc.WithMaxHeaderListSize(maxProbeHead),
	)
	if err != nil {
		return false, "", err
	}
	defer func() { _ = channel.Close() }()
	answer, err := grpc_health_v1.NewHealthClient(channel).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: check.Service})
	switch {
	case err == nil:
		return answer.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING, answer.GetStatus().String(), nil
	case d.failure() != nil:
		return false, "", d.failure()
	case ctx.Err() != nil:
		return false, "", err
	}
	return false, "status " + status.Code(err).String(), nil
}

// dialer opens the connection of a probe and remembers why it could not: the
// status of the call has it as text alone.
type dialer struct {
	endpoint *Endpoint

	mu sync.Mutex
	// guarded by mu
	err error
}

func (d *dialer) dial(ctx context.Context, _ string) (net.Conn, error) {
	conn, _, err := d.endpoint.open(ctx, []string{"h2"})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
	return conn, err
}

func (d *dialer) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}
