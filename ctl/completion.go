package ctl

import (
	"fmt"

	"github.com/spf13/cobra"
)

var shells = []string{"bash", "zsh", "fish", "powershell"}

func (c *CLI) completionVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a script that completes commands and names in a shell",
		Long: `Print a script that completes commands and names in a shell. To use it:

  bash:        source <(ctl completion bash)
  zsh:         ctl completion zsh > "${fpath[1]}/_ctl"
  fish:        ctl completion fish > ~/.config/fish/completions/ctl.fish
  powershell:  ctl completion powershell | Out-String | Invoke-Expression`,
		GroupID:   groupLocal,
		Args:      exactly(1),
		ValidArgs: shells,
		RunE:      func(cmd *cobra.Command, args []string) error { return c.completion(cmd, args[0]) },
	}
}

func (c *CLI) completion(cmd *cobra.Command, shell string) error {
	root := cmd.Root()
	switch shell {
	case "bash":
		return root.GenBashCompletionV2(c.stdout, true)
	case "zsh":
		return root.GenZshCompletion(c.stdout)
	case "fish":
		return root.GenFishCompletion(c.stdout, true)
	case "powershell":
		return root.GenPowerShellCompletionWithDesc(c.stdout)
	}
	return usagef(cmd, "unknown shell %q; there are bash, zsh, fish and powershell", shell)
}

// completeFlags says what the values of the flags of all verbs may be.
func (c *CLI) completeFlags(root *cobra.Command) {
	fixed := func(values []string) cobra.CompletionFunc {
		return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	}
	flags := map[string]cobra.CompletionFunc{
		"output": fixed(formats), "context": c.completeContexts,
		"target": fixed(nil), "timeout": fixed(nil),
	}
	for name, complete := range flags {
		if err := root.RegisterFlagCompletionFunc(name, complete); err != nil {
			panic(fmt.Sprintf("ctl: completion of --%s: %v", name, err))
		}
	}
}

// completeContexts offers the names of the contexts for a first word or a
// flag.
func (c *CLI) completeContexts(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	file, err := c.readConfig()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return file.names(), cobra.ShellCompDirectiveNoFileComp
}

// completeManifests lets the shell offer file names.
func completeManifests(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
}
