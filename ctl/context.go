package ctl

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
)

func (c *CLI) contextVerb() *cobra.Command {
	verb := &cobra.Command{
		Use:     "context",
		Short:   "Name targets, and choose one for the commands that follow",
		GroupID: groupLocal,
		Args:    noSuchVerb,
		RunE:    func(*cobra.Command, []string) error { return c.listContexts() },
	}
	list := &cobra.Command{
		Use: "list", Short: "List the contexts", Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return c.listContexts() },
	}
	use := &cobra.Command{
		Use: "use NAME", Short: "Use a context from now on", Args: exactly(1),
		ValidArgsFunction: c.completeContexts,
		RunE:              func(_ *cobra.Command, args []string) error { return c.useContext(args[0]) },
	}
	set := &cobra.Command{
		Use:   "set NAME --target ADDR",
		Short: "Make or change a context; --ca, --cert, --key, --tls and --token-file are kept with it",
		Args:  exactly(1), ValidArgsFunction: c.completeContexts,
		RunE: func(cmd *cobra.Command, args []string) error { return c.setContext(cmd, args[0]) },
	}
	verb.AddCommand(list, use, set)
	return verb
}

func (c *CLI) listContexts() error {
	file, err := c.readConfig()
	if err != nil {
		return err
	}
	switch c.flags.output {
	case formatName:
		for _, name := range file.names() {
			fmt.Fprintln(c.stdout, "context/"+name)
		}
		return nil
	case formatJSON, formatYAML:
		return c.writePlain(file)
	}
	if len(file.Contexts) == 0 {
		c.say("No contexts. `ctl context set NAME --target ADDR` makes one.")
		return nil
	}
	rows := newTable("CURRENT", "NAME", "TARGET", "+CA", "+CERT", "+TOKEN FILE")
	for _, p := range file.Contexts {
		mark := " "
		if p.Name == file.Current {
			mark = "*"
		}
		rows.add(mark, p.Name, p.Target, p.CA, p.Cert, p.Token)
	}
	rows.write(c.stdout, c.flags.output == formatWide)
	return nil
}

func (c *CLI) useContext(name string) error {
	file, err := c.readConfig()
	if err != nil {
		return err
	}
	p, ok := file.find(name)
	if !ok {
		return noContext(file, name)
	}
	file.Current = name
	if err := c.writeConfig(file); err != nil {
		return err
	}
	c.say("Using context %s (%s).", name, p.Target)
	return nil
}

// setContext makes or changes a context. The first one made is also used.
func (c *CLI) setContext(cmd *cobra.Command, name string) error {
	file, err := c.readConfig()
	if err != nil {
		return err
	}
	changed := place{Name: name, Target: c.flags.target}
	old, exists := file.find(name)
	if exists {
		changed = *old
	}
	if c.flags.target != "" {
		changed.Target = c.flags.target
	}
	if changed.Target == "" {
		return usagef(cmd, "a new context needs --target")
	}
	if err := checkAddress(changed.Target); err != nil {
		return usagef(cmd, "--target: %v", err)
	}
	c.flags.override(&changed.access)
	file.put(changed)
	if err := c.writeConfig(file); err != nil {
		return err
	}
	c.say("Context %s is %s.", name, changed.Target)
	return nil
}

// put adds the context or replaces the one of the same name.
func (f *config) put(p place) {
	i := slices.IndexFunc(f.Contexts, func(have place) bool { return have.Name == p.Name })
	if i >= 0 {
		f.Contexts[i] = p
		return
	}
	f.Contexts = append(f.Contexts, p)
	if len(f.Contexts) == 1 {
		f.Current = p.Name
	}
}
