package api

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/shard"
)

// ConsumerGroupHeartbeat (key 68), versions 0 and 1 (KIP-848); from 1 on subscriptions by regular expression, and members choose
// their ids (KIP-1082).
func (s *Service) consumerGroupHeartbeat() server.Handler {
	return one(s, func(q *kmsg.ConsumerGroupHeartbeatRequest) string { return q.Group },
		func(r *server.Request, q *kmsg.ConsumerGroupHeartbeatRequest) operation[*kmsg.ConsumerGroupHeartbeatRequest] {
			c := client(r, q.MemberID == "")
			return func(m *shard.Machine, now time.Time, t coordinator.Ticket, q *kmsg.ConsumerGroupHeartbeatRequest) coordinator.Step {
				return m.ConsumerGroupHeartbeat(now, t, c, q)
			}
		})
}
