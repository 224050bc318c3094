package ctl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/attribute"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// conditions are the flags under which something may be applied.
type conditions struct {
	term        uint64
	base        string
	writer      string
	allowShrink bool
}

func (o *conditions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Uint64Var(&o.term, "term", 0, "fencing term held by this writer; a node refuses one lower than it has seen")
	f.StringVar(&o.base, "base-digest", "", "apply only if this digest is active; its first digits are enough")
	f.StringVar(&o.writer, "writer", "", "who writes, for people and logs (default: HEADGATE_WRITER, else user@host)")
}

// check looks at what the flags can say wrong.
func (o *conditions) check(cmd *cobra.Command) error {
	if o.base == "" {
		return nil
	}
	if len(o.base) > fullDigest || !isHex(o.base) {
		return usagef(cmd, "--base-digest: %q is not a digest; expected up to 64 of 0-9 and a-f", o.base)
	}
	return nil
}

func isHex(s string) bool {
	for _, r := range s {
		if (r < '0' || r > '9') && (r < 'a' || r > 'f') {
			return false
		}
	}
	return true
}

// message is the conditions as the API has them.
func (o *conditions) message(c *CLI) *controlv1.ApplyOptions {
	return &controlv1.ApplyOptions{
		Term: o.term, BaseDigest: o.base, AllowShrink: o.allowShrink, Writer: c.writer(o.writer),
	}
}

// writer is who is at work: what the flag says, else the environment.
func (c *CLI) writer(flag string) string {
	if flag != "" {
		return flag
	}
	if name := c.env.get("HEADGATE_WRITER"); name != "" {
		return name
	}
	user := c.env.get("USER")
	host, err := os.Hostname()
	if user == "" || err != nil {
		return user
	}
	return user + "@" + host
}

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
	ctx, span := startSpan(ctx, "apply")
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
	c.hint(u.GetReason())
	return errSaid
}

// hint says what to do about a refusal. A state update has no word for its
// reason but the sentence.
func (c *CLI) hint(sentence string) {
	switch {
	case strings.Contains(sentence, "allow_shrink"):
		c.say("hint: %s", hints["SHRINK_REFUSED"])
	case strings.Contains(sentence, "is stale"):
		c.say("hint: %s", hints["STALE_TERM"])
	case strings.Contains(sentence, "base digest"):
		c.say("hint: %s", hints["BASE_DIGEST_MISMATCH"])
	}
}

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
