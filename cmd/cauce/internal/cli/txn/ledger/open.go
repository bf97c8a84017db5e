package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
)

// Open is a transaction that a partition has open.
type Open struct {
	Topic      string `json:"topic"`
	Partition  int32  `json:"partition"`
	ProducerID int64  `json:"producer_id"`
	Epoch      int16  `json:"producer_epoch"`
	Start      int64  `json:"start_offset"`
	LastMs     int64  `json:"last_write"`                 // milliseconds since 1970
	ID         string `json:"transactional_id,omitempty"` // of the producer id, if there is one
	Reason     string `json:"reason"`                     // why no coordinator will end it; empty if one will
}

// OpenOn are the transactions that partitions have open, in order. The error is of the partitions that could not be looked at.
func OpenOn(ctx context.Context, admin *kadm.Client, partitions kadm.TopicsSet) ([]Open, error) {
	var faults []error
	described, err := admin.DescribeProducers(ctx, partitions)
	if err != nil {
		faults = append(faults, exit.Answer(err, ""))
	}
	var open []Open
	for _, t := range described {
		for _, p := range t.Partitions {
			if p.Err != nil {
				faults = append(faults, fmt.Errorf("%s[%d]: %w", p.Topic, p.Partition, exit.Answer(p.Err, p.ErrMessage)))
			}
			for _, a := range p.ActiveProducers {
				if a.CurrentTxnStartOffset >= 0 {
					open = append(open, Open{
						Topic: a.Topic, Partition: a.Partition, ProducerID: a.ProducerID, Epoch: a.ProducerEpoch, Start: a.CurrentTxnStartOffset, LastMs: a.LastTimestamp,
					})
				}
			}
		}
	}
	slices.SortFunc(open, func(a, b Open) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Start, b.Start))
	})
	return open, errors.Join(faults...)
}

// ByProducer are the transactions of the producers that have something open, as the coordinators know them.
func ByProducer(ctx context.Context, client *kgo.Client, open []Open) (map[int64]Transaction, error) {
	filter := kmsg.NewPtrListTransactionsRequest()
	for _, o := range open {
		if !slices.Contains(filter.ProducerIDFilters, o.ProducerID) {
			filter.ProducerIDFilters = append(filter.ProducerIDFilters, o.ProducerID)
		}
	}
	list, err := List(ctx, client, filter)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, t := range list {
		ids = append(ids, t.ID)
	}
	details, err := Describe(ctx, client, ids...)
	if err != nil {
		return nil, err
	}
	known := make(map[int64]Transaction, len(details))
	for _, t := range details {
		known[t.ProducerID] = t
	}
	return known, nil
}

// Hanging keeps those that no coordinator will end, and says why.
func Hanging(open []Open, known map[int64]Transaction) []Open {
	found := []Open{}
	for _, o := range open {
		t, ok := known[o.ProducerID]
		o.ID = t.ID
		switch {
		case !ok:
			o.Reason = "no transactional id has the producer id"
		case t.Epoch < o.Epoch:
			o.Reason = "the coordinator has an older epoch of the producer"
		case !t.Includes(o.Topic, o.Partition):
			o.Reason = "the partition is not in the coordinator's transaction (" + t.State + ")"
		default:
			continue
		}
		found = append(found, o)
	}
	return found
}
