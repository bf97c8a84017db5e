package api

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/shard"
)

// OffsetDelete (key 47), version 0 (KIP-496).
func (s *Service) offsetDelete() server.Handler {
	return one(s, func(q *kmsg.OffsetDeleteRequest) string { return q.Group },
		plainly(func(m *shard.Machine, now time.Time, t coordinator.Ticket, q *kmsg.OffsetDeleteRequest) coordinator.Step {
			return m.OffsetDelete(now, t, q)
		}))
}
