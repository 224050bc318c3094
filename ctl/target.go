package ctl

import (
	"fmt"
	"net"
	"strings"
)

// defaultTarget is where a data plane listens for control unless told
// otherwise.
const defaultTarget = "127.0.0.1:7070"

// destination is where the control API is and how to be let in.
type destination struct {
	address string // host:port or unix:/path
	chosen  string // what chose it, for messages: "--target", "context prod", ...
	access
}

// destination is the target that the flags, the environment and the config
// file ask for, in this order.
func (c *CLI) destination() (destination, error) {
	d, err := c.choose()
	if err != nil {
		return destination{}, err
	}
	c.flags.override(&d.access)
	if err := checkAddress(d.address); err != nil {
		err = fmt.Errorf("%s: %w", d.chosen, err)
		if d.chosen == chosenByFlag || d.chosen == chosenByEnvironment {
			err = &codedError{code: exitUsage, err: err} // it is how the program was called
		}
		return destination{}, err
	}
	return d, nil
}

// What chooses a target besides the config file.
const (
	chosenByFlag        = "--target"
	chosenByEnvironment = "HEADGATE_TARGET"
)

func (c *CLI) choose() (destination, error) {
	if c.flags.target != "" {
		return destination{address: c.flags.target, chosen: chosenByFlag}, nil
	}
	if c.flags.context != "" {
		return c.contextDestination(c.flags.context)
	}
	if target := c.env.get("HEADGATE_TARGET"); target != "" {
		return destination{address: target, chosen: chosenByEnvironment}, nil
	}
	file, err := c.readConfig()
	if err != nil {
		return destination{}, err
	}
	if file.Current != "" {
		return c.contextDestination(file.Current)
	}
	return destination{address: defaultTarget, chosen: "default"}, nil
}

// contextDestination is the target of a named context of the config file.
func (c *CLI) contextDestination(name string) (destination, error) {
	file, err := c.readConfig()
	if err != nil {
		return destination{}, err
	}
	p, ok := file.find(name)
	if !ok {
		return destination{}, noContext(file, name)
	}
	return destination{address: p.Target, chosen: "context " + name, access: p.access}, nil
}

func noContext(file *config, name string) error {
	if len(file.Contexts) == 0 {
		return fmt.Errorf("no context %q: the config file has none; `ctl context set` makes one", name)
	}
	return fmt.Errorf("no context %q; there are: %s", name, strings.Join(file.names(), ", "))
}

// override puts flags that were given in the place of what a context says.
func (g *globals) override(a *access) {
	replace := func(field *string, flag string) {
		if flag != "" {
			*field = flag
		}
	}
	replace(&a.CA, g.access.CA)
	replace(&a.Cert, g.access.Cert)
	replace(&a.Key, g.access.Key)
	replace(&a.Token, g.tokenFile)
	a.TLS = a.TLS || g.tls
}

// checkAddress tells whether an address is host:port or unix:/path.
func checkAddress(address string) error {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		if path == "" {
			return fmt.Errorf("%q has no path; expected unix:/path", address)
		}
		return nil
	}
	if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
		return fmt.Errorf("%q is not an address; expected host:port or unix:/path", address)
	}
	return nil
}

// local reports whether bytes for the address stay on this machine.
func local(address string) bool {
	if strings.HasPrefix(address, "unix:") {
		return true
	}
	host, _, _ := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}
