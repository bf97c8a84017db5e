package txn

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/txn/ledger"
)

func describe(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "describe ID…",
		Short: "Show who has a transactional id, and which partitions its transaction has",
		Long: `Show who has a transactional id, and which partitions its transaction has. Of a transaction that is
decided these are the partitions that have no marker yet.`,
		Example: "  cauce txn describe orders-0",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			client, err := s.Connect(cmd.Context())
			if err != nil {
				return err
			}
			defer client.Close()
			ctx, cancel := s.Bounded(cmd.Context())
			defer cancel()
			found, err := ledger.Describe(ctx, client, ids...)
			return errors.Join(printDetails(s, found, time.Now()), err)
		},
	}
}

func printDetails(s *session.Session, found []ledger.Transaction, now time.Time) error {
	if s.Format == output.JSON {
		return output.WriteJSON(s.Out, found)
	}
	for i := range found {
		if i > 0 {
			fmt.Fprintln(s.Out)
		}
		if err := write(s.Out, &found[i], now); err != nil {
			return err
		}
	}
	return nil
}

func write(w io.Writer, t *ledger.Transaction, now time.Time) error {
	table := output.NewTable(output.Left(""), output.Left(""))
	table.Row("Transactional id", t.ID)
	table.Row("State", t.State)
	table.Row("Coordinator", t.Coordinator)
	table.Row("Producer id", t.ProducerID)
	table.Row("Producer epoch", t.Epoch)
	table.Row("Timeout", time.Duration(t.TimeoutMs)*time.Millisecond)
	table.Row("Began", began(now, t.StartMs))
	for _, p := range t.Topics {
		ids := make([]string, 0, len(p.IDs))
		for _, id := range p.IDs {
			ids = append(ids, strconv.Itoa(int(id)))
		}
		table.Row("Partitions", p.Topic+" "+strings.Join(ids, ","))
	}
	return table.Write(w)
}

func began(now time.Time, ms int64) string {
	if ms < 0 {
		return ""
	}
	return time.UnixMilli(ms).UTC().Format(time.RFC3339) + ", " + since(now, ms) + " ago"
}
