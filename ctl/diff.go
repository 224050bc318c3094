package ctl

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// Exit codes of diff, besides 0 for no difference.
const (
	exitDifferent = 1
	exitNoDiff    = 2
)

func (c *CLI) diffVerb() *cobra.Command {
	var flagged []string
	verb := &cobra.Command{
		Use:               "diff [-f] FILE...",
		Short:             "Show what applying a manifest would change",
		Long:              "Show how a manifest differs from what runs.\n\nExit codes: 0 same, 1 different, 2 error.",
		GroupID:           groupChange,
		ValidArgsFunction: completeManifests,
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := filesOf(cmd, flagged, args)
			if err != nil {
				return err
			}
			return diffCode(c.diff(cmd.Context(), files))
		},
	}
	verb.Flags().StringArrayVarP(&flagged, "filename", "f", nil, "file to compare; can be given several times")
	return verb
}

// errDifferent ends diff when all differences have been shown.
var errDifferent = &codedError{code: exitDifferent}

// diffCode gives failures the code that tells them from differences.
func diffCode(err error) error {
	switch {
	case err == nil, errors.Is(err, errDifferent):
		return err
	case errors.Is(err, errSaid):
		return &codedError{code: exitNoDiff}
	}
	return &codedError{code: exitNoDiff, err: err}
}

// diff compares a manifest with the active snapshot.
func (c *CLI) diff(ctx context.Context, files []string) error {
	ctx, cancel := c.withTimeout(ctx)
	defer cancel()
	r, err := c.read(files, "", "nothing was compared")
	if err != nil {
		return err
	}
	k, err := c.connect()
	if err != nil {
		return err
	}
	defer k.close()
	active, info, err := k.getActive(ctx)
	if err != nil {
		return failedCall(k.where, err)
	}
	found := snapshot.Diff(active, snapshot.Redact(r.Snapshot))
	if err := c.writeChanges(found, active, r.Snapshot); err != nil {
		return err
	}
	if info.GetDigest() == r.compiled.Digest {
		return nil
	}
	if found.GetAddedCount()+found.GetChangedCount()+found.GetRemovedCount() == 0 {
		c.say("Secrets differ; they are not shown.")
	}
	c.say("%s", summary(info.GetDigest(), r.compiled.Digest))
	return errDifferent
}

// writeChanges shows a difference in the form that was asked for.
func (c *CLI) writeChanges(found *controlv1.Diff, before, after *configv1.Snapshot) error {
	if c.structured() {
		return c.writeMessage(found)
	}
	shown := &changes{out: c.stdout, colour: c.colour(c.stdout)}
	shown.compare(before, after)
	shown.write(found)
	return nil
}

func summary(active, candidate string) string {
	if active == "" {
		return fmt.Sprintf("nothing runs; the manifest is %s", short(candidate))
	}
	return fmt.Sprintf("%s runs; the manifest is %s", short(active), short(candidate))
}

// getActive is the active snapshot without its secrets. It is empty when there
// is none.
func (k *client) getActive(ctx context.Context) (*configv1.Snapshot, *controlv1.SnapshotInfo, error) {
	active, info, err := k.get(ctx, new(controlv1.GetRequest))
	if status.Code(err) == codes.NotFound {
		return new(configv1.Snapshot), new(controlv1.SnapshotInfo), nil
	}
	return active, info, err
}
