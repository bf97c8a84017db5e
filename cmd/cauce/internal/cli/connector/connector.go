// Package connector holds the commands under `cauce connector`.
package connector

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/connector/rest"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

// addressVariable names the environment variable that replaces the default of --connect.
const addressVariable = "CAUCE_CONNECT"

const (
	defaultAddress = "http://127.0.0.1:8083"
	// defaultTimeout is more than for other commands: connectors are asked what they think of a configuration.
	defaultTimeout    = 30 * time.Second
	completionTimeout = 2 * time.Second
)

// area is what the commands share.
type area struct {
	session   *session.Session
	addresses []string
	timeout   time.Duration
}

// Command returns `cauce connector`.
func Command(s *session.Session) *cobra.Command {
	a := &area{session: s}
	cmd := &cobra.Command{
		Use:     "connector",
		Aliases: []string{"connectors"},
		Short:   "Create, watch, change and restart connectors, and move their offsets",
		Long: `Create, watch, change and restart connectors by the REST interface of Connect workers: those of Cauce, or any other that is
compatible with Kafka's. Any worker may be asked; it passes on what another has to answer.`,
	}
	address := os.Getenv(addressVariable)
	if address == "" {
		address = defaultAddress
	}
	flags := cmd.PersistentFlags()
	flags.StringSliceVar(&a.addresses, "connect", strings.Split(address, ","), "where the workers are, `URL,…`: the first that is there is asked ($"+addressVariable+")")
	flags.DurationVar(&a.timeout, "timeout", defaultTimeout, "give up when the workers have not answered after this long")
	s.BindOutput(cmd)
	cmd.AddCommand(a.list(), a.status(), a.create(), a.config(), a.validate(),
		a.target("pause", "Have connectors and their tasks wait", "PAUSED"), a.target("resume", "Have connectors go on that wait or are stopped", running),
		a.target("stop", "Have connectors keep their configuration and offsets only", "STOPPED"),
		a.restart(), a.offsets(), a.plugins(), a.remove(), a.standalone())
	return cmd
}

// client returns a client, and a context that ends when --timeout is over.
func (a *area) client(parent context.Context) (*rest.Client, context.Context, context.CancelFunc, error) {
	c, err := rest.New(a.addresses)
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithTimeout(parent, a.timeout)
	return c, ctx, cancel, nil
}

// fault names the connector that an answer is about.
func fault(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("connector %q: %w", name, err)
}

// complete offers the names of connectors, at most limit of them (0: no limit). It stays silent when no worker answers.
func (a *area) complete(limit int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const directive = cobra.ShellCompDirectiveNoFileComp
		c, err := rest.New(a.addresses)
		if err != nil || limit > 0 && len(args) >= limit {
			return nil, directive
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		names, err := c.Connectors(ctx)
		if err != nil {
			return nil, directive
		}
		return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) }), directive
	}
}
