package api

import (
	"regexp"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/txncoord/internal/schema"
	"github.com/cauce-stream/cauce/services/txncoord/internal/shard"
)

// ListTransactions (key 66), versions 0 to 2 (KIP-664).
//
//	1   a filter by how long a transaction has been running (KIP-994)
//	2   a filter by transactional ids, in RE2's syntax (KIP-1152)
//
// A node lists the transactions of its own shards; clients ask all nodes. While one of them is loading, the answer says so instead
// of being short of its transactions.
func (s *Service) listTransactions(r *server.Request) {
	q := decode[kmsg.ListTransactionsRequest](r)
	if q == nil {
		return
	}
	resp := kmsg.NewPtrListTransactionsResponse()
	filter := filterOf(q, resp)
	if filter == nil {
		r.Reply(resp)
		return
	}
	var own []int32
	for id := range s.Image().Shards(metadata.TransactionStateTopic) {
		if _, ok := s.Runtime.Epoch(id); ok {
			own = append(own, id)
		}
	}
	var mu sync.Mutex
	done := countdown(len(own), func() { r.Reply(resp) })
	add := func(list []kmsg.ListTransactionsResponseTransactionState, code *kerr.Error) {
		mu.Lock()
		resp.TransactionStates = append(resp.TransactionStates, list...)
		if code != nil && code != kerr.NotCoordinator {
			resp.ErrorCode = code.Code
		}
		mu.Unlock()
		done()
	}
	for _, id := range own {
		s.Runtime.Do(r.Trace().SpanContext(), id, func(m *shard.Machine, now time.Time, t coordinator.Ticket) coordinator.Step {
			return m.List(now, t, filter)
		},
			func(response any, err error) {
				if err != nil {
					add(nil, codeOf(err))
					return
				}
				add(response.([]kmsg.ListTransactionsResponseTransactionState), nil)
			})
	}
}

// filterOf is the filter of a request; nil when there is nothing to look for, which the response says then.
func filterOf(q *kmsg.ListTransactionsRequest, resp *kmsg.ListTransactionsResponse) *shard.Filter {
	f := &shard.Filter{ProducerIDs: q.ProducerIDFilters, LongerThanMs: q.DurationFilterMillis}
	for _, name := range q.StateFilters {
		if state, ok := schema.StateOf(name); ok {
			f.States = append(f.States, state)
		} else {
			resp.UnknownStateFilters = append(resp.UnknownStateFilters, name)
		}
	}
	if len(q.StateFilters) > 0 && len(f.States) == 0 {
		return nil
	}
	if q.TransactionalIDPattern != nil && *q.TransactionalIDPattern != "" {
		pattern, err := regexp.Compile("^(?:" + *q.TransactionalIDPattern + ")$")
		if err != nil {
			resp.ErrorCode = kerr.InvalidRegularExpression.Code
			return nil
		}
		f.ID = pattern.MatchString
	}
	return f
}
