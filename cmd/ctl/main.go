// Command ctl drives a Headgate data plane or control plane.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/headgate/headgate/ctl"
)

func main() {
	os.Exit(run())
}

// run ends what is under way at the first signal. A second one ends the
// program at once, since stop gives signals their usual meaning back.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return ctl.Main(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr)
}
