package ctl

import (
	"os"
	"os/user"

	"github.com/spf13/cobra"

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
	name := c.userName()
	host, err := os.Hostname()
	if name == "" || err != nil {
		return name
	}
	return name + "@" + host
}

// userName is who runs the program, "" if that is not known.
func (c *CLI) userName() string {
	if name := c.env.get("USER"); name != "" {
		return name
	}
	if account, err := user.Current(); err == nil {
		return account.Username
	}
	return ""
}
