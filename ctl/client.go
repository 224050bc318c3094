package ctl

import (
	"google.golang.org/grpc"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// client speaks the control API with one target.
type client struct {
	where     destination
	conn      *grpc.ClientConn
	snapshots controlv1.SnapshotServiceClient
	events    controlv1.EventServiceClient
	inspect   controlv1.InspectServiceClient
	drains    controlv1.DrainServiceClient
}

// connect makes a client of where the flags say. Close it.
func (c *CLI) connect() (*client, error) {
	conn, d, err := c.dial()
	if err != nil {
		return nil, err
	}
	return &client{
		where: d, conn: conn,
		snapshots: controlv1.NewSnapshotServiceClient(conn),
		events:    controlv1.NewEventServiceClient(conn),
		inspect:   controlv1.NewInspectServiceClient(conn),
		drains:    controlv1.NewDrainServiceClient(conn),
	}, nil
}

// close ends the connection. What it could not deliver has failed already.
func (k *client) close() { _ = k.conn.Close() }
