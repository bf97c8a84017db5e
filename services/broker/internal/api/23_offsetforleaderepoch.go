package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/services/broker/internal/wire"
)

// offsetForLeaderEpoch answers OffsetForLeaderEpoch v2-4 (KIP-101, KIP-279, KIP-320).
func (s *Service) offsetForLeaderEpoch(q *kmsg.OffsetForLeaderEpochRequest) kmsg.Response {
	resp := q.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for i := range q.Topics {
		t := &q.Topics[i]
		out := kmsg.NewOffsetForLeaderEpochResponseTopic()
		out.Topic = t.Topic
		for j := range t.Partitions {
			p := &t.Partitions[j]
			part := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			part.Partition, part.LeaderEpoch, part.EndOffset = p.Partition, -1, -1
			l, _, err := s.leading(t.Topic, p.Partition, p.CurrentLeaderEpoch)
			if err == nil {
				part.LeaderEpoch, part.EndOffset = l.EndOffsetForEpoch(p.LeaderEpoch)
			}
			part.ErrorCode = wire.Code(err)
			out.Partitions = append(out.Partitions, part)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}
