package api

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/kafka/txnapi"
	"github.com/cauce-stream/cauce/services/txncoord/internal/shard"
)

// endVerifiedFrom is the first version of EndTxn whose client gets another epoch (KIP-890).
const endVerifiedFrom = 5

// EndTxn (key 26), versions 0 to 5. The answer leaves when the outcome is committed; the markers follow.
//
//	2   PRODUCER_FENCED
//	5   each end gives the producer another epoch, or another id (KIP-890); TRANSACTION_ABORTABLE (KIP-1050)
func (s *Service) endTxn(r *server.Request) {
	q := decode[kmsg.EndTxnRequest](r)
	if q == nil {
		return
	}
	if q.TransactionalID == "" {
		r.Reply(txnapi.Refuse(q, kerr.InvalidRequest))
		return
	}
	s.do(r.Trace().SpanContext(), q.TransactionalID, func(m *shard.Machine, now time.Time, t coordinator.Ticket, fresh int64) coordinator.Step {
		return m.EndTxn(now, t, q, q.Version >= endVerifiedFrom, fresh)
	}, func(response any, _ coordinator.Ticket, code *kerr.Error) {
		if code != nil {
			r.Reply(txnapi.Refuse(q, code))
			return
		}
		resp := response.(*kmsg.EndTxnResponse)
		if told, ok := kerr.ErrorForCode(resp.ErrorCode).(*kerr.Error); ok {
			resp.ErrorCode = txnapi.Code(q, told)
		}
		r.Reply(resp)
	})
}
