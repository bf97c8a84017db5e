// Command cauce runs the Cauce event-streaming platform in one process and is its command line.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once, should closing down take too long for someone.
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
