// Package session holds what the commands of one invocation share: the standard streams, the flags
// that say which cluster to speak to and how to print, and the client made from them.
package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
)

// BootstrapVariable names the environment variable that replaces the default of --bootstrap.
const BootstrapVariable = "CAUCE_BOOTSTRAP"

const (
	defaultBootstrap = "127.0.0.1:9092"
	defaultTimeout   = 15 * time.Second
	clientID         = "cauce-cli"
)

// Session is one invocation of the command line. The zero value with its streams set is ready for use.
type Session struct {
	In       io.Reader
	Out, Err io.Writer

	// Format is how results are printed (--output).
	Format output.Format
	// Timeout bounds every request and every command that has an end of its own (--timeout).
	Timeout time.Duration

	bootstrap string
	verbose   bool
}

// BindConnection gives cmd and its children the flags that say which cluster to speak to.
func (s *Session) BindConnection(cmd *cobra.Command) {
	bootstrap := os.Getenv(BootstrapVariable)
	if bootstrap == "" {
		bootstrap = defaultBootstrap
	}
	flags := cmd.PersistentFlags()
	flags.StringVarP(&s.bootstrap, "bootstrap", "b", bootstrap, "where the cluster is, `HOST:PORT,…` ($"+BootstrapVariable+")")
	flags.DurationVar(&s.Timeout, "timeout", defaultTimeout, "give up when the cluster has not answered after this long")
	flags.BoolVar(&s.verbose, "verbose", false, "log what the client does to stderr")
}

// BindOutput gives cmd and its children the --output flag.
func (s *Session) BindOutput(cmd *cobra.Command) {
	s.Format = output.Tabular
	cmd.PersistentFlags().VarP(&s.Format, "output", "o", "how to print the result")
}

// Print writes the result of a command in the format asked for: document as JSON, or what table returns.
func (s *Session) Print(document any, table func() *output.Table) error {
	if s.Format == output.JSON {
		return output.WriteJSON(s.Out, document)
	}
	return table().Write(s.Out)
}

// Bounded returns a context that ends with the parent or when --timeout is over.
func (s *Session) Bounded(parent context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(parent, s.Timeout)
}

// Connect returns a client of the cluster once a server has answered it. The error names the
// addresses when none did.
func (s *Session) Connect(ctx context.Context, options ...kgo.Opt) (*kgo.Client, error) {
	if strings.TrimSpace(s.bootstrap) == "" {
		return nil, exit.Usagef("--bootstrap: no address given")
	}
	options = append([]kgo.Opt{
		kgo.SeedBrokers(strings.Split(s.bootstrap, ",")...),
		kgo.ClientID(clientID),
		kgo.DialTimeout(min(s.Timeout, defaultTimeout)),
		kgo.RetryTimeout(s.Timeout),
		kgo.RequestTimeoutOverhead(s.Timeout),
		kgo.MetadataMinAge(250 * time.Millisecond),
		kgo.DisableClientMetrics(),
	}, options...)
	if s.verbose {
		options = append(options, kgo.WithLogger(kgo.BasicLogger(s.Err, kgo.LogLevelDebug, nil)))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, exit.Usagef("--bootstrap %s: %w", s.bootstrap, err)
	}
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		client.Close()
		return nil, s.unreachable(err)
	}
	return client, nil
}

// Admin returns a client for administrative requests once a server has answered it.
func (s *Session) Admin(ctx context.Context) (*kadm.Client, error) {
	client, err := s.Connect(ctx)
	if err != nil {
		return nil, err
	}
	admin := kadm.NewClient(client)
	admin.SetTimeoutMillis(int32(min(s.Timeout.Milliseconds(), 1<<31-1)))
	return admin, nil
}

// unreachable words why no server answered. A deadline or a name that does not resolve counts as
// unreachable too; an answer that refuses the client, or a connection cut half way, does not.
func (s *Session) unreachable(err error) error {
	var dns *net.DNSError
	var op *net.OpError
	wrapped := fmt.Errorf("nothing answers at %s: %w", s.bootstrap, err)
	switch {
	case errors.As(err, &op) && op.Op == "dial":
		return exit.With(exit.Unreachable, fmt.Errorf("nothing answers at %s: %w", s.bootstrap, op.Err))
	case errors.As(err, &dns), errors.Is(err, context.DeadlineExceeded):
		return exit.With(exit.Unreachable, wrapped)
	case errors.Is(err, context.Canceled):
		return err
	}
	return fmt.Errorf("%s does not answer as a Kafka server: %w", s.bootstrap, err)
}
