package ctl

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// completionTime bounds how long a shell waits for names. A person is at the
// tab key.
const completionTime = time.Second

// maxCompletions bounds what is offered.
const maxCompletions = 1000

var noFiles = cobra.ShellCompDirectiveNoFileComp

// completeMethods offers methods for a first word.
func completeMethods(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFiles
	}
	return []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}, noFiles
}

// completeGet offers views, and then names of what runs.
func (c *CLI) completeGet(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return viewNames, noFiles
	}
	switch view := views[args[0]]; view {
	case "listeners", "clusters", "routes":
		return c.completeNames(cmd, view)
	case "endpoints":
		return c.completeNames(cmd, "clusters")
	case "revisions":
		return c.completeGenerations(cmd, nil, "")
	}
	return nil, noFiles
}

// completeNames offers the names of the resources of a kind that run. It offers
// nothing when the target does not answer at once.
func (c *CLI) completeNames(cmd *cobra.Command, list string) ([]string, cobra.ShellCompDirective) {
	k := kindOfList(list)
	names := ask(c, cmd, func(ctx context.Context, cl *client) []string {
		found, _, err := cl.get(ctx, &controlv1.GetRequest{Kinds: []controlv1.ResourceKind{k.enum}})
		if err != nil {
			return nil
		}
		var names []string
		for _, part := range resourcesOf(found) {
			names = append(names, nameOf(part))
		}
		return names
	})
	return names, noFiles
}

// completeGenerations offers generations with their versions.
func (c *CLI) completeGenerations(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFiles
	}
	found := ask(c, cmd, func(ctx context.Context, cl *client) []string {
		list, err := cl.revisions(ctx, 20)
		if err != nil {
			return nil
		}
		var generations []string
		for _, r := range list {
			generations = append(generations, number(r.GetSnapshot().GetGeneration())+"\t"+r.GetSnapshot().GetVersion())
		}
		return generations
	})
	return found, noFiles | cobra.ShellCompDirectiveKeepOrder
}

// ask runs a question to the target within the time that a shell waits.
func ask(c *CLI, cmd *cobra.Command, question func(context.Context, *client) []string) []string {
	ctx, cancel := context.WithTimeout(commandContext(cmd), completionTime)
	defer cancel()
	k, err := c.connect()
	if err != nil {
		return nil
	}
	defer k.close()
	answers := question(ctx, k)
	return slices.Clip(answers[:min(len(answers), maxCompletions)])
}

// commandContext is the command's context. In completion, cobra gives the
// command that is completed none.
func commandContext(cmd *cobra.Command) context.Context {
	if ctx := cmd.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}

func (c *CLI) completeEventFlags(verb *cobra.Command) {
	kinds := cobra.FixedCompletions(eventKinds, noFiles)
	clusters := func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return c.completeNames(cmd, "clusters")
	}
	if verb.RegisterFlagCompletionFunc("kind", kinds) != nil || verb.RegisterFlagCompletionFunc("cluster", clusters) != nil {
		panic("ctl: events has lost a flag")
	}
}
