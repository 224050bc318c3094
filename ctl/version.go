package ctl

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/attribute"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// Version is set by the linker in releases. Otherwise it is the version that
// the Go toolchain stamped.
var Version string

// serviceName names this program in traces.
var serviceName = attribute.String("service.name", "headgate-ctl")

func serviceVersion() attribute.KeyValue { return attribute.String("service.version", buildVersion()) }

// buildVersion is the version of this program, "dev" if it is not known.
func buildVersion() string {
	if Version != "" {
		return Version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return info.Main.Version
}

// versions is what version prints for programs.
type versions struct {
	Client string `yaml:"client"`
	Server string `yaml:"server,omitempty"`
	Node   string `yaml:"node,omitempty"`
}

func (c *CLI) versionVerb() *cobra.Command {
	var alone bool
	verb := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program, and of the node if it answers",
		GroupID: groupLocal,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found := versions{Client: buildVersion()}
			if !alone {
				if err := c.askVersion(cmd, &found); err != nil {
					defer c.say("server: %v", err)
				}
			}
			return c.writeVersions(found)
		},
	}
	verb.Flags().BoolVar(&alone, "client", false, "print the version of this program only")
	return verb
}

// askVersion fills in what the node says.
func (c *CLI) askVersion(cmd *cobra.Command, found *versions) error {
	ctx, cancel := c.withTimeout(cmd.Context())
	defer cancel()
	k, err := c.connect()
	if err != nil {
		return err
	}
	defer k.close()
	answer, err := k.inspect.Status(ctx, &controlv1.StatusRequest{PageSize: 1})
	if err != nil {
		return failedCall(k.where, err)
	}
	found.Server, found.Node = answer.GetNode().GetSoftwareVersion(), answer.GetNode().GetNode()
	return nil
}

func (c *CLI) writeVersions(v versions) error {
	if c.structured() {
		return c.writePlain(v)
	}
	fmt.Fprintf(c.stdout, "client: %s\n", v.Client)
	if v.Server != "" {
		fmt.Fprintf(c.stdout, "server: %s (node %s)\n", printable(v.Server), printable(v.Node))
	}
	return nil
}
