package ctl

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/control"
	"github.com/headgate/headgate/dataplane/snapshot"
)

// nodeStarted is when every node of these tests says that it was started.
var nodeStarted = time.Date(2020, time.January, 2, 3, 0, 0, 0, time.UTC)

// scriptNode is a node as a script sees it: the control API's own server, on a
// data plane that carries no traffic.
type scriptNode struct {
	address string // where it is served
	state   string // state directory

	store   *control.Store // nil: it is stopped
	applier *control.Applier
	server  *control.Server
	served  chan struct{} // closed when the server has ended
}

func (n *scriptNode) start(memory bool) error {
	state := n.state
	if memory {
		state = ""
	}
	store, err := control.OpenStore(state)
	if err != nil {
		return err
	}
	listener, err := control.Listen(n.address, control.Auth{})
	if err != nil {
		return errors.Join(err, store.Close())
	}
	plane := &idlePlane{drained: store.Drained()}
	n.store, n.served = store, make(chan struct{})
	n.applier = control.NewApplier(control.ApplierOptions{
		Node: plane, Store: store, Events: control.NewEventLog("gate-1", 0),
	})
	if _, err := n.applier.Restore(context.Background()); err != nil {
		return err
	}
	n.server = control.NewServer(control.Options{Applier: n.applier, Node: plane, Drainer: plane})
	go func() {
		defer close(n.served)
		_ = n.server.Serve(listener)
	}()
	return nil
}

func (n *scriptNode) stop() {
	if n.store == nil {
		return
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	n.server.Stop(now)
	<-n.served
	n.applier.Close()
	_ = n.store.Close()
	n.store = nil
}

// publish makes the node say that an endpoint has failed.
func (n *scriptNode) publish(cause string) {
	n.applier.Events().Publish(&controlv1.Event{Detail: &controlv1.Event_EndpointHealth{
		EndpointHealth: &controlv1.EndpointHealthEvent{
			Cluster: "users", Endpoint: "127.0.0.1:9001", Cause: cause,
			From: controlv1.HealthState_HEALTH_STATE_HEALTHY, To: controlv1.HealthState_HEALTH_STATE_UNHEALTHY,
			NextProbe: timestamppb.New(time.Now().Add(5 * time.Second)),
		},
	}})
}

// idlePlane accepts every snapshot that needs no port 9, and does nothing with
// it. Its endpoints are healthy, but those on port 9003.
type idlePlane struct {
	mu   sync.Mutex
	live *snapshot.Snapshot // nil: none

	drained []control.Drained
}

func (p *idlePlane) Prepare(_ context.Context, s *snapshot.Snapshot) (control.Prepared, error) {
	for _, l := range s.Source.GetListeners() {
		if strings.HasSuffix(l.GetAddress(), ":9") {
			return nil, &control.FieldError{Path: "listeners[" + number(listenerIndex(s, l.GetName())) + "].address", Err: errors.New("address already in use")}
		}
	}
	return &idlePrepared{plane: p, next: s}, nil
}

func listenerIndex(s *snapshot.Snapshot, name string) int {
	for i, l := range s.Listeners {
		if l.Name == name {
			return i
		}
	}
	return -1
}

type idlePrepared struct {
	plane *idlePlane
	next  *snapshot.Snapshot
}

func (p *idlePrepared) Commit(uint64) {
	p.plane.mu.Lock()
	defer p.plane.mu.Unlock()
	p.plane.live = p.next
}

func (p *idlePrepared) Abort() {}

func (p *idlePlane) Status() *controlv1.StatusResponse {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := &controlv1.StatusResponse{Node: &controlv1.NodeStatus{
		Node: "gate-1", SoftwareVersion: "v0.1.0", StartedTime: timestamppb.New(nodeStarted), Connections: 3, RequestsInFlight: 1,
	}}
	for _, d := range p.drained {
		answer.Node.Drained = append(answer.Node.Drained, &controlv1.DrainedEndpoint{Cluster: d.Cluster, Endpoint: d.Endpoint, Drain: drainOf(d)})
	}
	if p.live == nil {
		return answer
	}
	for _, l := range p.live.Source.GetListeners() {
		answer.Listeners = append(answer.Listeners, &controlv1.ListenerStatus{
			Name: l.GetName(), Addresses: []string{"127.0.0.1:8080"}, Connections: 3, Accepted: 40,
		})
	}
	for _, c := range p.live.Clusters {
		answer.Clusters = append(answer.Clusters, p.clusterStatus(c))
	}
	return answer
}

func drainOf(d control.Drained) *controlv1.Drain {
	return &controlv1.Drain{Writer: d.Writer, Reason: d.Reason, Since: timestamppb.New(nodeStarted)}
}

func (p *idlePlane) clusterStatus(c *snapshot.Cluster) *controlv1.ClusterStatus {
	status := &controlv1.ClusterStatus{Name: c.Name, EndpointCount: uint32(len(c.Endpoints))}
	for i := range c.Endpoints {
		e := &controlv1.EndpointStatus{
			Address: c.Endpoints[i].Address, Weight: uint32(c.Endpoints[i].Weight), Zone: c.Endpoints[i].Zone,
			Health: controlv1.HealthState_HEALTH_STATE_HEALTHY, Since: timestamppb.New(nodeStarted), Requests: 12,
			Connections: 2, IdleConnections: 1, WeightPercent: 100, Latency: durationpb.New(12345 * time.Microsecond), SuccessRatio: new(1.0),
		}
		for _, d := range p.drained {
			if d.Cluster == c.Name && d.Endpoint == e.Address {
				e.Drain = drainOf(d)
			}
		}
		if strings.HasSuffix(e.Address, ":9003") {
			e.Health, e.LastCause = controlv1.HealthState_HEALTH_STATE_UNHEALTHY, "2 active probes failed: connection refused"
			e.Failures, e.SuccessRatio, e.Latency, e.WeightPercent = 2, new(0.8336), durationpb.New(3*time.Second), 40
			e.LastEvidence, e.Ejections, e.PendingRequests = "GET /healthz: connection refused in 1ms", 1, 4
			e.Circuit = controlv1.CircuitState_CIRCUIT_STATE_OPEN
		}
		status.Endpoints = append(status.Endpoints, e)
	}
	return status
}

// MayDrain is part of control.Drainer.
func (p *idlePlane) MayDrain(cluster, endpoint string, allowLast bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.live.Clusters {
		for i := range c.Endpoints {
			switch {
			case c.Name != cluster || c.Endpoints[i].Address != endpoint:
			case len(c.Endpoints) == 1 && !allowLast:
				return control.LastEndpoint(cluster, endpoint)
			default:
				return nil
			}
		}
	}
	return control.NoEndpoint(cluster, endpoint)
}

// Drain is part of control.Drainer.
func (p *idlePlane) Drain(d control.Drained) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drained = append(p.drained, d)
}

// Undrain is part of control.Drainer.
func (p *idlePlane) Undrain(cluster, endpoint, _, _ string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drained = slices.DeleteFunc(p.drained, func(d control.Drained) bool { return d.Cluster == cluster && d.Endpoint == endpoint })
}

// Endpoint is part of control.Drainer.
func (p *idlePlane) Endpoint(cluster, endpoint string) *controlv1.EndpointStatus {
	return findEndpoint(p.Status(), cluster, endpoint)
}
