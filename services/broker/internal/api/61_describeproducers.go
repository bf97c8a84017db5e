package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/services/broker/internal/wire"
)

// describeProducers answers DescribeProducers v0 (KIP-664).
func (s *Service) describeProducers(q *kmsg.DescribeProducersRequest) kmsg.Response {
	resp := q.ResponseKind().(*kmsg.DescribeProducersResponse)
	for i := range q.Topics {
		t := &q.Topics[i]
		out := kmsg.NewDescribeProducersResponseTopic()
		out.Topic = t.Topic
		for _, id := range t.Partitions {
			part := kmsg.NewDescribeProducersResponseTopicPartition()
			part.Partition = id
			l, _, err := s.leading(t.Topic, id, -1)
			part.ErrorCode, part.ErrorMessage = wire.Code(err), wire.Message(err)
			if err == nil {
				for _, state := range l.Producers(s.nowMs()) {
					p := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
					p.ProducerID, p.ProducerEpoch, p.LastSequence = state.ProducerID, int32(state.ProducerEpoch), state.LastSequence
					p.LastTimestamp, p.CoordinatorEpoch, p.CurrentTxnStartOffset = state.LastTimestampMs, state.CoordinatorEpoch, state.TxnStartOffset
					part.ActiveProducers = append(part.ActiveProducers, p)
				}
			}
			out.Partitions = append(out.Partitions, part)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}
