package txn

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/txn/ledger"
)

type listing struct {
	session    *session.Session
	states     []string
	producers  []int64
	longerThan time.Duration
	quiet      bool
}

func list(s *session.Session) *cobra.Command {
	l := &listing{session: s}
	cmd := &cobra.Command{
		Use:     "list [PATTERN]",
		Aliases: []string{"ls"},
		Short:   "List transactional ids, all or those that match a pattern (* and ?)",
		Example: `  cauce txn list
  cauce txn list 'orders-*' --state Ongoing --longer-than 1m`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern := "*"
			if len(args) == 1 {
				pattern = args[0]
			}
			return l.run(cmd.Context(), pattern)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&l.states, "state", nil, "list those in `STATE` only; may be repeated: "+strings.Join(states, ", "))
	flags.Int64SliceVar(&l.producers, "producer-id", nil, "list those of this producer `ID` only; may be repeated")
	flags.DurationVar(&l.longerThan, "longer-than", 0, "list only transactions that began longer ago than `TIME`")
	flags.BoolVarP(&l.quiet, "quiet", "q", false, "print ids only, one per line")
	return cmd
}

func (l *listing) run(ctx context.Context, pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil {
		return exit.Usagef("pattern %q: %w", pattern, err)
	}
	req := kmsg.NewPtrListTransactionsRequest()
	req.ProducerIDFilters = l.producers
	if l.longerThan > 0 {
		req.DurationFilterMillis = l.longerThan.Milliseconds()
	}
	for _, state := range l.states {
		at := slices.IndexFunc(states, func(known string) bool { return strings.EqualFold(known, state) })
		if at < 0 {
			return exit.Usagef("--state %q: must be one of %s", state, strings.Join(states, ", "))
		}
		req.StateFilters = append(req.StateFilters, states[at])
	}
	client, err := l.session.Connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := l.session.Bounded(ctx)
	defer cancel()
	all, err := ledger.List(ctx, client, req)
	found := slices.DeleteFunc(all, func(t ledger.Transaction) bool { match, _ := path.Match(pattern, t.ID); return !match })
	return errors.Join(l.print(found), err)
}

// listed is what a list has of a transaction.
type listed struct {
	ID          string `json:"transactional_id"`
	State       string `json:"state"`
	Coordinator int32  `json:"coordinator_id"`
	ProducerID  int64  `json:"producer_id"`
}

func (l *listing) print(found []ledger.Transaction) error {
	if l.quiet && l.session.Format == output.Tabular {
		for _, t := range found {
			if _, err := fmt.Fprintln(l.session.Out, t.ID); err != nil {
				return err
			}
		}
		return nil
	}
	document := []listed{}
	for _, t := range found {
		document = append(document, listed{t.ID, t.State, t.Coordinator, t.ProducerID})
	}
	return l.session.Print(document, func() *output.Table {
		table := output.NewTable(output.Left("TRANSACTIONAL ID"), output.Left("STATE"), output.Right("COORDINATOR"), output.Right("PRODUCER ID"))
		for _, t := range found {
			table.Row(t.ID, t.State, t.Coordinator, t.ProducerID)
		}
		return table
	})
}
