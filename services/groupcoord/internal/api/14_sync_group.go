package api

import (
	"bytes"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/shard"
)

// SyncGroup (key 14), versions 0 to 5; group.instance.id from 3 (KIP-345), the protocol's type and name from 5 (KIP-559).
func (s *Service) syncGroup() server.Handler {
	return one(s, func(q *kmsg.SyncGroupRequest) string { return q.Group },
		func(_ *server.Request, q *kmsg.SyncGroupRequest) operation[*kmsg.SyncGroupRequest] {
			for i := range q.GroupAssignment { // the group keeps them, the body goes
				q.GroupAssignment[i].MemberAssignment = bytes.Clone(q.GroupAssignment[i].MemberAssignment)
			}
			return func(m *shard.Machine, now time.Time, t coordinator.Ticket, q *kmsg.SyncGroupRequest) coordinator.Step {
				return m.SyncGroup(now, t, q)
			}
		})
}
