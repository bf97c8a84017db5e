package api

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/shard"
)

// ConsumerGroupDescribe (key 69), versions 0 and 1 (KIP-848); the types of members from 1 on (KIP-1099).
func (s *Service) consumerGroupDescribe() server.Handler {
	return several[kmsg.ConsumerGroupDescribeRequest, *kmsg.ConsumerGroupDescribeRequest, string, kmsg.ConsumerGroupDescribeResponseGroup]{
		groups: func(q *kmsg.ConsumerGroupDescribeRequest) *[]string { return &q.Groups },
		id:     func(group string) string { return group },
		results: func(r kmsg.Response) *[]kmsg.ConsumerGroupDescribeResponseGroup {
			return &r.(*kmsg.ConsumerGroupDescribeResponse).Groups
		},
		op: func(m *shard.Machine, now time.Time, t coordinator.Ticket, q *kmsg.ConsumerGroupDescribeRequest) coordinator.Step {
			return m.ConsumerGroupDescribe(now, t, q)
		},
	}.handle(s)
}
