package dataplane

import (
	"context"

	"github.com/headgate/headgate/dataplane/certificate"
	"github.com/headgate/headgate/dataplane/control"
	"github.com/headgate/headgate/dataplane/proxy"
	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/telemetry"
	"github.com/headgate/headgate/dataplane/upstream"
)

// prepared is a snapshot that has all it needs and is not live yet.
type prepared struct {
	server   *Server
	set      *certificate.Set
	clusters *upstream.Generation
	sockets  *preparedSockets
	view     *telemetry.View
	next     *proxy.Generation
}

// Prepare makes what a snapshot needs and the live one does not have, and waits
// until its clusters are warm. See control.Node.
func (s *Server) Prepare(ctx context.Context, snap *snapshot.Snapshot) (control.Prepared, error) {
	p := &prepared{server: s}
	var err error
	if p.set, err = s.prepareCertificates(snap); err != nil {
		return nil, err
	}
	if p.sockets, err = s.sockets.prepare(snap.Listeners, rulesOf(snap, p.set)); err != nil {
		return nil, err
	}
	p.clusters = s.registry.PrepareSecure(snap.Clusters, func(c *snapshot.Cluster) *certificate.Client {
		return clientOf(c, p.set)
	})
	if err := p.clusters.Warm(ctx); err != nil {
		p.Abort()
		return nil, err
	}
	clusters := make([]*upstream.Cluster, len(snap.Clusters))
	for i := range clusters {
		clusters[i] = p.clusters.Cluster(i)
	}
	p.view = s.recorder.View(snap)
	p.next = proxy.NewGeneration(snap, clusters, p.view, p.sockets.places, s.engine.Live())
	return p, nil
}

// Abort undoes Prepare.
func (p *prepared) Abort() {
	p.server.registry.Abort(p.clusters)
	p.server.sockets.abort(p.sockets)
}

// Commit makes the snapshot live for all requests that begin from now on.
func (p *prepared) Commit(uint64) {
	s := p.server
	s.certificates.Commit(p.set)
	s.registry.Commit(p.clusters)
	s.recorder.Use(p.view)
	s.engine.Swap(p.next)
	s.sockets.commit(p.sockets)
	s.ready.Store(true)
}
