package ctl

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

func (c *CLI) validateVerb() *cobra.Command {
	var flagged []string
	verb := &cobra.Command{
		Use:               "validate [-f] FILE...",
		Short:             "Check a manifest without sending it anywhere",
		GroupID:           groupChange,
		ValidArgsFunction: completeManifests,
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := filesOf(cmd, flagged, args)
			if err != nil {
				return err
			}
			return c.validate(files)
		},
	}
	verb.Flags().StringArrayVarP(&flagged, "filename", "f", nil, "file to check; can be given several times")
	return verb
}

// validate says what is wrong with a manifest, or what is in it.
func (c *CLI) validate(files []string) error {
	r, err := c.read(files, "", "")
	if err != nil {
		return err
	}
	switch {
	case c.structured():
		return c.writeMessage(&controlv1.PlanResponse{Digest: r.compiled.Digest, Warnings: wireViolations(r.warnings)})
	case c.flags.output == formatName:
		fmt.Fprintln(c.stdout, "snapshot/"+r.compiled.Digest)
		return nil
	}
	s := r.Snapshot
	fmt.Fprintf(c.stdout, "%s: valid: %s, %s, %s, digest %s\n", strings.Join(files, ", "),
		plural(len(s.GetListeners()), "listener"), plural(len(s.GetClusters()), "cluster"),
		plural(len(s.GetRoutes()), "route"), short(r.compiled.Digest))
	return nil
}
