package api

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/shard"
)

// Heartbeat (key 12), versions 0 to 4; group.instance.id from 3 (KIP-345).
func (s *Service) heartbeat() server.Handler {
	return one(s, func(q *kmsg.HeartbeatRequest) string { return q.Group },
		plainly(func(m *shard.Machine, now time.Time, t coordinator.Ticket, q *kmsg.HeartbeatRequest) coordinator.Step {
			return m.Heartbeat(now, t, q)
		}))
}
