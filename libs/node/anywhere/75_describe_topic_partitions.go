package anywhere

import (
	"iter"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/metadata"
)

// DescribeTopicPartitions (key 75), version 0 (KIP-966). Topics come in order of name, as many partitions of them as the
// request and max.request.partition.size.limit admit; the cursor of the answer is where the next request goes on. No
// topics asked for means all.
func (h *handlers) describeTopicPartitions(r *server.Request, q *kmsg.DescribeTopicPartitionsRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	if q.Cursor != nil && q.Cursor.Partition < 0 {
		return refusedPartitions(q)
	}
	v := newView(h.node.Image(), h.node.ID(), r.Conn.Listener())
	left := max(1, min(int(q.ResponsePartitionLimit), h.node.Static().Int("max.request.partition.size.limit")))
	for name := range v.topicsAfter(q) {
		if left == 0 {
			resp.NextCursor = cursor(name, 0)
			return resp
		}
		first := 0
		if q.Cursor != nil && q.Cursor.Topic == name {
			first = int(q.Cursor.Partition)
		}
		out, next := v.describedTopic(name, first, left)
		resp.Topics = append(resp.Topics, out)
		left -= len(out.Partitions)
		if next > 0 {
			resp.NextCursor = cursor(name, int32(next))
			return resp
		}
	}
	return resp
}

// refusedPartitions is the answer to an invalid cursor.
func refusedPartitions(q *kmsg.DescribeTopicPartitionsRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	for _, t := range q.Topics {
		out := kmsg.NewDescribeTopicPartitionsResponseTopic()
		out.Topic, out.ErrorCode = text(t.Topic), kerr.InvalidRequest.Code
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// topicsAfter are the topics that a request is about, from its cursor on, in order of name.
func (v view) topicsAfter(q *kmsg.DescribeTopicPartitionsRequest) iter.Seq[string] {
	start := ""
	if q.Cursor != nil {
		start = q.Cursor.Topic
	}
	if len(q.Topics) == 0 {
		return func(yield func(string) bool) {
			for t := range v.im.TopicsFrom(start) {
				if !yield(t.Name) {
					return
				}
			}
		}
	}
	var names []string
	for _, t := range q.Topics {
		if t.Topic >= start {
			names = append(names, t.Topic)
		}
	}
	slices.Sort(names)
	return slices.Values(slices.Compact(names))
}

func cursor(topic string, partition int32) *kmsg.DescribeTopicPartitionsResponseNextCursor {
	c := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	c.Topic, c.Partition = topic, partition
	return &c
}

// describedTopic describes up to most partitions of a topic from first on. next is the one after them, 0 when there is
// none.
func (v view) describedTopic(name string, first, most int) (out kmsg.DescribeTopicPartitionsResponseTopic, next int) {
	out = kmsg.NewDescribeTopicPartitionsResponseTopic()
	out.Topic, out.IsInternal, out.AuthorizedOperations = &name, metadata.InternalTopic(name), topicOperations
	if topicNameFault(name) != "" {
		out.ErrorCode = kerr.InvalidTopicException.Code
		return out, 0
	}
	t, ok := v.im.Topic(name)
	if !ok {
		out.ErrorCode = kerr.UnknownTopicOrPartition.Code
		return out, 0
	}
	out.TopicID = t.ID
	first = min(first, len(t.Partitions))
	end := min(first+most, len(t.Partitions))
	for _, p := range t.Partitions[first:end] {
		out.Partitions = append(out.Partitions, v.describedPartition(p))
	}
	if end < len(t.Partitions) {
		next = end
	}
	return out, next
}

func (v view) describedPartition(p *metadata.Partition) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	out := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	out.Partition, out.LeaderEpoch, out.Replicas, out.ISR = p.ID, p.LeaderEpoch, p.Replicas, p.ISR
	out.EligibleLeaderReplicas, out.LastKnownELR = notNull(p.ELR), notNull(p.LastKnownELR)
	out.OfflineReplicas = v.offline(p)
	leader, err := v.leader(p)
	out.LeaderID = leader
	if err != nil {
		out.ErrorCode = err.Code
	}
	return out
}

// notNull is list for a nullable field that is never null.
func notNull(list []int32) []int32 {
	if list == nil {
		return []int32{}
	}
	return list
}
