package api

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/shard"
)

// TxnOffsetCommit (key 28), versions 0 to 6.
//
//	2   leader epochs (KIP-320)
//	3   the member, its generation and group.instance.id (KIP-447)
//	4   TRANSACTION_ABORTABLE (KIP-890)
//	5   the coordinator adds the group to the transaction (KIP-890)
//	6   topic ids
func (s *Service) txnOffsetCommit() server.Handler {
	return one(s, func(q *kmsg.TxnOffsetCommitRequest) string { return q.Group },
		plainly(func(m *shard.Machine, now time.Time, t coordinator.Ticket, q *kmsg.TxnOffsetCommitRequest) coordinator.Step {
			return m.TxnOffsetCommit(now, t, q)
		}))
}
