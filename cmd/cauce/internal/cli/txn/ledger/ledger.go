// Package ledger reads what a cluster tells of its transactions: what coordinators know of them, and what partitions have open.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
)

// Transaction is a transactional id and its present or last transaction. Numbers are -1 when not known.
type Transaction struct {
	ID          string       `json:"transactional_id"`
	State       string       `json:"state"`
	Coordinator int32        `json:"coordinator_id"`
	ProducerID  int64        `json:"producer_id"`
	Epoch       int16        `json:"producer_epoch"`
	TimeoutMs   int32        `json:"timeout_ms"`
	StartMs     int64        `json:"start_time"` // milliseconds since 1970
	Topics      []Partitions `json:"topics"`
}

// Partitions are those of one topic.
type Partitions struct {
	Topic string  `json:"topic"`
	IDs   []int32 `json:"partitions"`
}

// Includes says whether a partition is in the transaction.
func (t *Transaction) Includes(topic string, partition int32) bool {
	return slices.ContainsFunc(t.Topics, func(p Partitions) bool { return p.Topic == topic && slices.Contains(p.IDs, partition) })
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

// List lists the transactions of all coordinators that a filter admits, in order of their ids.
func List(ctx context.Context, client *kgo.Client, filter *kmsg.ListTransactionsRequest) ([]Transaction, error) {
	found := []Transaction{}
	err := ask(ctx, client, filter, func(node int32, resp *kmsg.ListTransactionsResponse) error {
		for _, s := range resp.TransactionStates {
			found = append(found, Transaction{
				ID: s.TransactionalID, State: s.TransactionState, Coordinator: node, ProducerID: s.ProducerID, Epoch: -1, TimeoutMs: -1, StartMs: -1,
			})
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
	slices.SortFunc(found, func(a, b Transaction) int { return strings.Compare(a.ID, b.ID) })
	return found, err
}

// Describe describes transactions by their ids, in order of these. Ids that there are not are among the errors.
func Describe(ctx context.Context, client *kgo.Client, ids ...string) ([]Transaction, error) {
	found := []Transaction{}
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
			t := Transaction{
				ID: s.TransactionalID, State: s.State, Coordinator: node, ProducerID: s.ProducerID, Epoch: s.ProducerEpoch,
				TimeoutMs: s.TimeoutMillis, StartMs: s.StartTimestamp, Topics: []Partitions{},
			}
			for _, topic := range s.Topics {
				t.Topics = append(t.Topics, Partitions{topic.Topic, slices.Sorted(slices.Values(topic.Partitions))})
			}
			slices.SortFunc(t.Topics, func(a, b Partitions) int { return strings.Compare(a.Topic, b.Topic) })
			found = append(found, t)
		}
		return nil
	})
	slices.SortFunc(found, func(a, b Transaction) int { return strings.Compare(a.ID, b.ID) })
	return found, errors.Join(append(faults, err)...)
}

// answer words the faults that are about transactions.
func answer(err error) error {
	if errors.Is(err, kerr.TransactionalIDNotFound) {
		return exit.With(exit.NotFound, fmt.Errorf("does not exist (%s)", kerr.TransactionalIDNotFound.Message))
	}
	return exit.Answer(err, "")
}
