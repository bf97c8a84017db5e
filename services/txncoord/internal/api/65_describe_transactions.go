package api

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.opentelemetry.io/otel/trace"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/kafka/txnapi"
	"github.com/cauce-stream/cauce/services/txncoord/internal/shard"
)

// DescribeTransactions (key 65), version 0 (KIP-664). Of a transaction that is decided, the partitions without a marker are named.
func (s *Service) describeTransactions(r *server.Request) {
	q := decode[kmsg.DescribeTransactionsRequest](r)
	if q == nil {
		return
	}
	resp := kmsg.NewPtrDescribeTransactionsResponse()
	resp.TransactionStates = make([]kmsg.DescribeTransactionsResponseTransactionState, len(q.TransactionalIDs))
	done := countdown(len(q.TransactionalIDs), func() { r.Reply(resp) })
	for i, id := range q.TransactionalIDs {
		s.describe(r.Trace().SpanContext(), id, func(state *kmsg.DescribeTransactionsResponseTransactionState) {
			resp.TransactionStates[i] = *state
			done()
		})
	}
}

func (s *Service) describe(origin trace.SpanContext, id string, give func(*kmsg.DescribeTransactionsResponseTransactionState)) {
	refuse := func(code *kerr.Error) {
		refusal := txnapi.Refuse(&kmsg.DescribeTransactionsRequest{TransactionalIDs: []string{id}}, code)
		give(&refusal.(*kmsg.DescribeTransactionsResponse).TransactionStates[0])
	}
	if id == "" {
		refuse(kerr.InvalidRequest)
		return
	}
	s.do(origin, id, func(m *shard.Machine, _ time.Time, t coordinator.Ticket, _ int64) coordinator.Step {
		return m.Describe(t, id)
	},
		func(response any, _ coordinator.Ticket, code *kerr.Error) {
			if code != nil {
				refuse(code)
				return
			}
			give(response.(*kmsg.DescribeTransactionsResponseTransactionState))
		})
}
