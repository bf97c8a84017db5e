package api

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/shard"
)

// DeleteGroups (key 42), versions 0 to 3 (KIP-229).
func (s *Service) deleteGroups() server.Handler {
	return several[kmsg.DeleteGroupsRequest, *kmsg.DeleteGroupsRequest, string, kmsg.DeleteGroupsResponseGroup]{
		groups:  func(q *kmsg.DeleteGroupsRequest) *[]string { return &q.Groups },
		id:      func(group string) string { return group },
		results: func(r kmsg.Response) *[]kmsg.DeleteGroupsResponseGroup { return &r.(*kmsg.DeleteGroupsResponse).Groups },
		op: func(m *shard.Machine, now time.Time, t coordinator.Ticket, q *kmsg.DeleteGroupsRequest) coordinator.Step {
			return m.DeleteGroups(now, t, q)
		},
	}.handle(s)
}
