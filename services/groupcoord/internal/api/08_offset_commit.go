package api

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/shard"
)

// OffsetCommit (key 8), versions 2 to 10.
//
//	2–4  a retention of the request's own
//	6    leader epochs (KIP-320)
//	7    group.instance.id (KIP-345)
//	9    the member epoch of consumer groups (KIP-848)
//	10   topic ids (KIP-848)
func (s *Service) offsetCommit() server.Handler {
	return one(s, func(q *kmsg.OffsetCommitRequest) string { return q.Group },
		plainly(func(m *shard.Machine, now time.Time, t coordinator.Ticket, q *kmsg.OffsetCommitRequest) coordinator.Step {
			return m.OffsetCommit(now, t, q)
		}))
}
