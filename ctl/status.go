package ctl

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// maxStatusPages bounds how many pages of clusters are asked for: 1000 to a
// page, a million in all.
const maxStatusPages = 1000

func (c *CLI) statusVerb() *cobra.Command {
	return &cobra.Command{
		Use:     "status [CLUSTER...]",
		Short:   "Show how the node, its listeners and its endpoints fare",
		GroupID: groupLook,
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return c.completeNames(cmd, "clusters")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.withTimeout(cmd.Context())
			defer cancel()
			k, err := c.connect()
			if err != nil {
				return err
			}
			defer k.close()
			status, err := k.status(ctx, args)
			if err != nil {
				return failedCall(k.where, err)
			}
			return c.writeStatus(status)
		},
	}
}

// status collects the pages of a node's status into one.
func (k *client) status(ctx context.Context, clusters []string) (*controlv1.StatusResponse, error) {
	ask := &controlv1.StatusRequest{Clusters: clusters, PageSize: 1000}
	whole, err := k.inspect.Status(ctx, ask)
	if err != nil {
		return nil, err
	}
	for range maxStatusPages {
		if whole.GetNextPageToken() == "" {
			return whole, nil
		}
		ask.PageToken = whole.GetNextPageToken()
		page, err := k.inspect.Status(ctx, ask)
		if err != nil {
			return nil, err
		}
		whole.Clusters = append(whole.Clusters, page.GetClusters()...)
		whole.NextPageToken = page.GetNextPageToken()
	}
	return nil, fmt.Errorf("the status has over %d pages", maxStatusPages)
}

func (c *CLI) writeStatus(s *controlv1.StatusResponse) error {
	if c.structured() {
		return c.writeMessage(s)
	}
	if c.flags.output == formatName {
		fmt.Fprintln(c.stdout, "node/"+s.GetNode().GetNode())
		return nil
	}
	c.writeNode(s.GetNode())
	if len(s.GetListeners()) > 0 {
		fmt.Fprintln(c.stdout)
		listenerStatusTable(s.GetListeners()).write(c.stdout, c.wide())
	}
	if len(s.GetClusters()) > 0 {
		fmt.Fprintln(c.stdout)
		c.endpointTable(s.GetClusters()).write(c.stdout, c.wide())
	}
	return nil
}

// writeNode shows the node itself, a fact a line.
func (c *CLI) writeNode(n *controlv1.NodeStatus) {
	fact := func(title, layout string, args ...any) {
		fmt.Fprintf(c.stdout, "%-10s %s\n", title, printable(fmt.Sprintf(layout, args...)))
	}
	fact("node", "%s, version %s, up %s", n.GetNode(), n.GetSoftwareVersion(), c.since(n.GetStartedTime()))
	fact("state", "%s", nodeState(n))
	if active := n.GetSnapshot(); active != nil {
		fact("snapshot", "%s%s, %s ago", identity(active), byWriter(active), c.since(active.GetAppliedTime()))
	}
	fact("term", "%d", n.GetHighestTerm())
	fact("store", "%s", storeText(n.GetStore()))
	fact("traffic", "%s, %s in flight", plural(int(n.GetConnections()), "connection"), plural(int(n.GetRequestsInFlight()), "request"))
	fact("events", "%d so far", n.GetLastEventSequence())
	for _, d := range n.GetDrained() {
		fact("drained", "%s/%s, %s (since %s)", d.GetCluster(), d.GetEndpoint(), drainedBy(d.GetDrain()), c.since(d.GetDrain().GetSince()))
	}
	for _, d := range n.GetDegradations() {
		fact("degraded", "%s: %s (since %s)", resourceName(d.GetResource()), d.GetReason(), c.since(d.GetSince()))
	}
}

func nodeState(n *controlv1.NodeStatus) string {
	switch {
	case n.GetDraining():
		return "draining"
	case n.GetSnapshot() == nil:
		return "waiting for a snapshot"
	case len(n.GetDegradations()) > 0:
		return "active, degraded"
	}
	return "active"
}

func byWriter(info *controlv1.SnapshotInfo) string {
	if info.GetWriter() == "" {
		return ""
	}
	return ", by " + info.GetWriter()
}

func storeText(s *controlv1.StoreStatus) string {
	if s.GetDirectory() == "" {
		return "memory only: a restart forgets the snapshot"
	}
	return fmt.Sprintf("%s, %s", s.GetDirectory(), plural(len(s.GetGenerations()), "generation"))
}

func resourceName(r *controlv1.ResourceName) string {
	k, ok := kindOf(r.GetKind())
	if !ok {
		return cmp.Or(r.GetName(), "snapshot") // the name is that of a file
	}
	return strings.TrimSpace(k.singular + " " + r.GetName())
}

func listenerStatusTable(listeners []*controlv1.ListenerStatus) *table {
	rows := newTable("LISTENER", "ADDRESS", "STATE", "CONNECTIONS", "ACCEPTED")
	for _, l := range listeners {
		state := "bound"
		if l.GetDraining() {
			state = "draining"
		}
		rows.add(l.GetName(), listed(l.GetAddresses()), state, number(l.GetConnections()), number(l.GetAccepted()))
	}
	return rows
}

// endpointTable shows the endpoints of clusters. A cluster without one has a
// row all the same.
func (c *CLI) endpointTable(clusters []*controlv1.ClusterStatus) *table {
	rows := newTable("CLUSTER", "ENDPOINT", "STATE", "WEIGHT", "IN FLIGHT", "REQUESTS", "FAILURES", "SUCCESS", "LATENCY",
		"+PENDING", "+CONNECTIONS", "+IDLE", "+CIRCUIT", "+EJECTIONS", "+PRIORITY", "+ZONE", "SINCE", "WHY", "+EVIDENCE")
	for _, cl := range clusters {
		if len(cl.GetEndpoints()) == 0 {
			rows.addSome(cl.GetName(), "", noEndpoints(cl))
		}
		for _, e := range cl.GetEndpoints() {
			rows.add(cl.GetName(), e.GetAddress(), c.endpointState(e), weightText(e),
				number(e.GetRequestsInFlight()), number(e.GetRequests()), number(e.GetFailures()), successText(e), latencyText(e),
				number(e.GetPendingRequests()), number(e.GetConnections()), number(e.GetIdleConnections()), circuitOf(e),
				number(e.GetEjections()), number(e.GetPriority()), e.GetZone(), c.since(e.GetSince()), whyText(e), e.GetLastEvidence())
		}
		if left := int(cl.GetEndpointCount()) - len(cl.GetEndpoints()); left > 0 {
			rows.addSome(cl.GetName(), fmt.Sprintf("... and %d more", left))
		}
	}
	return rows
}

// noEndpoints is why a cluster has none.
func noEndpoints(cl *controlv1.ClusterStatus) string {
	if dns := cl.GetDns(); dns != nil {
		return "no address of " + dns.GetName() + ": " + dns.GetCause()
	}
	return "no endpoints"
}

// weightText is the weight, and how much of it counts while the endpoint starts
// slowly.
func weightText(e *controlv1.EndpointStatus) string {
	if p := e.GetWeightPercent(); p > 0 && p < 100 {
		return fmt.Sprintf("%d at %d%%", e.GetWeight(), p)
	}
	return number(e.GetWeight())
}

// successText is what part of the recent requests did not fail.
func successText(e *controlv1.EndpointStatus) string {
	if e.SuccessRatio == nil {
		return ""
	}
	return fmt.Sprintf("%.1f%%", 100*e.GetSuccessRatio())
}

// latencyText is the recent mean, with three digits or so.
func latencyText(e *controlv1.EndpointStatus) string {
	d := e.GetLatency().AsDuration()
	switch {
	case d <= 0:
		return ""
	case d >= 10*time.Second:
		d = d.Round(100 * time.Millisecond)
	case d >= 10*time.Millisecond:
		d = d.Round(time.Millisecond)
	default:
		d = d.Round(10 * time.Microsecond)
	}
	return d.String()
}

func circuitOf(e *controlv1.EndpointStatus) string {
	if e.GetCircuit() == controlv1.CircuitState_CIRCUIT_STATE_UNSPECIFIED {
		return ""
	}
	return word(e.GetCircuit())
}

// whyText is who has drained it, or else why it changed last.
func whyText(e *controlv1.EndpointStatus) string {
	if e.GetDrain() != nil {
		return drainedBy(e.GetDrain())
	}
	return e.GetLastCause()
}

// endpointState is what keeps an endpoint from traffic, or its health.
func (c *CLI) endpointState(e *controlv1.EndpointStatus) string {
	state := word(e.GetHealth())
	if e.GetDrain() != nil {
		state += ",drained"
	}
	if until := e.GetEjectedUntil(); until != nil {
		state += ",ejected " + age(until.AsTime().Sub(c.now()))
	}
	switch e.GetCircuit() {
	case controlv1.CircuitState_CIRCUIT_STATE_OPEN, controlv1.CircuitState_CIRCUIT_STATE_HALF_OPEN:
		state += ",circuit " + word(e.GetCircuit())
	}
	return state
}

// getEndpoints is the endpoints' part of the status.
func (c *CLI) getEndpoints(ctx context.Context, k *client, clusters []string) error {
	status, err := k.status(ctx, clusters)
	if err != nil {
		return failedCall(k.where, err)
	}
	switch {
	case c.structured():
		return c.writeMessage(&controlv1.StatusResponse{Clusters: status.GetClusters()})
	case c.flags.output == formatName:
		for _, cl := range status.GetClusters() {
			for _, e := range cl.GetEndpoints() {
				fmt.Fprintf(c.stdout, "endpoint/%s/%s\n", cl.GetName(), e.GetAddress())
			}
		}
		return nil
	case len(status.GetClusters()) == 0:
		c.say("No clusters.")
		return nil
	}
	c.endpointTable(status.GetClusters()).write(c.stdout, c.wide())
	return nil
}
