package ctl

import (
	"fmt"

	"github.com/spf13/cobra"
)

// noArgs refuses words after a verb that takes none.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef(cmd, "unexpected argument %q", args[0])
	}
	return nil
}

// exactly asks for n words.
func exactly(n int) cobra.PositionalArgs {
	return between(n, n)
}

// between asks for at least low and at most high words.
func between(low, high int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < low:
			return usagef(cmd, "%s: expected %s, got %d", cmd.Use, wanted(low, high), len(args))
		case len(args) > high:
			return usagef(cmd, "unexpected argument %q", args[high])
		}
		return nil
	}
}

func wanted(low, high int) string {
	if low == high {
		return plural(low, "argument")
	}
	return fmt.Sprintf("%d to %d arguments", low, high)
}
