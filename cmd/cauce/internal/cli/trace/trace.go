// Package trace holds `cauce trace`: one trace as a waterfall.
package trace

import (
	"context"
	"net/http"
	"os"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/terminal"
)

// JaegerVariable names the environment variable that replaces the default of --jaeger.
const JaegerVariable = "CAUCE_JAEGER"

const (
	defaultJaeger  = "http://127.0.0.1:16686"
	defaultTimeout = 15 * time.Second
	defaultWithin  = time.Hour
)

type tracing struct {
	session *session.Session
	jaeger  string
	last    bool
	search  search
	width   int
}

var traceID = regexp.MustCompile(`^[0-9a-fA-F]{1,32}$`)

// Command returns `cauce trace`.
func Command(s *session.Session) *cobra.Command {
	t := &tracing{session: s}
	cmd := &cobra.Command{
		Use:   "trace {TRACE_ID | --last}",
		Short: "Draw a trace as a waterfall",
		Long: `Draw a trace as a waterfall: what each service did for one request, when, and for how long. Traces come from
Jaeger's query API. Logs name the trace that they belong to.`,
		Example: `  cauce trace 4bf92f3577b34da6a3ce929d0e0e4736
  cauce trace --last --service cauce-broker
  cauce trace --last -o json --jaeger http://jaeger:16686`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return t.run(cmd, args) },
	}
	base := os.Getenv(JaegerVariable)
	if base == "" {
		base = defaultJaeger
	}
	flags := cmd.Flags()
	flags.StringVar(&t.jaeger, "jaeger", base, "where Jaeger's query API is, `URL` ($"+JaegerVariable+")")
	flags.BoolVar(&t.last, "last", false, "draw the newest trace instead of a named one")
	flags.StringVar(&t.search.service, "service", "", "with --last: of this `SERVICE` only")
	flags.StringVar(&t.search.operation, "operation", "", "with --last: one that has a span of this `NAME`")
	flags.DurationVar(&t.search.within, "within", defaultWithin, "with --last: no older than `TIME`")
	flags.IntVar(&t.width, "width", 0, "draw in so many `COLUMNS` instead of what the terminal has")
	flags.DurationVar(&s.Timeout, "timeout", defaultTimeout, "give up when Jaeger has not answered after this long")
	s.BindOutput(cmd)
	return cmd
}

func (t *tracing) run(cmd *cobra.Command, args []string) error {
	switch {
	case t.last == (len(args) == 1):
		return exit.Usagef("give either the id of a trace or --last")
	case len(args) == 1 && !traceID.MatchString(args[0]):
		return exit.Usagef("%q is not the id of a trace: up to 32 hexadecimal digits", args[0])
	case t.width < 0 || t.width > 0 && t.width < columnsMin:
		return exit.Usagef("--width %d: must be %d or more", t.width, columnsMin)
	}
	ctx, cancel := t.session.Bounded(cmd.Context())
	defer cancel()
	found, err := t.find(ctx, args)
	if err != nil {
		return err
	}
	if t.session.Format == output.JSON {
		return output.WriteJSON(t.session.Out, found)
	}
	if t.width == 0 {
		t.width, _ = terminal.Size(t.session.Out)
	}
	return found.write(t.session.Out, t.width)
}

func (t *tracing) find(ctx context.Context, args []string) (Trace, error) {
	j := &jaeger{base: t.jaeger, client: http.DefaultClient}
	if t.last {
		return j.last(ctx, t.search)
	}
	return j.trace(ctx, args[0])
}
