package api

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/broker/internal/wire"
)

// deleteRecords answers DeleteRecords v0-2 (KIP-107). The answer waits until the new start is on disk, so that
// deleted records do not come back after a crash.
func (s *Service) deleteRecords(q *kmsg.DeleteRecordsRequest) kmsg.Response {
	resp := q.ResponseKind().(*kmsg.DeleteRecordsResponse)
	moved := false
	for i := range q.Topics {
		t := &q.Topics[i]
		out := kmsg.NewDeleteRecordsResponseTopic()
		out.Topic = t.Topic
		for j := range t.Partitions {
			part := kmsg.NewDeleteRecordsResponseTopicPartition()
			part.Partition, part.LowWatermark = t.Partitions[j].Partition, -1
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
				moved = true
				tell(p)
			} else {
				part.LowWatermark = -1
			}
			part.ErrorCode = wire.Code(err)
			out.Partitions = append(out.Partitions, part)
		}
		resp.Topics = append(resp.Topics, out)
	}
	if moved {
		if err := s.logs.CheckpointStartOffsets(); err != nil {
			failAll(resp, wire.Code(err))
		}
	}
	return resp
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
