package shard

import (
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/services/txncoord/internal/schema"
)

// EndTxn decides a transaction. Verified says that the client follows KIP-890: each end gives it another epoch, by which a request
// that comes late is told from the next one. fresh is as for InitProducerID.
func (m *Machine) EndTxn(now time.Time, ticket coordinator.Ticket, q *kmsg.EndTxnRequest, isVerified bool, fresh int64) coordinator.Step {
	s := m.begin()
	respond := func(code *kerr.Error, producerID int64, epoch int16) coordinator.Step {
		resp := kmsg.NewPtrEndTxnResponse()
		resp.ProducerID, resp.ProducerEpoch = producerID, epoch
		if code != nil {
			resp.ErrorCode = code.Code
		}
		return s.answer(ticket, resp)
	}
	t := m.txns[q.TransactionalID]
	if t == nil {
		return respond(kerr.InvalidProducerIDMapping, schema.NoProducer, schema.NoEpoch)
	}
	judge, version := t.judgeEnd, int16(0)
	if isVerified {
		judge, version = t.judgeVerifiedEnd, verified
	}
	done, code := judge(q)
	switch {
	case code != nil:
		return respond(code, schema.NoProducer, schema.NoEpoch)
	case done:
		return respond(nil, t.ProducerID, t.Epoch)
	case isVerified && exhausted(t.Epoch) && fresh == schema.NoProducer:
		return s.answer(ticket, &NeedProducerID{})
	}
	outcome, reason := schema.PrepareAbort, Aborted
	if q.Commit {
		outcome, reason = schema.PrepareCommit, Committed
	}
	s.decide(t, now, outcome, version, fresh)
	s.out.Jobs = append(s.out.Jobs, Decision{t.id, reason})
	if t.NextProducerID != schema.NoProducer {
		return respond(nil, t.NextProducerID, 0)
	}
	return respond(nil, t.ProducerID, t.Epoch)
}

// judgeEnd says whether the request of a client before KIP-890 has been done, or why it may not be.
func (t *transaction) judgeEnd(q *kmsg.EndTxnRequest) (done bool, code *kerr.Error) {
	switch {
	case q.ProducerID != t.ProducerID:
		return false, kerr.InvalidProducerIDMapping
	case q.ProducerEpoch != t.Epoch:
		return false, kerr.ProducerFenced
	case t.State == schema.Ongoing:
		return false, nil
	}
	return t.judgeRetry(q)
}

// judgeVerifiedEnd is judgeEnd for clients of KIP-890: with the epoch of the transaction before, the request is a repeated one.
// With the present epoch it is a new one, and there may be nothing to abort: a client that is in doubt aborts.
func (t *transaction) judgeVerifiedEnd(q *kmsg.EndTxnRequest) (done bool, code *kerr.Error) {
	rotated := t.PreviousProducerID == q.ProducerID && q.ProducerEpoch == math.MaxInt16-1 && t.Epoch == 0
	if q.ProducerID != t.ProducerID && !rotated {
		return false, kerr.InvalidProducerIDMapping
	}
	ended := t.State.Decided() || t.State == schema.CompleteCommit || t.State == schema.CompleteAbort
	switch {
	case ended && (rotated || int(q.ProducerEpoch)+1 == int(t.Epoch)):
		return t.judgeRetry(q)
	case q.ProducerID != t.ProducerID || q.ProducerEpoch != t.Epoch:
		return false, kerr.ProducerFenced
	case t.State.Decided():
		// The client has gone on to its next transaction while the markers of this one are written. Kafka answers PRODUCER_FENCED, which
		// ends a client for having aborted at once, as it may when its group rebalances.
		return false, kerr.ConcurrentTransactions
	case t.State != schema.Ongoing && q.Commit:
		return false, kerr.InvalidTxnState
	}
	return false, nil
}

// judgeRetry judges a request about the transaction that was decided last.
func (t *transaction) judgeRetry(q *kmsg.EndTxnRequest) (done bool, code *kerr.Error) {
	switch {
	case q.Commit && t.State == schema.PrepareCommit, !q.Commit && t.State == schema.PrepareAbort:
		return false, kerr.ConcurrentTransactions
	case q.Commit && t.State == schema.CompleteCommit, !q.Commit && t.State == schema.CompleteAbort:
		return true, nil
	}
	return false, kerr.InvalidTxnState
}

// decide writes the outcome of a transaction. From transaction.version 2 on it takes another epoch, so that nothing that the
// producer still sends under the one before belongs to it; fresh has to be a producer id when the epochs are exhausted.
func (s *step) decide(t *transaction, now time.Time, outcome schema.State, version int16, fresh int64) {
	next := *t.Transaction
	next.State, next.ClientVersion, next.UpdateMs = outcome, version, now.UnixMilli()
	if t.State != schema.Ongoing { // an abort of nothing, which has to have begun some time
		next.StartMs, next.Partitions = now.UnixMilli(), nil
	}
	if version >= verified {
		if exhausted(t.Epoch) {
			next.NextProducerID = fresh
		}
		next.Epoch, next.LastEpoch = t.Epoch+1, t.Epoch
	}
	s.emit(t.id, &next)
	if len(next.Partitions) == 0 {
		s.complete(t, now)
		return
	}
	s.deliver(t)
}

// deliver has the markers written once everything until now is committed.
func (s *step) deliver(t *transaction) {
	s.out.After = append(s.out.After, &Completion{
		ID: t.id, ProducerID: t.ProducerID, Epoch: t.Epoch, Commit: t.State == schema.PrepareCommit, ClientVersion: t.ClientVersion,
		Partitions: t.Partitions, StartMs: t.StartMs, DecidedMs: t.UpdateMs,
	})
}

// complete writes that the markers are.
func (s *step) complete(t *transaction, now time.Time) {
	next := *t.Transaction
	next.State, next.Partitions, next.UpdateMs = schema.CompleteAbort, nil, now.UnixMilli()
	if t.State == schema.PrepareCommit {
		next.State = schema.CompleteCommit
	}
	if t.NextProducerID != schema.NoProducer {
		next.PreviousProducerID, next.ProducerID, next.NextProducerID, next.Epoch = t.ProducerID, t.NextProducerID, schema.NoProducer, 0
	}
	s.emit(t.id, &next)
}

// Written is told which partitions of a decided transaction have their markers. It does nothing when that is another transaction
// than the one that the markers were for.
func (m *Machine) Written(now time.Time, c *Completion, partitions []schema.Partition) coordinator.Step {
	s := m.begin()
	t := m.txns[c.ID]
	if t == nil || !t.State.Decided() || t.ProducerID != c.ProducerID || t.Epoch != c.Epoch || t.StartMs != c.StartMs || t.UpdateMs != c.DecidedMs {
		return s.out
	}
	for _, p := range partitions {
		delete(t.unmarked, p)
	}
	if len(t.unmarked) == 0 {
		s.complete(t, now)
	}
	return s.out
}

// timeOut aborts a transaction whose deadline is over and is not set any more.
func (s *step) timeOut(t *transaction, now time.Time, fresh int64) {
	if exhausted(t.Epoch) && fresh == schema.NoProducer {
		s.m.deadlines.set(t, now.Add(idPatience))
		s.out.Jobs = append(s.out.Jobs, NeedProducerID{t.id})
		return
	}
	s.decide(t, now, schema.PrepareAbort, verified, fresh)
	s.out.Jobs = append(s.out.Jobs, Decision{t.id, TimedOut})
}

// idPatience is how long a timeout waits for a producer id before it asks for one again.
const idPatience = 10 * time.Second

// TimeOut aborts a transaction whose time is over, if it still is, with a producer id that it was in need of.
func (m *Machine) TimeOut(now time.Time, id string, fresh int64) coordinator.Step {
	s := m.begin()
	t := m.txns[id]
	if t != nil && t.State == schema.Ongoing && now.UnixMilli() >= t.StartMs+int64(t.TimeoutMs) {
		m.deadlines.clear(t)
		s.timeOut(t, now, fresh)
	}
	return s.out
}
