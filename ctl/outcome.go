package ctl

import (
	"context"
	"fmt"
	"strings"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// outcome is what an apply or a rollback led to.
type outcome struct {
	snapshot  *controlv1.SnapshotInfo
	before    *controlv1.SnapshotInfo // active before; nil: not known
	diff      *controlv1.Diff
	warnings  []*controlv1.Violation
	unchanged bool
	state     string // "active", "validated" or "would be active"
}

// outcomeOf joins the states of a push. The diff and the warnings may come
// with either.
func outcomeOf(p *push) outcome {
	o := outcome{
		snapshot: p.last.GetSnapshot(), before: p.before, diff: p.last.GetDiff(),
		warnings: p.last.GetViolations(), unchanged: p.last.GetUnchanged(), state: "active",
	}
	if o.diff == nil {
		o.diff = p.validated.GetDiff()
	}
	if p.last.GetState() == controlv1.SnapshotState_SNAPSHOT_STATE_VALIDATED {
		o.state = "validated"
	}
	if p.planOnly {
		o.state = "would be active"
	}
	return o
}

// showOutcome prints what changed and what is active now. with is the snapshot
// applied; nil: it is asked for where values are to be shown.
func (c *CLI) showOutcome(ctx context.Context, k *client, o outcome, with *configv1.Snapshot) error {
	switch c.flags.output {
	case formatJSON, formatYAML:
		return c.writeMessage(&controlv1.ApplyResponse{
			Snapshot: o.snapshot, Unchanged: o.unchanged, Diff: o.diff, Warnings: o.warnings,
		})
	case formatName:
		fmt.Fprintln(c.stdout, "snapshot/"+o.snapshot.GetDigest())
		return nil
	}
	if o.unchanged {
		fmt.Fprintf(c.stdout, "unchanged: %s\n", identity(o.snapshot))
		return nil
	}
	if with == nil {
		with = k.changedOnes(ctx, o.snapshot.GetGeneration(), o.diff)
	}
	shown := &changes{out: c.stdout, colour: c.colour(c.stdout)}
	shown.compare(k.changedOnes(ctx, o.before.GetGeneration(), o.diff), with)
	shown.write(o.diff)
	fmt.Fprintf(c.stdout, "%s: %s (%s)\n", o.state, identity(o.snapshot), tally(o.diff))
	return nil
}

// changedOnes gets the changed resources as they are in a generation, so that
// values can be shown. nil where that cannot be had.
func (k *client) changedOnes(ctx context.Context, generation uint64, d *controlv1.Diff) *configv1.Snapshot {
	if generation == 0 || len(d.GetChanged()) == 0 {
		return nil
	}
	ask := &controlv1.GetRequest{Generation: generation}
	seen := map[controlv1.ResourceKind]bool{}
	for _, change := range d.GetChanged() {
		if !seen[change.GetKind()] {
			seen[change.GetKind()] = true
			ask.Kinds = append(ask.Kinds, change.GetKind())
		}
		if change.GetName() != "" {
			ask.Names = append(ask.Names, change.GetName())
		}
	}
	got, _, err := k.get(ctx, ask)
	if err != nil {
		return nil
	}
	return got
}

// identity is how a snapshot is named to people, as far as it is known.
func identity(info *controlv1.SnapshotInfo) string {
	var words []string
	if info.GetVersion() != "" {
		words = append(words, "version "+printable(info.GetVersion()))
	}
	if info.GetDigest() != "" {
		words = append(words, "digest "+short(printable(info.GetDigest())))
	}
	if info.GetGeneration() > 0 {
		words = append(words, fmt.Sprintf("generation %d", info.GetGeneration()))
	}
	if len(words) == 0 {
		return "without a version"
	}
	return strings.Join(words, ", ")
}

// tally is "1 added, 2 changed, 0 removed".
func tally(d *controlv1.Diff) string {
	return fmt.Sprintf("%d added, %d changed, %d removed", d.GetAddedCount(), d.GetChangedCount(), d.GetRemovedCount())
}
