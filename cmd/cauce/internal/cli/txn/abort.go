package txn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/txn/ledger"
)

// abortRetry is the pause before a coordinator is asked again whether a transaction is aborted.
const abortRetry = 100 * time.Millisecond

type abortion struct {
	session   *session.Session
	topic     string
	partition int32
	start     int64
}

type aborted struct {
	ID         string `json:"transactional_id,omitempty"`
	Topic      string `json:"topic,omitempty"`
	Partition  *int32 `json:"partition,omitempty"`
	ProducerID int64  `json:"producer_id"`
	Epoch      int16  `json:"producer_epoch"`
	Result     string `json:"result"`
}

func abort(s *session.Session) *cobra.Command {
	a := &abortion{session: s}
	cmd := &cobra.Command{
		Use:   "abort [ID]",
		Short: "Abort the transaction of a transactional id, or a hanging one on a partition",
		Long: `Abort the transaction of a transactional id: its producer is fenced, as if another one had started, and
has to be started again.

With --topic, --partition and --start-offset, as find-hanging shows them, the partition alone gets the marker
that it waits for. That is for transactions that no coordinator knows any more: on one that is open it
breaks the transaction's atomicity.`,
		Example: `  cauce txn abort orders-0
  cauce txn abort --topic orders --partition 3 --start-offset 4711`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			byOffset := cmd.Flags().Changed("topic") && cmd.Flags().Changed("partition") && cmd.Flags().Changed("start-offset")
			if byOffset == (len(args) == 1) {
				return exit.Usagef("give either a transactional id, or --topic, --partition and --start-offset")
			}
			return a.run(cmd.Context(), args)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&a.topic, "topic", "", "topic of a hanging transaction")
	flags.Int32Var(&a.partition, "partition", 0, "its `PARTITION`")
	flags.Int64Var(&a.start, "start-offset", 0, "`OFFSET` of the transaction's first record there")
	return cmd
}

func (a *abortion) run(ctx context.Context, args []string) error {
	client, err := a.session.Connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := a.session.Bounded(ctx)
	defer cancel()
	var done aborted
	if len(args) == 1 {
		done, err = fence(ctx, client, args[0])
	} else {
		done, err = a.mark(ctx, kadm.NewClient(client))
	}
	if err != nil {
		return err
	}
	return a.session.Print([]aborted{done}, func() *output.Table {
		where := done.ID
		if done.Partition != nil {
			where = fmt.Sprintf("%s[%d]", done.Topic, *done.Partition)
		}
		table := output.NewTable(output.Left("WHERE"), output.Right("PRODUCER ID"), output.Right("EPOCH"), output.Left("RESULT"))
		table.Row(where, done.ProducerID, done.Epoch, done.Result)
		return table
	})
}

// fence takes a transactional id over, which has its coordinator abort what is open, and returns when that is done.
func fence(ctx context.Context, client *kgo.Client, id string) (aborted, error) {
	found, err := ledger.Describe(ctx, client, id)
	if err != nil {
		return aborted{}, err
	}
	t := found[0]
	if t.State != "Ongoing" {
		return aborted{ID: id, ProducerID: t.ProducerID, Epoch: t.Epoch, Result: "nothing is open"}, nil
	}
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = &id, t.TimeoutMs, -1, -1
	for {
		resp, err := req.RequestWith(ctx, client)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err == nil {
			return aborted{ID: id, ProducerID: t.ProducerID, Epoch: t.Epoch, Result: "aborted"}, nil
		}
		if !errors.Is(err, kerr.ConcurrentTransactions) {
			return aborted{}, fmt.Errorf("transactional id %q: %w", id, exit.Answer(err, ""))
		}
		select {
		case <-time.After(abortRetry):
		case <-ctx.Done():
			return aborted{}, fmt.Errorf("transactional id %q is being aborted: %w", id, ctx.Err())
		}
	}
}

// mark writes the marker of an abort for a hanging transaction.
func (a *abortion) mark(ctx context.Context, admin *kadm.Client) (aborted, error) {
	set := kadm.TopicsSet{}
	set.Add(a.topic, a.partition)
	where := fmt.Sprintf("%s[%d]", a.topic, a.partition)
	described, err := admin.DescribeProducers(ctx, set)
	if err != nil {
		return aborted{}, fmt.Errorf("%s: %w", where, exit.Answer(err, ""))
	}
	p := described[a.topic].Partitions[a.partition]
	if p.Err != nil {
		return aborted{}, fmt.Errorf("%s: %w", where, exit.Answer(p.Err, p.ErrMessage))
	}
	for _, producer := range p.ActiveProducers {
		if producer.CurrentTxnStartOffset != a.start {
			continue
		}
		markers := kadm.TxnMarkers{
			ProducerID: producer.ProducerID, ProducerEpoch: producer.ProducerEpoch, CoordinatorEpoch: max(producer.CoordinatorEpoch, 0), Topics: set,
		}
		answers, err := admin.WriteTxnMarkers(ctx, markers)
		if err == nil {
			err = answers[producer.ProducerID].Topics[a.topic].Partitions[a.partition].Err
		}
		if err != nil {
			return aborted{}, fmt.Errorf("%s: %w", where, exit.Answer(err, ""))
		}
		return aborted{Topic: a.topic, Partition: &a.partition, ProducerID: producer.ProducerID, Epoch: producer.ProducerEpoch, Result: "aborted"}, nil
	}
	return aborted{}, exit.With(exit.NotFound, fmt.Errorf("%s: no transaction that began at offset %d is open", where, a.start))
}
