package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/txn/ledger"
)

type search struct {
	session *session.Session
	topics  []string
	older   time.Duration
}

func findHanging(s *session.Session) *cobra.Command {
	h := &search{session: s}
	cmd := &cobra.Command{
		Use:   "find-hanging",
		Short: "Find partitions with an open transaction that no coordinator will end",
		Long: `Find partitions with an open transaction that no coordinator will end: committed consumers do not get past
them, and retention and compaction stop. Writes younger than --older-than are passed over, since a coordinator
ends a transaction by itself when its timeout is over (transaction.max.timeout.ms at the latest).`,
		Example: `  cauce txn find-hanging
  cauce txn find-hanging --topic orders --older-than 5m`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return h.run(cmd.Context()) },
	}
	cmd.Flags().StringSliceVar(&h.topics, "topic", nil, "look at this topic only; may be repeated")
	cmd.Flags().DurationVar(&h.older, "older-than", 15*time.Minute, "pass over transactions that wrote within this `TIME`")
	return cmd
}

func (h *search) run(ctx context.Context) error {
	client, err := h.session.Connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := h.session.Bounded(ctx)
	defer cancel()
	open, err := h.open(ctx, kadm.NewClient(client), time.Now())
	found := []ledger.Open{}
	if len(open) > 0 {
		known, fault := ledger.ByProducer(ctx, client, open)
		if fault != nil {
			return errors.Join(err, fault) // without the coordinators' answers everything would seem to hang
		}
		found = ledger.Hanging(open, known)
	}
	return errors.Join(h.print(found), err)
}

// open are the transactions that partitions have open for so long.
func (h *search) open(ctx context.Context, admin *kadm.Client, now time.Time) ([]ledger.Open, error) {
	topics, err := admin.ListTopicsWithInternal(ctx, h.topics...)
	if err != nil {
		return nil, exit.Answer(err, "")
	}
	var faults []error
	for _, t := range topics.Sorted() {
		if t.Err != nil {
			faults = append(faults, fmt.Errorf("topic %q: %w", t.Topic, exit.Answer(t.Err, "")))
			delete(topics, t.Topic)
		}
	}
	if len(topics) == 0 {
		return nil, errors.Join(faults...)
	}
	open, err := ledger.OpenOn(ctx, admin, topics.TopicsSet())
	open = slices.DeleteFunc(open, func(o ledger.Open) bool { return now.Sub(time.UnixMilli(o.LastMs)) <= h.older })
	return open, errors.Join(append(faults, err)...)
}

func (h *search) print(found []ledger.Open) error {
	return h.session.Print(found, func() *output.Table {
		table := output.NewTable(output.Left("TOPIC"), output.Right("PARTITION"), output.Right("START OFFSET"), output.Right("PRODUCER ID"),
			output.Right("EPOCH"), output.Right("LAST WRITE"), output.Left("TRANSACTIONAL ID"), output.Left("REASON"))
		for _, f := range found {
			table.Row(f.Topic, f.Partition, f.Start, f.ProducerID, f.Epoch, since(time.Now(), f.LastMs)+" ago", f.ID, f.Reason)
		}
		return table
	})
}
