package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// views are what get can show, by the names it goes by.
var views = map[string]string{
	"snapshot": "snapshot", "snapshots": "snapshot",
	"listener": "listeners", "listeners": "listeners",
	"cluster": "clusters", "clusters": "clusters",
	"route": "routes", "routes": "routes",
	"endpoint": "endpoints", "endpoints": "endpoints",
	"revision": "revisions", "revisions": "revisions",
}

// viewNames are the names that help and completion offer.
var viewNames = []string{"snapshot", "listeners", "clusters", "routes", "endpoints", "revisions"}

func (c *CLI) getVerb() *cobra.Command {
	var generation uint64
	verb := &cobra.Command{
		Use:   "get [snapshot|listeners|clusters|routes|endpoints|revisions] [NAME...] | KIND/NAME...",
		Short: "Show what runs",
		Long: `Show what runs. Without a word it shows which snapshot is active.

"ctl get snapshot -o yaml" is a manifest that can be applied again, but for its secrets, which
never come back out.`,
		Example:           "  ctl get routes\n  ctl get snapshot -o yaml > routes.yaml\n  ctl get clusters users -o json\n  ctl get route/users route/ping",
		GroupID:           groupLook,
		ValidArgsFunction: c.completeGet,
		RunE: func(cmd *cobra.Command, args []string) error {
			view, names, err := viewOf(cmd, args)
			if err != nil {
				return err
			}
			if generation != 0 && (view == "endpoints" || view == "revisions") {
				return usagef(cmd, "--generation picks a snapshot; %s have none", view)
			}
			ctx, cancel := c.withTimeout(cmd.Context())
			defer cancel()
			return c.get(ctx, view, names, generation)
		},
	}
	verb.Flags().Uint64Var(&generation, "generation", 0, "of an earlier generation; 0: the active one")
	return verb
}

func viewOf(cmd *cobra.Command, args []string) (view string, names []string, err error) {
	if len(args) == 0 {
		return "snapshot", nil, nil
	}
	word, names, err := wordOf(cmd, args)
	if err != nil {
		return "", nil, err
	}
	view, ok := views[strings.ToLower(word)]
	if !ok {
		return "", nil, usagef(cmd, "nothing is called %q; there are %s", word, strings.Join(viewNames, ", "))
	}
	if view == "snapshot" && len(names) > 0 {
		return "", nil, usagef(cmd, "unexpected argument %q; --generation picks a snapshot", names[0])
	}
	return view, names, nil
}

// wordOf parts the word for a view from the names: either KIND NAME..., or
// KIND/NAME..., as -o name prints them. A name may itself have a '/'.
func wordOf(cmd *cobra.Command, args []string) (word string, names []string, err error) {
	word, _, joined := strings.Cut(args[0], "/")
	if !joined {
		return args[0], args[1:], nil
	}
	for _, arg := range args {
		kind, name, ok := strings.Cut(arg, "/")
		switch {
		case !ok || name == "":
			return "", nil, usagef(cmd, "%q is not KIND/NAME, as %q is", arg, args[0])
		case kind != word:
			return "", nil, usagef(cmd, "%q and %q are of two kinds; ask for one at a time", args[0], arg)
		}
		names = append(names, name)
	}
	return word, names, nil
}

// get shows one view.
func (c *CLI) get(ctx context.Context, view string, names []string, generation uint64) error {
	k, err := c.connect()
	if err != nil {
		return err
	}
	defer k.close()
	switch view {
	case "endpoints":
		return c.getEndpoints(ctx, k, names)
	case "revisions":
		return c.getRevisions(ctx, k, names)
	case "snapshot":
		return c.getSnapshot(ctx, k, generation)
	}
	found, _, err := k.get(ctx, &controlv1.GetRequest{
		Generation: generation, Kinds: []controlv1.ResourceKind{kindOfList(view).enum}, Names: names,
	})
	if err != nil {
		return failedCall(k.where, err)
	}
	if err := c.writeResources(kindOfList(view), found); err != nil {
		return err
	}
	return missing(found, kindOfList(view), names)
}

func kindOfList(list string) kind {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.list == list })
	return kinds[i]
}

// missing is an error if one of the names was not found.
func missing(s *configv1.Snapshot, k kind, names []string) error {
	var gone []string
	for _, name := range names {
		if find(s, k, name) == nil {
			gone = append(gone, fmt.Sprintf("%q", name))
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return fmt.Errorf("no %s %s", k.singular, strings.Join(gone, ", "))
}

// get collects the pieces of a snapshot.
func (k *client) get(ctx context.Context, ask *controlv1.GetRequest) (*configv1.Snapshot, *controlv1.SnapshotInfo, error) {
	stream, err := k.snapshots.Get(ctx, ask)
	if err != nil {
		return nil, nil, err
	}
	whole, info, size := new(configv1.Snapshot), new(controlv1.SnapshotInfo), 0
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			whole.Version = info.GetVersion()
			return whole, info, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if first := piece.GetSnapshot(); first != nil {
			info = first
		}
		for _, part := range piece.GetResources().GetResources() {
			if size += sizeOf(part); size > maxAnswerBytes {
				return nil, nil, fmt.Errorf("the snapshot is larger than %d bytes", maxAnswerBytes)
			}
			addResource(whole, part)
		}
	}
}

// getSnapshot shows which snapshot it is, or the manifest itself.
func (c *CLI) getSnapshot(ctx context.Context, k *client, generation uint64) error {
	ask := &controlv1.GetRequest{Generation: generation}
	whole, info, err := k.get(ctx, ask)
	if err != nil {
		return failedCall(k.where, err)
	}
	switch c.flags.output {
	case formatYAML, formatJSON:
		return c.writeManifest(whole)
	case formatName:
		fmt.Fprintln(c.stdout, "snapshot/"+info.GetDigest())
		return nil
	}
	rows := newTable("VERSION", "DIGEST", "GENERATION", "TERM", "WRITER", "LISTENERS", "CLUSTERS", "ROUTES", "AGE")
	rows.add(info.GetVersion(), c.digest(info.GetDigest()), number(info.GetGeneration()), number(info.GetTerm()),
		info.GetWriter(), number(len(whole.GetListeners())), number(len(whole.GetClusters())),
		number(len(whole.GetRoutes())), c.since(info.GetAppliedTime()))
	rows.write(c.stdout, c.wide())
	return nil
}

// writeResources shows resources of one kind.
func (c *CLI) writeResources(k kind, s *configv1.Snapshot) error {
	switch c.flags.output {
	case formatYAML, formatJSON:
		s.Version = ""
		return c.writeManifest(s)
	case formatName:
		for _, part := range resourcesOf(s) {
			fmt.Fprintln(c.stdout, strings.Replace(describe(part), " ", "/", 1))
		}
		return nil
	}
	if len(resourcesOf(s)) == 0 {
		c.say("No %s.", k.list)
		return nil
	}
	c.resourceTable(k, s).write(c.stdout, c.wide())
	return nil
}
