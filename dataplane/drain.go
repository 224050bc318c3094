package dataplane

import (
	"errors"

	"google.golang.org/protobuf/types/known/timestamppb"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/control"
	"github.com/headgate/headgate/dataplane/upstream"
)

// drainer is the data plane as the control API drains it.
type drainer struct{ registry *upstream.Registry }

// MayDrain is part of control.Drainer.
func (d drainer) MayDrain(cluster, endpoint string, allowLast bool) error {
	switch err := d.registry.MayDrain(cluster, endpoint); {
	case errors.Is(err, upstream.ErrNoEndpoint):
		return control.NoEndpoint(cluster, endpoint)
	case errors.Is(err, upstream.ErrLastEndpoint) && !allowLast:
		return control.LastEndpoint(cluster, endpoint)
	case errors.Is(err, upstream.ErrManyDrained):
		return control.ManyDrained(err)
	}
	return nil
}

// Drain is part of control.Drainer.
func (d drainer) Drain(v control.Drained) { d.registry.Drain(upstream.Drain(v)) }

// Undrain is part of control.Drainer.
func (d drainer) Undrain(cluster, endpoint, writer, reason string) {
	d.registry.Undrain(cluster, endpoint, writer, reason)
}

// Endpoint is part of control.Drainer.
func (d drainer) Endpoint(cluster, endpoint string) *controlv1.EndpointStatus {
	status, ok := d.registry.Endpoint(cluster, endpoint)
	if !ok {
		return nil
	}
	return endpointStatus(&status)
}

// restore drains what was drained before a restart.
func (d drainer) restore(stored []control.Drained) {
	list := make([]upstream.Drain, len(stored))
	for i := range stored {
		list[i] = upstream.Drain(stored[i])
	}
	d.registry.RestoreDrained(list)
}

// list is what is drained, for the status of the node.
func (d drainer) list() (list []*controlv1.DrainedEndpoint) {
	drained := d.registry.Drained()
	for i := range drained {
		list = append(list, &controlv1.DrainedEndpoint{
			Cluster: drained[i].Cluster, Endpoint: drained[i].Endpoint, Drain: drainOf(&drained[i]),
		})
	}
	return list
}

func drainOf(d *upstream.Drain) *controlv1.Drain {
	if d == nil {
		return nil
	}
	return &controlv1.Drain{Writer: d.Writer, Reason: d.Reason, Since: timestamppb.New(d.Since)}
}
