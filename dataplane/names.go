package dataplane

import (
	"fmt"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/upstream"
)

// resolved tells of the addresses of a cluster's name: to those who watch events
// if something is news, in the log, and, while they cannot be looked up, as what
// the active snapshot suffers from. It must not block.
func (s *Server) resolved(r upstream.Resolution) {
	s.recorder.Resolved(r.Cluster, r.Addresses)
	resource := &controlv1.ResourceName{Kind: controlv1.ResourceKind_RESOURCE_KIND_CLUSTER, Name: r.Cluster}
	if r.Trouble == "" {
		s.applier.Recover(resource)
	} else {
		s.applier.Degrade(resource, dnsTrouble(&r))
	}
	if r.First && r.Trouble == "" {
		return
	}
	s.events.Publish(&controlv1.Event{Time: timestamp(r.At), Detail: &controlv1.Event_Dns{Dns: dnsEvent(&r)}})
	if r.Trouble == "" {
		s.logger.Info("DNS", "cluster", r.Cluster, "name", r.Name, "cause", r.Cause, "addresses", len(r.Addresses))
	} else {
		s.logger.Warn("DNS fails", "cluster", r.Cluster, "name", r.Name, "cause", r.Trouble, "addresses", len(r.Addresses))
	}
}

func dnsEvent(r *upstream.Resolution) *controlv1.DnsEvent {
	event := &controlv1.DnsEvent{
		Cluster: r.Cluster, Name: r.Name, Healthy: r.Trouble == "", Cause: r.Cause,
		AddressCount: uint32(len(r.Addresses)), NextLookup: timestamp(r.Next),
	}
	if event.Cause == "" {
		event.Cause = r.Trouble
	}
	return event
}

// dnsTrouble is what is wrong, and what that means.
func dnsTrouble(r *upstream.Resolution) string {
	if len(r.Addresses) == 0 {
		return fmt.Sprintf("DNS has no address of %s: %s", r.Name, r.Trouble)
	}
	return fmt.Sprintf("DNS fails for %s: %s; the last good addresses are kept (%d)", r.Name, r.Trouble, len(r.Addresses))
}
