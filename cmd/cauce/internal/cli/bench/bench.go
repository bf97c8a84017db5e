// Package bench holds the commands under `cauce bench`.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

// Command returns `cauce bench`.
func Command(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{Use: "bench", Short: "Measure throughput and latency"}
	s.BindConnection(cmd)
	s.BindOutput(cmd)
	cmd.AddCommand(produce(s), consume(s))
	return cmd
}

// extent is how long a run lasts, and how it is watched.
type extent struct {
	records  int64
	duration time.Duration
	warmup   time.Duration
	quiet    bool
}

func (e *extent) bind(flags *pflag.FlagSet) {
	flags.Int64VarP(&e.records, "records", "n", 0, "stop after `N` records")
	flags.DurationVarP(&e.duration, "duration", "d", 0, "stop after this long, warm-up included")
	flags.DurationVar(&e.warmup, "warmup", 0, "leave the first so long out of the result")
	flags.BoolVarP(&e.quiet, "quiet", "q", false, "no line each second on stderr")
}

func (e *extent) check() error {
	switch {
	case e.records < 0:
		return exit.Usagef("--records %d: must be positive", e.records)
	case e.duration < 0:
		return exit.Usagef("--duration %v: must be positive", e.duration)
	case e.warmup < 0 || e.duration > 0 && e.warmup >= e.duration:
		return exit.Usagef("--warmup %v: must be shorter than --duration %v", e.warmup, e.duration)
	}
	return nil
}

var errDone = errors.New("the time is over")

// within returns a context that ends with parent or when --duration is over, then with errDone as its cause.
func (e *extent) within(parent context.Context) (context.Context, context.CancelFunc) {
	if e.duration == 0 {
		return context.WithCancel(parent)
	}
	return context.WithTimeoutCause(parent, e.duration, errDone)
}

// watch reports on the meter in the background until stop is called, which waits for it.
func (e *extent) watch(m *meter, errs io.Writer) (stop func()) {
	if e.quiet {
		errs = io.Discard
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.watch(ctx, errs, e.warmup)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// topicFault names the topic that a run failed on.
func topicFault(topic string, err error, message string) error {
	return fmt.Errorf("topic %q: %w", topic, exit.Answer(err, message))
}
