package txn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

// hanging is a transaction that is open on a partition, although its coordinator does not know so.
type hanging struct {
	Topic      string `json:"topic"`
	Partition  int32  `json:"partition"`
	ProducerID int64  `json:"producer_id"`
	Epoch      int16  `json:"producer_epoch"`
	Start      int64  `json:"start_offset"`
	LastMs     int64  `json:"last_write"`                 // milliseconds since 1970
	ID         string `json:"transactional_id,omitempty"` // of the producer id, if there is one
	Reason     string `json:"reason"`
}

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
	found := []hanging{}
	if len(open) > 0 {
		known, fault := byProducer(ctx, client, open)
		if fault != nil {
			return errors.Join(err, fault) // without the coordinators' answers everything would seem to hang
		}
		found = judge(open, known)
	}
	return errors.Join(h.print(found), err)
}

// open are the transactions that partitions have open for so long.
func (h *search) open(ctx context.Context, admin *kadm.Client, now time.Time) ([]hanging, error) {
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
	described, err := admin.DescribeProducers(ctx, topics.TopicsSet())
	if err != nil {
		faults = append(faults, exit.Answer(err, ""))
	}
	var open []hanging
	for _, t := range described {
		for _, p := range t.Partitions {
			if p.Err != nil {
				faults = append(faults, fmt.Errorf("%s[%d]: %w", p.Topic, p.Partition, exit.Answer(p.Err, p.ErrMessage)))
			}
			for _, a := range p.ActiveProducers {
				if a.CurrentTxnStartOffset >= 0 && now.Sub(time.UnixMilli(a.LastTimestamp)) > h.older {
					open = append(open, hanging{
						Topic: a.Topic, Partition: a.Partition, ProducerID: a.ProducerID, Epoch: a.ProducerEpoch, Start: a.CurrentTxnStartOffset, LastMs: a.LastTimestamp,
					})
				}
			}
		}
	}
	slices.SortFunc(open, func(a, b hanging) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Start, b.Start))
	})
	return open, errors.Join(faults...)
}

// byProducer are the transactions of the producers that have something open, as the coordinators know them.
func byProducer(ctx context.Context, client *kgo.Client, open []hanging) (map[int64]transaction, error) {
	filter := kmsg.NewPtrListTransactionsRequest()
	for _, o := range open {
		if !slices.Contains(filter.ProducerIDFilters, o.ProducerID) {
			filter.ProducerIDFilters = append(filter.ProducerIDFilters, o.ProducerID)
		}
	}
	list, err := load(ctx, client, filter)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, t := range list {
		ids = append(ids, t.ID)
	}
	details, err := loadDetails(ctx, client, ids...)
	if err != nil {
		return nil, err
	}
	known := map[int64]transaction{}
	for _, t := range details {
		known[t.ProducerID] = t
	}
	return known, nil
}

// judge keeps those that no coordinator will end.
func judge(open []hanging, known map[int64]transaction) []hanging {
	found := []hanging{}
	for _, o := range open {
		t, ok := known[o.ProducerID]
		o.ID = t.ID
		switch {
		case !ok:
			o.Reason = "no transactional id has the producer id"
		case t.Epoch < o.Epoch:
			o.Reason = "the coordinator has an older epoch of the producer"
		case !t.includes(o.Topic, o.Partition):
			o.Reason = "the partition is not in the coordinator's transaction (" + t.State + ")"
		default:
			continue
		}
		found = append(found, o)
	}
	return found
}

func (h *search) print(found []hanging) error {
	return h.session.Print(found, func() *output.Table {
		table := output.NewTable(output.Left("TOPIC"), output.Right("PARTITION"), output.Right("START OFFSET"), output.Right("PRODUCER ID"),
			output.Right("EPOCH"), output.Right("LAST WRITE"), output.Left("TRANSACTIONAL ID"), output.Left("REASON"))
		for _, f := range found {
			table.Row(f.Topic, f.Partition, f.Start, f.ProducerID, f.Epoch, since(time.Now(), f.LastMs)+" ago", f.ID, f.Reason)
		}
		return table
	})
}
