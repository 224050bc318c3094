package ctl

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/attribute"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// applyOptions are the flags of apply.
type applyOptions struct {
	conditions
	files       []string
	ifUnchanged bool
	dryRun      bool
	wait        bool
	label       string
}

func (c *CLI) applyVerb() *cobra.Command {
	var o applyOptions
	verb := &cobra.Command{
		Use:   "apply [-f] FILE...",
		Short: "Make a manifest the active snapshot",
		Long: `Make a manifest the active snapshot, whole or not at all.

Several files are read as one manifest; "-" is standard input. Faults are shown with file, line
and column before anything is sent. What ran before runs on untouched when the node refuses.`,
		Example:           "  ctl apply routes.yaml\n  ctl apply --dry-run -f listeners.yaml -f routes.yaml",
		GroupID:           groupChange,
		ValidArgsFunction: completeManifests,
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := filesOf(cmd, o.files, args)
			if err != nil {
				return err
			}
			if err := o.check(cmd); err != nil {
				return err
			}
			return c.apply(cmd.Context(), files, &o)
		},
	}
	o.addFlags(verb)
	f := verb.Flags()
	f.StringArrayVarP(&o.files, "filename", "f", nil, "file to apply; can be given several times")
	f.BoolVar(&o.allowShrink, "allow-shrink", false, "let over half of the routes or endpoints go")
	f.BoolVar(&o.ifUnchanged, "if-unchanged", false, "apply only if nobody applies something else in between")
	f.BoolVar(&o.dryRun, "dry-run", false, "ask the node what would change, and change nothing")
	f.BoolVar(&o.wait, "wait", true, "wait until it is active; otherwise only until it is validated")
	f.StringVar(&o.label, "version-label", "", "the writer's label, in the place of the manifest's version")
	return verb
}

// filesOf joins the files of -f and of the arguments.
func filesOf(cmd *cobra.Command, flagged, args []string) ([]string, error) {
	files := append(append([]string(nil), flagged...), args...)
	if len(files) == 0 {
		return nil, usagef(cmd, "no file; expected the name of a manifest, or - for standard input")
	}
	return files, nil
}

// apply sends a manifest and says what becomes of it.
func (c *CLI) apply(ctx context.Context, files []string, o *applyOptions) (err error) {
	ctx, span := c.startSpan(ctx, "apply")
	defer func() { endSpan(span, err) }()
	ctx, cancel := c.withTimeout(ctx)
	defer cancel()

	r, err := c.read(files, o.label, "nothing was applied")
	if err != nil {
		return err
	}
	span.SetAttributes(attribute.String("headgate.snapshot.digest", r.compiled.Digest))
	k, err := c.connect()
	if err != nil {
		return err
	}
	defer k.close()
	p := &push{
		snapshot: r.Snapshot, digest: r.compiled.Digest, options: o.message(c),
		planOnly: o.dryRun, wait: o.wait, unchanged: o.ifUnchanged,
		progress: c.showProgress, retrying: c.showRetry,
	}
	if err := k.pushSnapshot(ctx, p); err != nil {
		return err
	}
	return c.applied(ctx, k, p, r)
}

// showProgress says the state that a snapshot has reached.
func (c *CLI) showProgress(u *controlv1.StateUpdate) {
	switch u.GetState() {
	case controlv1.SnapshotState_SNAPSHOT_STATE_RECEIVED:
		c.say("received")
	case controlv1.SnapshotState_SNAPSHOT_STATE_VALIDATED:
		c.say("validated")
	case controlv1.SnapshotState_SNAPSHOT_STATE_ACTIVE:
		c.say("active")
	}
}

func (c *CLI) showRetry(err error, wait time.Duration) {
	c.say("warning: %v; pushing again in %v", err, wait.Round(time.Millisecond))
}

// applied shows the final state of a push.
func (c *CLI) applied(ctx context.Context, k *client, p *push, r *reading) error {
	switch p.last.GetState() {
	case controlv1.SnapshotState_SNAPSHOT_STATE_REJECTED:
		return c.rejected(p.last, r)
	case controlv1.SnapshotState_SNAPSHOT_STATE_SUPERSEDED:
		return errors.New("superseded by a newer snapshot before it was active" + because(p.last.GetReason()))
	}
	outcome := outcomeOf(p)
	c.showViolations(outcome.warnings, r)
	return c.showOutcome(ctx, k, outcome, r.Snapshot)
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + printable(reason)
}

// rejected shows why a node refused a snapshot, at the lines that are to
// blame.
func (c *CLI) rejected(u *controlv1.StateUpdate, r *reading) error {
	c.showViolations(u.GetViolations(), r)
	total := int(u.GetViolationCount())
	if left := total - len(u.GetViolations()); left > 0 {
		c.say("... and %d more", left)
	}
	if total > 0 || u.GetReason() == "" {
		return c.giveUp(total, "nothing was applied")
	}
	c.say("error: refused%s; nothing was applied", because(u.GetReason()))
	c.hint(u.GetReasonCode())
	return errSaid
}

// hint says what to do about a refusal, where that is known.
func (c *CLI) hint(code string) {
	if text := hints[code]; text != "" {
		c.say("hint: %s", text)
	}
}
