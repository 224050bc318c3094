package dataplane

import (
	"time"

	"github.com/headgate/headgate/dataplane/certificate"
	"github.com/headgate/headgate/dataplane/telemetry"
	"github.com/headgate/headgate/dataplane/upstream"
)

// instruments are what observe emits.
var instruments = []telemetry.Instrument{
	{Name: "headgate.listener.connections", Unit: "{connection}", Description: "Connections of clients that are open."},
	{Name: "headgate.listener.tls.handshakes", Unit: "{handshake}", Description: "TLS handshakes with clients that were finished.", Counter: true},
	{Name: "headgate.listener.tls.resumed", Unit: "{handshake}", Description: "Finished handshakes that resumed a session.", Counter: true},
	{Name: "headgate.listener.refused", Unit: "{connection}", Description: "Connections of clients that ended before their first request, by reason.", Counter: true},
	{Name: "headgate.certificate.expiry.timestamp", Unit: "s", Description: "When a certificate expires, in Unix time."},
	{Name: "headgate.ca_bundle.expiry.timestamp", Unit: "s", Description: "When the first certificate of a CA bundle expires, in Unix time."},
	{Name: "headgate.upstream.connections", Unit: "{connection}", Description: "Connections to an endpoint that are open."},
	{Name: "headgate.upstream.active_requests", Unit: "{request}", Description: "Requests at an endpoint that have no answer yet."},
	{Name: "headgate.upstream.healthy", Description: "1 where an endpoint may be used, 0 where probes failed or it is ejected."},
	{Name: "headgate.upstream.drained", Description: "1 where an endpoint was drained by hand."},
	{Name: "headgate.upstream.concurrency_limit", Unit: "{request}", Description: "Requests that may wait for a cluster, by a limit that follows latency."},
}

// observe is called when metrics are read.
func (s *Server) observe(emit func(name string, value float64, labels ...telemetry.Label)) {
	for _, l := range s.sockets.status() {
		emit("headgate.listener.connections", float64(l.Connections), telemetry.Label{Name: "headgate.listener", Value: l.Name})
	}
	s.sockets.handshakes(emit)
	s.certificates.Expiries(func(kind certificate.Kind, name string, at time.Time) {
		if kind == certificate.KindBundle {
			emit("headgate.ca_bundle.expiry.timestamp", float64(at.Unix()), telemetry.Label{Name: "headgate.ca_bundle", Value: name})
			return
		}
		emit("headgate.certificate.expiry.timestamp", float64(at.Unix()), telemetry.Label{Name: "headgate.certificate", Value: name})
	})
	clusters := s.registry.Status()
	for i := range clusters {
		c := &clusters[i]
		if c.Adaptive > 0 {
			emit("headgate.upstream.concurrency_limit", float64(c.Adaptive), telemetry.Label{Name: "headgate.cluster", Value: c.Name})
		}
		for j := range c.Endpoints {
			e := &c.Endpoints[j]
			labels := []telemetry.Label{{Name: "headgate.cluster", Value: c.Name}, {Name: "headgate.endpoint", Value: e.Address}}
			emit("headgate.upstream.connections", float64(e.ConnectionsIdle+e.ConnectionsActive), labels...)
			emit("headgate.upstream.active_requests", float64(e.InFlight), labels...)
			emit("headgate.upstream.healthy", healthy(e.State), labels...)
			emit("headgate.upstream.drained", oneIf(e.Drain != nil), labels...)
		}
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func healthy(s upstream.State) float64 {
	if s == upstream.StateUnhealthy || s == upstream.StateEjected {
		return 0
	}
	return 1
}
