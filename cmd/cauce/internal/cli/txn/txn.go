// Package txn holds the commands under `cauce txn`.
package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

// Command returns `cauce txn`.
func Command(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{Use: "txn", Short: "Look at transactions, and end those that hang"}
	s.BindConnection(cmd)
	s.BindOutput(cmd)
	cmd.AddCommand(list(s), describe(s), abort(s), findHanging(s))
	return cmd
}

// states of transactions, as Kafka spells them.
var states = []string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"}

// transaction is a transactional id and its present or last transaction. Numbers are -1 when not known.
type transaction struct {
	ID          string       `json:"transactional_id"`
	State       string       `json:"state"`
	Coordinator int32        `json:"coordinator_id"`
	ProducerID  int64        `json:"producer_id"`
	Epoch       int16        `json:"producer_epoch"`
	TimeoutMs   int32        `json:"timeout_ms"`
	StartMs     int64        `json:"start_time"` // milliseconds since 1970
	Topics      []partitions `json:"topics"`
}

type partitions struct {
	Topic string  `json:"topic"`
	IDs   []int32 `json:"partitions"`
}

func (t *transaction) includes(topic string, partition int32) bool {
	return slices.ContainsFunc(t.Topics, func(p partitions) bool { return p.Topic == topic && slices.Contains(p.IDs, partition) })
}

// ask sends a request to all nodes that it concerns. What some answer is returned with the error of others.
func ask[R kmsg.Response](ctx context.Context, client *kgo.Client, req kmsg.Request, each func(node int32, resp R) error) error {
	var faults []error
	for _, shard := range client.RequestSharded(ctx, req) {
		err := shard.Err
		if err == nil {
			err = each(shard.Meta.NodeID, shard.Resp.(R))
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("node %d: %w", shard.Meta.NodeID, exit.Answer(err, "")))
		}
	}
	return errors.Join(faults...)
}

// load lists the transactions of all coordinators that a filter admits, in order of their ids.
func load(ctx context.Context, client *kgo.Client, filter *kmsg.ListTransactionsRequest) ([]transaction, error) {
	found := []transaction{}
	err := ask(ctx, client, filter, func(node int32, resp *kmsg.ListTransactionsResponse) error {
		for _, s := range resp.TransactionStates {
			found = append(found, transaction{
				ID: s.TransactionalID, State: s.TransactionState, Coordinator: node, ProducerID: s.ProducerID, Epoch: -1, TimeoutMs: -1, StartMs: -1,
			})
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
	slices.SortFunc(found, func(a, b transaction) int { return strings.Compare(a.ID, b.ID) })
	return found, err
}

// loadDetails describes transactions by their ids, in order of these. Ids that there are not are among the errors.
func loadDetails(ctx context.Context, client *kgo.Client, ids ...string) ([]transaction, error) {
	found := []transaction{}
	if len(ids) == 0 {
		return found, nil
	}
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = ids
	var faults []error
	err := ask(ctx, client, req, func(node int32, resp *kmsg.DescribeTransactionsResponse) error {
		for _, s := range resp.TransactionStates {
			if err := kerr.ErrorForCode(s.ErrorCode); err != nil {
				faults = append(faults, fmt.Errorf("transactional id %q: %w", s.TransactionalID, answer(err)))
				continue
			}
			t := transaction{
				ID: s.TransactionalID, State: s.State, Coordinator: node, ProducerID: s.ProducerID, Epoch: s.ProducerEpoch,
				TimeoutMs: s.TimeoutMillis, StartMs: s.StartTimestamp, Topics: []partitions{},
			}
			for _, topic := range s.Topics {
				t.Topics = append(t.Topics, partitions{topic.Topic, slices.Sorted(slices.Values(topic.Partitions))})
			}
			slices.SortFunc(t.Topics, func(a, b partitions) int { return strings.Compare(a.Topic, b.Topic) })
			found = append(found, t)
		}
		return nil
	})
	slices.SortFunc(found, func(a, b transaction) int { return strings.Compare(a.ID, b.ID) })
	return found, errors.Join(append(faults, err)...)
}

// answer words the faults that are about transactions.
func answer(err error) error {
	if errors.Is(err, kerr.TransactionalIDNotFound) {
		return exit.With(exit.NotFound, fmt.Errorf("does not exist (%s)", kerr.TransactionalIDNotFound.Message))
	}
	return exit.Answer(err, "")
}

// since words how long ago a time in milliseconds since 1970 is.
func since(now time.Time, ms int64) string {
	if ms < 0 {
		return ""
	}
	return max(0, now.Sub(time.UnixMilli(ms))).Round(10 * time.Millisecond).String()
}
