package api

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.opentelemetry.io/otel/trace"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/kafka/txnapi"
	"github.com/cauce-stream/cauce/services/txncoord/internal/schema"
	"github.com/cauce-stream/cauce/services/txncoord/internal/shard"
)

// InitProducerId (key 22), versions 0 to 5 (KIP-98).
//
//	3   a producer may name its id and epoch to go on with the next one (KIP-360)
//	4   PRODUCER_FENCED (KIP-588)
//
// Version 6, of two-phase commit (KIP-939), is not served: no producer gets to keep a transaction without a timeout.
func (s *Service) initProducerID(r *server.Request) {
	q := decode[kmsg.InitProducerIDRequest](r)
	switch {
	case q == nil:
	case q.TransactionalID != nil && *q.TransactionalID == "", (q.ProducerID < 0) != (q.ProducerEpoch < 0):
		r.Reply(txnapi.Refuse(q, kerr.InvalidRequest))
	case q.TransactionalID == nil:
		origin := r.Trace().SpanContext()
		s.waiting.Go(func() { r.Reply(s.newProducer(origin, q)) })
	default:
		s.initTransactional(r, q)
	}
}

// newProducer is a producer without transactions.
func (s *Service) newProducer(origin trace.SpanContext, q *kmsg.InitProducerIDRequest) kmsg.Response {
	id, err := s.NextProducerID(trace.ContextWithSpanContext(s.ctx, origin))
	if err != nil {
		return txnapi.Refuse(q, kerr.CoordinatorLoadInProgress)
	}
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ProducerID, resp.ProducerEpoch = id, 0
	return resp
}

func (s *Service) initTransactional(r *server.Request, q *kmsg.InitProducerIDRequest) {
	if q.ProducerID < 0 {
		q.ProducerID, q.ProducerEpoch = schema.NoProducer, schema.NoEpoch
	}
	id, origin := *q.TransactionalID, r.Trace().SpanContext()
	s.do(origin, id, func(m *shard.Machine, now time.Time, t coordinator.Ticket, fresh int64) coordinator.Step {
		return m.InitProducerID(now, t, q, fresh)
	}, func(response any, ticket coordinator.Ticket, code *kerr.Error) {
		if code != nil {
			r.Reply(txnapi.Refuse(q, code))
			return
		}
		s.Runtime.Run(origin, s.shardOf(id), func(m *shard.Machine, _ time.Time) coordinator.Step { return m.Initialized(id, ticket) })
		resp := response.(*kmsg.InitProducerIDResponse)
		if told, ok := kerr.ErrorForCode(resp.ErrorCode).(*kerr.Error); ok {
			resp.ErrorCode = txnapi.Code(q, told)
		}
		r.Reply(resp)
	})
}
