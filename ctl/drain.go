package ctl

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// drainPoll is how often a drained endpoint is looked at with --wait.
const drainPoll = 500 * time.Millisecond

// drainOptions are the flags of drain and undrain.
type drainOptions struct {
	reason string
	writer string
	force  bool
	wait   bool
}

func (c *CLI) drainVerb() *cobra.Command {
	var o drainOptions
	verb := &cobra.Command{
		Use:   "drain CLUSTER/ENDPOINT",
		Short: "Take an endpoint out of traffic until it is put back",
		Long: `Take an endpoint out of traffic until it is put back with undrain.

It is chosen no more, as if its weight were 0; what is in flight goes on. No manifest says so: it
holds over every apply and over a restart, and when the endpoint leaves the snapshot and comes
back. With --wait the program ends when nothing is in flight any more.`,
		Example: "  ctl drain users/127.0.0.1:9001 --reason 'new disk' --wait\n  ctl undrain users/127.0.0.1:9001",
		GroupID: groupChange,
		Args:    exactly(1), ValidArgsFunction: c.completeEndpoints,
		RunE: func(cmd *cobra.Command, args []string) error { return c.drain(cmd, args[0], o) },
	}
	c.addDrainFlags(verb, &o)
	verb.Flags().BoolVar(&o.force, "force", false, "even if no other endpoint of the cluster is left")
	verb.Flags().BoolVar(&o.wait, "wait", false, "wait until nothing is in flight to it any more")
	return verb
}

func (c *CLI) undrainVerb() *cobra.Command {
	var o drainOptions
	verb := &cobra.Command{
		Use:     "undrain CLUSTER/ENDPOINT",
		Short:   "Put a drained endpoint back into traffic",
		GroupID: groupChange,
		Args:    exactly(1), ValidArgsFunction: c.completeEndpoints,
		RunE: func(cmd *cobra.Command, args []string) error { return c.undrain(cmd, args[0], o) },
	}
	c.addDrainFlags(verb, &o)
	return verb
}

func (c *CLI) addDrainFlags(verb *cobra.Command, o *drainOptions) {
	verb.Flags().StringVar(&o.reason, "reason", "", "why, for people and logs")
	verb.Flags().StringVar(&o.writer, "writer", "", "who asks, for people and logs (default: HEADGATE_WRITER, else user@host)")
}

// endpointName parts the name of a cluster from the address of an endpoint,
// which may have slashes of its own.
func endpointName(cmd *cobra.Command, arg string) (cluster, endpoint string, err error) {
	cluster, endpoint, ok := strings.Cut(arg, "/")
	if !ok || cluster == "" || endpoint == "" {
		return "", "", usagef(cmd, "%q does not name an endpoint; expected CLUSTER/ADDRESS, as in users/127.0.0.1:9001", arg)
	}
	return cluster, endpoint, nil
}

func (c *CLI) drain(cmd *cobra.Command, arg string, o drainOptions) error {
	cluster, endpoint, err := endpointName(cmd, arg)
	if err != nil {
		return err
	}
	ctx, cancel := c.withTimeout(cmd.Context())
	defer cancel()
	k, err := c.connect()
	if err != nil {
		return err
	}
	defer k.close()
	answer, err := k.drains.Drain(ctx, &controlv1.DrainRequest{
		Cluster: cluster, Endpoint: endpoint, Reason: o.reason, Writer: c.writer(o.writer), AllowLast: o.force,
	})
	if err != nil {
		return failedCall(k.where, err)
	}
	if o.wait {
		if answer.Endpoint, err = c.awaitIdle(ctx, k, cluster, answer.GetEndpoint()); err != nil {
			return err
		}
	}
	return c.showDrain(arg, "drained", "is drained already", answer, answer.GetEndpoint(), answer.GetUnchanged())
}

func (c *CLI) undrain(cmd *cobra.Command, arg string, o drainOptions) error {
	cluster, endpoint, err := endpointName(cmd, arg)
	if err != nil {
		return err
	}
	ctx, cancel := c.withTimeout(cmd.Context())
	defer cancel()
	k, err := c.connect()
	if err != nil {
		return err
	}
	defer k.close()
	answer, err := k.drains.Undrain(ctx, &controlv1.UndrainRequest{
		Cluster: cluster, Endpoint: endpoint, Reason: o.reason, Writer: c.writer(o.writer),
	})
	if err != nil {
		return failedCall(k.where, err)
	}
	return c.showDrain(arg, "undrained", "was not drained", answer, answer.GetEndpoint(), answer.GetUnchanged())
}

// awaitIdle waits until nothing is in flight to an endpoint, or it is gone.
func (c *CLI) awaitIdle(ctx context.Context, k *client, cluster string, e *controlv1.EndpointStatus) (*controlv1.EndpointStatus, error) {
	for e.GetRequestsInFlight() > 0 {
		c.say("%s in flight", plural(int(e.GetRequestsInFlight()), "request"))
		if err := pause(ctx, drainPoll); err != nil {
			return nil, failedCall(k.where, err)
		}
		status, err := k.status(ctx, []string{cluster})
		if err != nil {
			return nil, failedCall(k.where, err)
		}
		now := findEndpoint(status, cluster, e.GetAddress())
		if now == nil {
			return e, nil
		}
		e = now
	}
	return e, nil
}

func findEndpoint(status *controlv1.StatusResponse, cluster, address string) *controlv1.EndpointStatus {
	for _, cl := range status.GetClusters() {
		for _, e := range cl.GetEndpoints() {
			if cl.GetName() == cluster && e.GetAddress() == address {
				return e
			}
		}
	}
	return nil
}

// showDrain prints what was done; unless means that nothing was.
func (c *CLI) showDrain(name, done, unless string, answer proto.Message, e *controlv1.EndpointStatus, unchanged bool) error {
	switch {
	case c.structured():
		return c.writeMessage(answer)
	case c.flags.output == formatName:
		fmt.Fprintln(c.stdout, "endpoint/"+printable(name))
	case unchanged:
		fmt.Fprintf(c.stdout, "unchanged: %s %s\n", printable(name), unless)
	case e == nil:
		fmt.Fprintf(c.stdout, "%s: %s; the active snapshot does not have it\n", done, printable(name))
	default:
		fmt.Fprintf(c.stdout, "%s: %s, %s in flight\n", done, printable(name), plural(int(e.GetRequestsInFlight()), "request"))
	}
	return nil
}

// drainedBy says who has drained an endpoint, and why.
func drainedBy(d *controlv1.Drain) string {
	text := "drained"
	if d.GetWriter() != "" {
		text += " by " + d.GetWriter()
	}
	return text + because(d.GetReason())
}

// completeEndpoints offers the endpoints of what runs, as drain takes them.
func (c *CLI) completeEndpoints(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFiles
	}
	names := ask(c, cmd, func(ctx context.Context, k *client) (names []string) {
		status, err := k.status(ctx, nil)
		if err != nil {
			return nil
		}
		for _, cl := range status.GetClusters() {
			for _, e := range cl.GetEndpoints() {
				names = append(names, cl.GetName()+"/"+e.GetAddress())
			}
		}
		return names
	})
	return names, noFiles
}
