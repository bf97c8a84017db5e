package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/broker/internal/partition"
	"github.com/cauce-stream/cauce/services/broker/internal/wire"
)

// maxWait bounds how long an answer waits for followers, whatever timeout the client names.
const maxWait = 5 * time.Minute

// deletion is a log whose start has moved, and where the answer says so.
type deletion struct {
	partition *partition.Partition
	start     int64
	answer    *kmsg.DeleteRecordsResponseTopicPartition
}

// deleteRecords answers DeleteRecords v0-2 (KIP-107). The answer waits until the new start is on disk, and until the followers
// have it, so that deleted records do not come back after a crash or with another leader.
func (s *Service) deleteRecords(r *server.Request) {
	q := kmsg.NewPtrDeleteRecordsRequest()
	if err := r.Decode(q); err != nil {
		r.Fail(err)
		return
	}
	resp := q.ResponseKind().(*kmsg.DeleteRecordsResponse)
	for i := range q.Topics {
		out := kmsg.NewDeleteRecordsResponseTopic()
		out.Topic = q.Topics[i].Topic
		for j := range q.Topics[i].Partitions {
			part := kmsg.NewDeleteRecordsResponseTopicPartition()
			part.Partition = q.Topics[i].Partitions[j].Partition
			out.Partitions = append(out.Partitions, part)
		}
		resp.Topics = append(resp.Topics, out)
	}
	deleted := s.moveStarts(q, resp)
	if len(deleted) == 0 {
		r.Reply(resp)
		return
	}
	if err := s.logs.CheckpointStartOffsets(); err != nil {
		failAll(resp, wire.Code(err))
		r.Reply(resp)
		return
	}
	r.Go(func() {
		ctx, cancel := context.WithTimeout(r.Context(), min(time.Duration(q.TimeoutMillis)*time.Millisecond, maxWait))
		defer cancel()
		for _, d := range deleted {
			d.await(ctx)
		}
		r.Reply(resp)
	})
}

// moveStarts moves the starts of the logs, and enters in the answer what that came to.
func (s *Service) moveStarts(q *kmsg.DeleteRecordsRequest, resp *kmsg.DeleteRecordsResponse) (deleted []deletion) {
	for i := range q.Topics {
		t := &q.Topics[i]
		for j := range t.Partitions {
			part := &resp.Topics[i].Partitions[j]
			l, p, err := s.leading(t.Topic, part.Partition, -1)
			if metadata.InternalTopic(t.Topic) && !errors.Is(err, kerr.UnknownTopicOrPartition) {
				err = fmt.Errorf("%s is its coordinators' alone: %w", t.Topic, kerr.InvalidTopicException)
			}
			if err == nil && !l.Config().Delete {
				err = fmt.Errorf("cleanup.policy of %s keeps its records: %w", t.Topic, kerr.PolicyViolation)
			}
			if err == nil {
				part.LowWatermark, err = l.DeleteRecords(t.Partitions[j].Offset)
			}
			if err == nil {
				tell(p)
				deleted = append(deleted, deletion{p, part.LowWatermark, part})
			} else {
				part.LowWatermark = -1
			}
			part.ErrorCode = wire.Code(err)
		}
	}
	return deleted
}

// await waits until all replicas that are alive begin no sooner than the log.
func (d deletion) await(ctx context.Context) {
	for {
		low, changes, err := d.partition.LowWatermark()
		if err == nil && low < d.start {
			select {
			case <-changes:
				continue
			case <-ctx.Done():
				err = kerr.RequestTimedOut
			}
		}
		d.answer.LowWatermark, d.answer.ErrorCode = low, wire.Code(err)
		if err != nil {
			d.answer.LowWatermark = -1
		}
		return
	}
}

func failAll(resp *kmsg.DeleteRecordsResponse, code int16) {
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			if p := &resp.Topics[i].Partitions[j]; p.ErrorCode == 0 {
				p.ErrorCode, p.LowWatermark = code, -1
			}
		}
	}
}
