// Package ctl is the command line. It reads manifests, says what is wrong with
// them, and drives whatever speaks headgate.control.v1.
//
// It owns what a person sees: the words, the tables and the exit codes. Data
// goes to stdout and words go to stderr. It must not know how a data plane
// works inside: it borrows the compiler of snapshots, so that it refuses
// offline exactly what a data plane would refuse, and nothing else.
package ctl

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"
)

// Exit codes of every verb but diff.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// CLI is one run of the program.
type CLI struct {
	env    environ
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	now    func() time.Time
	traces traces // set before a verb runs

	flags globals // owned by cobra until a verb runs, read only afterwards
}

// globals are the flags that every verb has.
type globals struct {
	target    string
	context   string
	timeout   time.Duration
	output    format
	access    access
	tls       bool
	tokenFile string
}

// Main runs one command line and returns its exit code. args is without the
// name of the program; env is in the form of os.Environ. When ctx ends, what
// is under way is given up.
func Main(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := &CLI{env: environ(env), stdin: stdin, stdout: stdout, stderr: stderr, now: time.Now}
	return c.main(ctx, args)
}

func (c *CLI) main(ctx context.Context, args []string) int {
	ctx, flush := c.startTracing(ctx)
	defer flush()
	root := New(c)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	c.report(err)
	return exitCode(err)
}

// exitCode is the code that err asks for.
func exitCode(err error) int {
	if coded, ok := errors.AsType[*codedError](err); ok {
		return coded.code
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		return exitUsage
	}
	return exitFailed
}

// New is the tree of verbs that writes to and reads from c.
func New(c *CLI) *cobra.Command {
	root := &cobra.Command{
		Use:           "ctl",
		Short:         "Drive a Headgate data plane or control plane",
		Long:          rootLong,
		Args:          noSuchVerb,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,

		SuggestionsMinimumDistance: 2,
	}
	root.SetIn(c.stdin)
	root.SetOut(c.stdout)
	root.SetErr(c.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usagef(cmd, "%v", err) })
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddGroup(&cobra.Group{ID: groupChange, Title: "Change what runs:"},
		&cobra.Group{ID: groupLook, Title: "Look at what runs:"},
		&cobra.Group{ID: groupLocal, Title: "This program:"})
	root.SetHelpCommandGroupID(groupLocal)
	c.addGlobalFlags(root)
	root.AddCommand(c.applyVerb(), c.diffVerb(), c.validateVerb(), c.rollbackVerb(), c.drainVerb(), c.undrainVerb(),
		c.getVerb(), c.explainVerb(), c.statusVerb(), c.eventsVerb(), c.historyVerb(),
		c.contextVerb(), c.completionVerb(), c.versionVerb())
	return root
}

const rootLong = `Drive a Headgate data plane or control plane.

Where to: --target, else --context, else HEADGATE_TARGET, else the current context of the
config file ($XDG_CONFIG_HOME/headgate/config.yaml), else 127.0.0.1:7070.
Exit codes: 0 done, 1 failed, 2 usage. diff: 0 same, 1 different, 2 error.`

// Groups of verbs in the help.
const (
	groupChange = "change"
	groupLook   = "look"
	groupLocal  = "local"
)

func (c *CLI) addGlobalFlags(root *cobra.Command) {
	f, g := root.PersistentFlags(), &c.flags
	g.output = formatTable
	f.StringVar(&g.target, "target", "", "address of the control API: host:port or unix:/path")
	f.StringVar(&g.context, "context", "", "context of the config file to use")
	f.DurationVar(&g.timeout, "timeout", time.Minute, "give up after this long; 0 waits without end")
	f.VarP(&g.output, "output", "o", "form of the output: table, wide, yaml, json or name")
	f.StringVar(&g.tokenFile, "token-file", "", "file with the bearer token to present")
	f.BoolVar(&g.tls, "tls", false, "use TLS with the system's roots; implied by --ca and --cert")
	f.StringVar(&g.access.CA, "ca", "", "PEM file of the authorities that sign the server's certificate")
	f.StringVar(&g.access.Cert, "cert", "", "PEM file of the client certificate to present")
	f.StringVar(&g.access.Key, "key", "", "PEM file of the client certificate's private key")
	c.completeFlags(root)
}

// noSuchVerb refuses words that name no verb, and says which was meant.
func noSuchVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	near := cmd.SuggestionsFor(args[0])
	if len(near) == 0 {
		return usagef(cmd, "unknown command %q", args[0])
	}
	return usagef(cmd, "unknown command %q; did you mean %q?", args[0], near[0])
}
