package api

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/shard"
)

// DescribeGroups (key 15), versions 0 to 6: groups of the classic protocol. From 6 on a group that there is not is told by
// GROUP_ID_NOT_FOUND (KIP-1043).
func (s *Service) describeGroups() server.Handler {
	return several[kmsg.DescribeGroupsRequest, *kmsg.DescribeGroupsRequest, string, kmsg.DescribeGroupsResponseGroup]{
		groups: func(q *kmsg.DescribeGroupsRequest) *[]string { return &q.Groups },
		id:     func(group string) string { return group },
		results: func(r kmsg.Response) *[]kmsg.DescribeGroupsResponseGroup {
			return &r.(*kmsg.DescribeGroupsResponse).Groups
		},
		op: func(m *shard.Machine, now time.Time, t coordinator.Ticket, q *kmsg.DescribeGroupsRequest) coordinator.Step {
			return m.DescribeGroups(now, t, q)
		},
	}.handle(s)
}
