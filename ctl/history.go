package ctl

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

func (c *CLI) historyVerb() *cobra.Command {
	var limit int
	verb := &cobra.Command{
		Use:     "history",
		Short:   "List the snapshots that can be rolled back to",
		GroupID: groupLook,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usagef(cmd, "--limit must be at least 1")
			}
			ctx, cancel := c.withTimeout(cmd.Context())
			defer cancel()
			k, err := c.connect()
			if err != nil {
				return err
			}
			defer k.close()
			list, err := k.revisions(ctx, limit)
			if err != nil {
				return failedCall(k.where, err)
			}
			return c.writeRevisions(list)
		},
	}
	verb.Flags().IntVar(&limit, "limit", 100, "list at most this many, the newest first")
	return verb
}

// revisions collects pages until there are limit revisions, or no more.
func (k *client) revisions(ctx context.Context, limit int) ([]*controlv1.Revision, error) {
	var list []*controlv1.Revision
	ask := new(controlv1.ListRevisionsRequest)
	for {
		ask.PageSize = uint32(min(limit-len(list), 1000))
		page, err := k.snapshots.ListRevisions(ctx, ask)
		if err != nil {
			return nil, err
		}
		list = append(list, page.GetRevisions()...)
		if page.GetNextPageToken() == "" || len(page.GetRevisions()) == 0 || len(list) >= limit {
			return list[:min(limit, len(list))], nil
		}
		ask.PageToken = page.GetNextPageToken()
	}
}

// getRevisions is history under the name that get has for it, with a choice of
// generations.
func (c *CLI) getRevisions(ctx context.Context, k *client, generations []string) error {
	list, err := k.revisions(ctx, 1000)
	if err != nil {
		return failedCall(k.where, err)
	}
	if len(generations) > 0 {
		list = slices.DeleteFunc(list, func(r *controlv1.Revision) bool {
			return !slices.Contains(generations, number(r.GetSnapshot().GetGeneration()))
		})
	}
	return c.writeRevisions(list)
}

func (c *CLI) writeRevisions(list []*controlv1.Revision) error {
	switch {
	case c.structured():
		return c.writeMessage(&controlv1.ListRevisionsResponse{Revisions: list})
	case c.flags.output == formatName:
		for _, r := range list {
			fmt.Fprintf(c.stdout, "revision/%d\n", r.GetSnapshot().GetGeneration())
		}
		return nil
	case len(list) == 0:
		c.say("No revisions.")
		return nil
	}
	rows := newTable("GENERATION", "VERSION", "DIGEST", "TERM", "WRITER", "RESOURCES", "+BYTES", "STATE", "AGE")
	for _, r := range list {
		info := r.GetSnapshot()
		rows.add(number(info.GetGeneration()), info.GetVersion(), c.digest(info.GetDigest()), number(info.GetTerm()),
			info.GetWriter(), number(r.GetResourceCount()), number(r.GetSizeBytes()), revisionState(r), c.since(info.GetAppliedTime()))
	}
	rows.write(c.stdout, c.wide())
	return nil
}

func revisionState(r *controlv1.Revision) string {
	switch {
	case r.GetFault() != "":
		return r.GetFault()
	case r.GetActive():
		return "active"
	}
	return "kept"
}

func (c *CLI) rollbackVerb() *cobra.Command {
	var o conditions
	verb := &cobra.Command{
		Use:               "rollback [GENERATION]",
		Short:             "Make an earlier snapshot active again, as a new generation",
		Long:              "Make an earlier snapshot active again, as a new generation.\n\nWithout a number it is the one before the active one. `ctl history` lists them.",
		GroupID:           groupChange,
		Args:              between(0, 1),
		ValidArgsFunction: c.completeGenerations,
		RunE: func(cmd *cobra.Command, args []string) error {
			generation, err := generationOf(cmd, args)
			if err != nil {
				return err
			}
			if err := o.check(cmd); err != nil {
				return err
			}
			return c.rollback(cmd.Context(), generation, &o)
		},
	}
	o.addFlags(verb)
	return verb
}

func generationOf(cmd *cobra.Command, args []string) (uint64, error) {
	if len(args) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseUint(args[0], 10, 64)
	if err != nil || n == 0 {
		return 0, usagef(cmd, "%q is not a generation; expected a number from 1, as in `ctl history`", args[0])
	}
	return n, nil
}

func (c *CLI) rollback(ctx context.Context, generation uint64, o *conditions) (err error) {
	ctx, span := c.startSpan(ctx, "rollback")
	defer func() { endSpan(span, err) }()
	ctx, cancel := c.withTimeout(ctx)
	defer cancel()
	k, err := c.connect()
	if err != nil {
		return err
	}
	defer k.close()
	options := o.message(c)
	if options.BaseDigest, err = k.fullBase(ctx, o.base); err != nil {
		return failedPush(k.where, err)
	}
	before, err := k.activeInfo(ctx)
	if err != nil {
		return failedCall(k.where, err)
	}
	done, err := k.snapshots.Rollback(ctx, &controlv1.RollbackRequest{Generation: generation, Options: options})
	if err != nil {
		return failedCall(k.where, err)
	}
	c.showViolations(done.GetWarnings(), nil)
	return c.showOutcome(ctx, k, outcome{
		snapshot: done.GetSnapshot(), before: before, diff: done.GetDiff(),
		warnings: done.GetWarnings(), unchanged: done.GetUnchanged(), state: "active",
	}, nil)
}

// activeInfo is what is known of the active snapshot; nil when there is none.
func (k *client) activeInfo(ctx context.Context) (*controlv1.SnapshotInfo, error) {
	status, err := k.inspect.Status(ctx, &controlv1.StatusRequest{PageSize: 1})
	if err != nil {
		return nil, err
	}
	return status.GetNode().GetSnapshot(), nil
}

// fullBase completes the first digits of the active digest.
func (k *client) fullBase(ctx context.Context, base string) (string, error) {
	if base == "" || len(base) == fullDigest {
		return base, nil
	}
	active, err := k.activeInfo(ctx)
	if err != nil {
		return "", err
	}
	return completeBase(base, active)
}
