package ctl

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// describeEvent is an event as a kind and one line for people.
func describeEvent(e *controlv1.Event) (kind, text string) {
	switch d := e.GetDetail().(type) {
	case *controlv1.Event_EndpointHealth:
		return "endpoint-health", healthText(d.EndpointHealth)
	case *controlv1.Event_Ejection:
		return "ejection", ejectionText(d.Ejection)
	case *controlv1.Event_Circuit:
		return "circuit", circuitText(d.Circuit)
	case *controlv1.Event_Drain:
		return "drain", drainText(d.Drain)
	case *controlv1.Event_Snapshot:
		return "snapshot", snapshotText(d.Snapshot.GetUpdate())
	case *controlv1.Event_Certificate:
		return "certificate", certificateText(d.Certificate)
	case *controlv1.Event_Dns:
		return "dns", fmt.Sprintf("%s %s %s, %d addresses in use", d.Dns.GetCluster(), d.Dns.GetName(),
			works(d.Dns.GetHealthy(), d.Dns.GetCause()), d.Dns.GetAddressCount())
	case *controlv1.Event_RateLimit:
		return "rate-limit", "shared limits " + works(d.RateLimit.GetHealthy(), d.RateLimit.GetCause())
	case *controlv1.Event_Store:
		return "store", d.Store.GetCause()
	case *controlv1.Event_Gap:
		return "gap", gapText(d.Gap)
	}
	return "unknown", "an event of a kind that this ctl does not know"
}

func healthText(h *controlv1.EndpointHealthEvent) string {
	return fmt.Sprintf("%s %s %s -> %s%s%s", h.GetCluster(), h.GetEndpoint(), word(h.GetFrom()), word(h.GetTo()),
		because(h.GetCause()), at(", next probe", h.GetNextProbe()))
}

func ejectionText(e *controlv1.EjectionEvent) string {
	if !e.GetEjected() {
		return fmt.Sprintf("%s %s returns%s", e.GetCluster(), e.GetEndpoint(), because(e.GetCause()))
	}
	return fmt.Sprintf("%s %s ejected%s%s", e.GetCluster(), e.GetEndpoint(), because(e.GetCause()), at(", until", e.GetUntil()))
}

func circuitText(e *controlv1.CircuitEvent) string {
	return fmt.Sprintf("%s %s %s -> %s%s%s", e.GetCluster(), e.GetEndpoint(), word(e.GetFrom()), word(e.GetTo()),
		because(e.GetCause()), at(", next try", e.GetNextTry()))
}

func drainText(d *controlv1.DrainEvent) string {
	what := "is put back"
	if d.GetDrained() {
		what = "is drained"
	}
	if d.GetWriter() != "" {
		what += " by " + d.GetWriter()
	}
	return fmt.Sprintf("%s %s %s%s", d.GetCluster(), d.GetEndpoint(), what, because(d.GetCause()))
}

func snapshotText(u *controlv1.StateUpdate) string {
	text := fmt.Sprintf("%s: %s", word(u.GetState()), identity(u.GetSnapshot()))
	switch {
	case u.GetReason() != "":
		return text + ", " + u.GetReason()
	case u.GetState() == controlv1.SnapshotState_SNAPSHOT_STATE_REJECTED && len(u.GetViolations()) > 0:
		first := u.GetViolations()[0]
		return fmt.Sprintf("%s, %s, first %s: %s", text, plural(int(u.GetViolationCount()), "fault"), first.GetFieldPath(), first.GetMessage())
	case u.GetState() == controlv1.SnapshotState_SNAPSHOT_STATE_DEGRADED && len(u.GetDegradations()) == 0:
		return "works again as a whole: " + identity(u.GetSnapshot())
	case len(u.GetDegradations()) > 0:
		first := u.GetDegradations()[0]
		return fmt.Sprintf("%s, %s: %s", text, resourceName(first.GetResource()), first.GetReason())
	}
	return text
}

// certificateText says why, which is a sentence about the certificate: that it
// will expire soon is no trouble yet, and that it was obtained is none.
func certificateText(c *controlv1.CertificateEvent) string {
	if c.GetCause() == "" {
		return c.GetCertificate() + " " + works(c.GetHealthy(), "")
	}
	return c.GetCertificate() + " " + c.GetCause()
}

func gapText(g *controlv1.GapEvent) string {
	switch {
	case g.GetFrom() == 0 || g.GetTo() == 0:
		return "events are missing here"
	case g.GetFrom() == g.GetTo():
		return fmt.Sprintf("event %d is missing", g.GetFrom())
	}
	return fmt.Sprintf("events %d to %d are missing", g.GetFrom(), g.GetTo())
}

func works(healthy bool, cause string) string {
	if healthy {
		return "works again" + because(cause)
	}
	return "fails" + because(cause)
}

// at is a time of day behind a word, "" if there is none.
func at(title string, t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return title + " " + t.AsTime().Local().Format(time.TimeOnly)
}
