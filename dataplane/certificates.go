package dataplane

import (
	"errors"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/certificate"
	"github.com/headgate/headgate/dataplane/control"
	"github.com/headgate/headgate/dataplane/http3"
	"github.com/headgate/headgate/dataplane/listener"
	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/telemetry"
)

// The protocols that are offered by ALPN, the preferred one first.
var (
	downstreamProtocols = []string{"h2", "http/1.1"}
	quicProtocols       = []string{http3.Protocol}
	upstreamProtocols   = []string{"http/1.1"}
)

// prepareCertificates reads the certificates that are new. The error names the
// fields at fault.
func (s *Server) prepareCertificates(snap *snapshot.Snapshot) (*certificate.Set, error) {
	sources := sourcesOf(snap)
	bundles := make([]certificate.BundleSource, len(snap.Bundles))
	for i, b := range snap.Bundles {
		bundles[i] = b.Source
	}
	set, faults := s.certificates.Prepare(sources, bundles)
	var errs []error
	for _, f := range faults {
		errs = append(errs, &control.FieldError{Path: f.Path, Err: f.Err})
	}
	return set, errors.Join(errs...)
}

// sourcesOf lists the certificates and, of those that an authority gives, what
// they are used for.
func sourcesOf(snap *snapshot.Snapshot) []certificate.Source {
	shown, used, inClear := map[string]bool{}, map[string]bool{}, false
	for _, l := range snap.Listeners {
		if l.TLS == nil {
			inClear = inClear || l.Network == "tcp"
			continue
		}
		for _, name := range l.TLS.Certificates {
			shown[name], used[name] = true, true
		}
	}
	for _, c := range snap.Clusters {
		if c.TLS != nil {
			used[c.TLS.Certificate] = true
		}
	}
	sources := make([]certificate.Source, len(snap.Certificates))
	for i, c := range snap.Certificates {
		sources[i] = c.Source
		if c.Source.ACME != nil {
			a := *c.Source.ACME
			a.Used, a.HTTP, a.ALPN = used[c.Source.Name], inClear, shown[c.Source.Name]
			sources[i].ACME = &a
		}
	}
	return sources
}

// rulesOf says what comes before the first request on the connections of each
// listener.
func rulesOf(snap *snapshot.Snapshot, set *certificate.Set) []*listener.Rules {
	list := make([]*listener.Rules, len(snap.Listeners))
	for i, l := range snap.Listeners {
		list[i] = &listener.Rules{Proxy: l.ProxyProtocol, Trusted: l.Trusted, Timeout: l.HeaderTimeout}
		if l.TLS != nil {
			list[i].TLS = serverOf(l, set, downstreamProtocols).Config
		}
		if l.HTTP3 {
			list[i].QUIC = serverOf(l, set, quicProtocols).Config
		}
	}
	return list
}

func serverOf(l *snapshot.Listener, set *certificate.Set, protocols []string) *certificate.Server {
	options := certificate.ServerOptions{
		Name: l.Name, MinVersion: l.TLS.MinVersion, Protocols: protocols,
		Clients: set.Bundle(l.TLS.ClientBundle), Optional: l.TLS.ClientOptional,
	}
	for _, name := range l.TLS.Certificates {
		options.Certificates = append(options.Certificates, set.Certificate(name))
	}
	return set.NewServer(options)
}

// clientOf is how a cluster's endpoints are spoken to over TLS; nil: they are
// not.
func clientOf(c *snapshot.Cluster, set *certificate.Set) *certificate.Client {
	if c.TLS == nil {
		return nil
	}
	protocols := upstreamProtocols
	switch {
	case c.HTTP2:
		protocols = []string{"h2"}
	case c.ALPN:
		protocols = []string{"h2", "http/1.1"}
	}
	return set.NewClient(certificate.ClientOptions{
		ServerName: c.TLS.ServerName, Roots: set.Bundle(c.TLS.Bundle), Certificate: set.Certificate(c.TLS.Certificate),
		Insecure: c.TLS.InsecureSkipVerify, Protocols: protocols,
	})
}

// certificateChanged tells of a certificate in trouble, or well again: to those
// who watch events, in the log, and as what the active snapshot suffers from.
func (s *Server) certificateChanged(e certificate.Event) {
	resource := &controlv1.ResourceName{Kind: controlv1.ResourceKind_RESOURCE_KIND_CERTIFICATE, Name: e.Name}
	what := "certificate"
	if e.Kind == certificate.KindBundle {
		resource.Kind, what = controlv1.ResourceKind_RESOURCE_KIND_CA_BUNDLE, "CA bundle"
	}
	s.events.Publish(&controlv1.Event{Detail: &controlv1.Event_Certificate{Certificate: &controlv1.CertificateEvent{
		Certificate: e.Name, Healthy: e.Healthy, Cause: e.Cause, Expires: timestamp(e.Expires),
	}}})
	if e.Healthy {
		s.applier.Recover(resource)
	} else {
		s.applier.Degrade(resource, e.Cause)
	}
	switch {
	case e.Cause == "":
		s.logger.Info(what+" is well again", "name", e.Name, "expires", e.Expires)
	case e.Obtained:
		s.logger.Info(what, "name", e.Name, "cause", e.Cause)
	default:
		s.logger.Warn(what, "name", e.Name, "cause", e.Cause)
	}
}

// handshakes emits how connections came through to their first request.
func (s *sockets) handshakes(emit func(name string, value float64, labels ...telemetry.Label)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.bound {
		rules := b.rules.Load()
		if rules == nil || rules.Plain() {
			continue
		}
		name := telemetry.Label{Name: "headgate.listener", Value: b.config.Name}
		c := &b.counts
		emit("headgate.listener.tls.handshakes", float64(c.Handshakes.Load()), name)
		emit("headgate.listener.tls.resumed", float64(c.Resumed.Load()), name)
		for reason, n := range map[string]uint64{
			"proxy_line": c.ProxyLines.Load(), "timeout": c.Timeouts.Load(), "gone": c.Gone.Load(),
			"tls_certificate_error": c.Failed[certificate.BadCertificate].Load(),
			"tls_protocol_error":    c.Failed[certificate.BadProtocol].Load(),
			"tls_alert_received":    c.Failed[certificate.Alert].Load(),
		} {
			emit("headgate.listener.refused", float64(n), name, telemetry.Label{Name: "error.type", Value: reason})
		}
	}
}
