package api

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/shard"
)

// LeaveGroup (key 13), versions 0 to 5; several members from 3 (KIP-345), reasons from 5 (KIP-800).
func (s *Service) leaveGroup() server.Handler {
	return one(s, func(q *kmsg.LeaveGroupRequest) string { return q.Group },
		plainly(func(m *shard.Machine, now time.Time, t coordinator.Ticket, q *kmsg.LeaveGroupRequest) coordinator.Step {
			return m.LeaveGroup(now, t, q)
		}))
}
