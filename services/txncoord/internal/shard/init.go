package shard

import (
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/services/txncoord/internal/schema"
)

// exhausted says whether a producer id has no epoch left for the client: the greatest one is the coordinator's, to fence.
func exhausted(epoch int16) bool { return epoch >= math.MaxInt16-1 }

// InitProducerID gives the transactional id of a request, which is not null, to whoever asks, and fences whoever had it. fresh is
// a producer id that nobody had, or NoProducer: the answer is NeedProducerID then if one is needed.
func (m *Machine) InitProducerID(now time.Time, ticket coordinator.Ticket, q *kmsg.InitProducerIDRequest, fresh int64) coordinator.Step {
	s := m.begin()
	refuse := func(code *kerr.Error) coordinator.Step {
		resp := kmsg.NewPtrInitProducerIDResponse()
		resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = code.Code, schema.NoProducer, schema.NoEpoch
		return s.answer(ticket, resp)
	}
	if q.TransactionTimeoutMillis <= 0 || q.TransactionTimeoutMillis > m.settings.MaxTimeoutMs {
		return refuse(kerr.InvalidTransactionTimeout)
	}
	id := *q.TransactionalID
	t := m.txns[id]
	if t != nil {
		if code := t.admitInit(q); code != nil {
			return refuse(code)
		}
		if t.State == schema.Ongoing {
			// Whoever asks has to come back once the transaction is aborted, and gets an epoch of its own then.
			if exhausted(t.Epoch) && fresh == schema.NoProducer {
				return s.answer(ticket, &NeedProducerID{})
			}
			s.decide(t, now, schema.PrepareAbort, verified, fresh)
			s.out.Jobs = append(s.out.Jobs, Decision{id, Fenced})
			return refuse(kerr.ConcurrentTransactions)
		}
	}
	next, code := t.initialized(q, fresh)
	if code != nil {
		return refuse(code)
	}
	if next == nil {
		return s.answer(ticket, &NeedProducerID{})
	}
	next.UpdateMs = now.UnixMilli()
	s.emit(id, next)
	m.txns[id].initializing = ticket
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ProducerID, resp.ProducerEpoch = next.ProducerID, next.Epoch
	return s.answer(ticket, resp)
}

// admitInit says why a request may not have the transactional id now.
func (t *transaction) admitInit(q *kmsg.InitProducerIDRequest) *kerr.Error {
	if t.initializing != 0 {
		return kerr.ConcurrentTransactions
	}
	retriesRotation := q.ProducerID == t.PreviousProducerID && exhausted(q.ProducerEpoch)
	if q.ProducerID != schema.NoProducer && q.ProducerID != t.ProducerID && !retriesRotation {
		return kerr.ProducerFenced
	}
	if t.State.Decided() {
		return kerr.ConcurrentTransactions
	}
	return nil
}

// initialized is the transactional id with the producer that a request gets; t is nil for a new one. It is nil when a producer id is
// needed and fresh is none.
//
// A producer that names its epoch goes on after a fault (KIP-360). One that names the epoch before did not hear of the
// one that it got: that is no other producer, whose first request would have cleared LastEpoch.
func (t *transaction) initialized(q *kmsg.InitProducerIDRequest, fresh int64) (*schema.Transaction, *kerr.Error) {
	next := &schema.Transaction{
		ProducerID: fresh, PreviousProducerID: schema.NoProducer, NextProducerID: schema.NoProducer, LastEpoch: schema.NoEpoch,
		State: schema.Empty, TimeoutMs: q.TransactionTimeoutMillis, StartMs: -1,
	}
	if t == nil {
		if fresh == schema.NoProducer {
			return nil, nil
		}
		return next, nil
	}
	next.ProducerID, next.PreviousProducerID, next.ClientVersion = t.ProducerID, t.PreviousProducerID, t.ClientVersion
	named := q.ProducerID != schema.NoProducer
	switch {
	case named && q.ProducerEpoch == t.LastEpoch:
		next.Epoch, next.LastEpoch = t.Epoch, t.LastEpoch
	case named && (q.ProducerEpoch != t.Epoch || q.ProducerID != t.ProducerID):
		return nil, kerr.ProducerFenced
	case exhausted(t.Epoch):
		if fresh == schema.NoProducer {
			return nil, nil
		}
		next.ProducerID, next.PreviousProducerID, next.Epoch = fresh, t.ProducerID, 0
	default:
		next.Epoch = t.Epoch + 1
	}
	if named {
		next.LastEpoch = q.ProducerEpoch
	}
	return next, nil
}

// Initialized is told once the answer to a request for a transactional id was given: the records before it are committed.
//
// Without it, each try of a client whose request waits for the log would take another epoch, until there are none.
func (m *Machine) Initialized(id string, ticket coordinator.Ticket) coordinator.Step {
	if t := m.txns[id]; t != nil && t.initializing <= ticket {
		t.initializing = 0
	}
	return m.begin().out
}
