package api

import (
	"bytes"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/shard"
)

// JoinGroup (key 11), versions 0 to 9.
//
//	1   a rebalance timeout of its own
//	4   MEMBER_ID_REQUIRED (KIP-394)
//	5   group.instance.id (KIP-345)
//	8   a reason (KIP-800)
//	9   the leader may skip the assignment (KIP-814)
func (s *Service) joinGroup() server.Handler {
	return one(s, func(q *kmsg.JoinGroupRequest) string { return q.Group },
		func(r *server.Request, q *kmsg.JoinGroupRequest) operation[*kmsg.JoinGroupRequest] {
			for i := range q.Protocols { // the group keeps them, the body goes
				q.Protocols[i].Metadata = bytes.Clone(q.Protocols[i].Metadata)
			}
			c := client(r, q.MemberID == "")
			return func(m *shard.Machine, now time.Time, t coordinator.Ticket, q *kmsg.JoinGroupRequest) coordinator.Step {
				return m.JoinGroup(now, t, c, q)
			}
		})
}
