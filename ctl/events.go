package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// eventKinds are the kinds that can be asked for. Gaps always come.
var eventKinds = slices.DeleteFunc(words(controlv1.EventKind_EVENT_KIND_UNSPECIFIED),
	func(kind string) bool { return kind == word(controlv1.EventKind_EVENT_KIND_GAP) })

type eventOptions struct {
	watch    bool
	since    uint64
	kinds    []string
	clusters []string
}

func (c *CLI) eventsVerb() *cobra.Command {
	var o eventOptions
	verb := &cobra.Command{
		Use:   "events [--watch]",
		Short: "Show what happens: health, ejections, snapshots and trouble",
		Long: `Show what happens: health, ejections, snapshots and trouble.

Without --watch it shows what the node still knows. With it, it goes on with what happens, also
over a broken connection: it resumes by number, and says so where events are missing.`,
		Example: "  ctl events --watch --kind endpoint-health\n  ctl events --since 120 -o json",
		GroupID: groupLook,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ask, err := o.request(cmd)
			if err != nil {
				return err
			}
			return c.showEvents(cmd, ask)
		},
	}
	f := verb.Flags()
	f.BoolVarP(&o.watch, "watch", "w", false, "go on with what happens from now on; --timeout counts only if it is given")
	f.Uint64Var(&o.since, "since", 0, "begin with the event of this number")
	f.StringSliceVar(&o.kinds, "kind", nil, "only these kinds: "+strings.Join(eventKinds, ", "))
	f.StringSliceVar(&o.clusters, "cluster", nil, "only events about these clusters, and those about none")
	c.completeEventFlags(verb)
	return verb
}

// request is what the flags ask for.
func (o *eventOptions) request(cmd *cobra.Command) (*controlv1.WatchRequest, error) {
	ask := &controlv1.WatchRequest{FromSequence: &o.since, Clusters: o.clusters, Follow: o.watch}
	for _, name := range o.kinds {
		kind, ok := valueOf[controlv1.EventKind](strings.ToLower(name))
		if !ok || !slices.Contains(eventKinds, word(kind)) {
			return nil, usagef(cmd, "--kind: there is no %q; there are %s", name, strings.Join(eventKinds, ", "))
		}
		if !slices.Contains(ask.Kinds, kind) {
			ask.Kinds = append(ask.Kinds, kind)
		}
	}
	return ask, nil
}

// showEvents prints events until there are no more, or for ever with --watch.
func (c *CLI) showEvents(cmd *cobra.Command, ask *controlv1.WatchRequest) error {
	ctx := cmd.Context()
	if !ask.GetFollow() || cmd.Flags().Changed("timeout") {
		var cancel context.CancelFunc
		ctx, cancel = c.withTimeout(ctx)
		defer cancel()
	}
	k, err := c.connect()
	if err != nil {
		return err
	}
	defer k.close()
	w := &watch{client: k, ask: ask, show: c.writeEvent, broken: c.showBroken}
	err = w.run(ctx)
	if ask.GetFollow() && ctx.Err() != nil {
		return nil // whoever watches ends it like this
	}
	return err
}

func (c *CLI) showBroken(err error, next uint64, wait time.Duration) {
	c.say("warning: %v; resuming from event %d in %v", err, next, wait.Round(time.Millisecond))
}

// watch reads events and resumes where it was when the stream breaks.
type watch struct {
	client *client
	show   func(*controlv1.Event) error
	broken func(err error, next uint64, wait time.Duration)

	ask   *controlv1.WatchRequest // changed to resume
	alive bool                    // the target was there once
	retry backoff
}

// run reads until the stream ends as it should, the target refuses, or ctx
// ends. A target that was never there is not waited for.
func (w *watch) run(ctx context.Context) error {
	for {
		err := w.read(ctx)
		w.alive = w.alive || !neverReached(err)
		switch {
		case err == nil:
			return nil
		case !w.alive || !w.ask.GetFollow() || ctx.Err() != nil || !resumable(err):
			return failedWatch(w.client.where, err)
		}
		wait := w.retry.next()
		w.broken(failedWatch(w.client.where, err), w.ask.GetFromSequence(), wait)
		if err := pause(ctx, wait); err != nil {
			return failedCall(w.client.where, err)
		}
	}
}

// showError is a failure to print, which no other attempt would mend.
type showError struct{ err error }

func (e *showError) Error() string { return e.err.Error() }
func (e *showError) Unwrap() error { return e.err }

func failedWatch(d destination, err error) error {
	if failed, ok := errors.AsType[*showError](err); ok {
		return failed.err
	}
	return failedCall(d, err)
}

// resumable reports whether the stream may be opened again after err: it was
// cut off, or its reader was too slow.
func resumable(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.ResourceExhausted, codes.Aborted, codes.Internal:
		return true
	}
	return false
}

// read opens the stream and shows events until it ends.
func (w *watch) read(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := w.client.events.Watch(ctx, w.ask)
	if err != nil {
		return err
	}
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) && !w.ask.GetFollow() {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return status.Error(codes.Unavailable, "the node ended the stream")
		}
		if err != nil {
			return err
		}
		w.retry.reset()
		if err := w.show(answer.GetEvent()); err != nil {
			return &showError{err}
		}
		w.resumeAfter(answer.GetEvent())
	}
}

// resumeAfter makes the next request go on behind an event.
func (w *watch) resumeAfter(e *controlv1.Event) {
	next := e.GetSequence()
	if gap := e.GetGap(); gap != nil {
		next = max(next, gap.GetTo())
	}
	if next == 0 {
		return
	}
	next++
	w.ask.FromSequence = &next
	w.ask.Instance = e.GetInstance()
}

// writeEvent prints one event. In JSON it is one line, so that programs can
// read while events come.
func (c *CLI) writeEvent(e *controlv1.Event) error {
	switch c.flags.output {
	case formatJSON:
		return c.writeLine(e)
	case formatYAML:
		fmt.Fprintln(c.stdout, "---")
		return c.writeMessage(e)
	case formatName:
		_, err := fmt.Fprintf(c.stdout, "event/%d\n", e.GetSequence())
		return err
	}
	when := e.GetTime().AsTime().Local().Format(time.DateTime)
	kind, text := describeEvent(e)
	if c.wide() {
		kind = fmt.Sprintf("%-12s %-20s %s", printable(e.GetNode()), printable(e.GetSnapshotVersion()), kind)
	}
	sequence := "-" // a gap has no number
	if n := e.GetSequence(); n > 0 {
		sequence = number(n)
	}
	_, err := fmt.Fprintf(c.stdout, "%s %5s  %-15s  %s\n", when, sequence, kind, printable(text))
	return err
}
