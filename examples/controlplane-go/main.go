// Command controlplane-go is a control plane: it pushes a snapshot, says what becomes of it, and prints health events.
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	config "github.com/headgate/headgate/gen/headgate/config/v1"
	control "github.com/headgate/headgate/gen/headgate/control/v1"
)

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: controlplane-go CONTROL-ADDRESS LISTEN-ADDRESS RED BLUE")
	}
	conn, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(err)
	push(control.NewSnapshotServiceClient(conn), os.Args[2], os.Args[3], os.Args[4])
	watch(control.NewEventServiceClient(conn), control.EventKind_EVENT_KIND_ENDPOINT_HEALTH)
}

func push(snapshots control.SnapshotServiceClient, listen, red, blue string) {
	probe := &config.HealthCheck{UnhealthyThreshold: new(uint32(1)), Probe: &config.HealthCheck_Http{Http: &config.HttpProbe{Path: "/healthz"}}}
	colours := &config.Cluster{Name: "colours", HealthCheck: probe, Endpoints: []*config.Endpoint{{Address: red, Weight: new(uint32(3))}, {Address: blue}}}
	stream, err := snapshots.Push(context.Background())
	must(err)
	must(stream.Send(&control.PushRequest{Message: &control.PushRequest_Begin{Begin: &control.PushBegin{Version: "go-1"}}}))
	must(stream.Send(&control.PushRequest{Message: &control.PushRequest_Resources{Resources: &control.PushResources{Resources: []*control.Resource{
		{Resource: &control.Resource_Listener{Listener: &config.Listener{Name: "web", Address: listen}}},
		{Resource: &control.Resource_Cluster{Cluster: colours}},
		{Resource: &control.Resource_Route{Route: &config.Route{Name: "all", Action: &config.Route_Forward{Forward: &config.Forward{Backends: []*config.Backend{{Cluster: "colours"}}}}}}},
	}}}}))
	must(errors.Join(stream.Send(&control.PushRequest{Message: &control.PushRequest_Commit{Commit: &control.PushCommit{}}}), stream.CloseSend()))
	for m, err := stream.Recv(); !errors.Is(err, io.EOF); m, err = stream.Recv() {
		must(err)
		log.Println(m.GetUpdate().GetState(), m.GetUpdate().GetReason(), m.GetUpdate().GetViolations())
	}
}

func watch(events control.EventServiceClient, kinds ...control.EventKind) {
	stream, err := events.Watch(context.Background(), &control.WatchRequest{FromSequence: new(uint64), Follow: true, Kinds: kinds})
	must(err)
	for e, err := stream.Recv(); ; e, err = stream.Recv() {
		must(err)
		log.Println(e.GetEvent().GetEndpointHealth().GetEndpoint(), e.GetEvent().GetEndpointHealth().GetTo(), e.GetEvent().GetEndpointHealth().GetCause())
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
