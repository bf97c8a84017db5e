package log

import (
	"fmt"
	"maps"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/record"
)

// Guard is the right to begin a transaction of one producer in a log, for who has asked the transaction's coordinator whether
// the log's partition belongs to it (KIP-890). It is void once a transaction of the producer has begun here, or one that may be
// this one has ended: what the coordinator said may have been about that. The zero Guard is no right.
type Guard struct{ number uint64 }

// verification is a producer's transaction that may be about to begin here.
type verification struct {
	guard   Guard
	sinceMs int64 // when it was asked for last
	// lowestSeq is the least sequence number that was sent under epoch: a batch that is sent beside the first one must not come
	// before it, should only the first one's verification fail.
	lowestSeq int32
	epoch     int16
	// ownEpoch says that no other transaction has the epoch.
	ownEpoch bool
}

const (
	maxVerifications = 10_000
	// verificationKeptMs is longer than a transaction may last without a coordinator being configured for it (Kafka config
	// transaction.max.timeout.ms).
	verificationKeptMs = 20 * 60_000
)

// Verify says whether the batch, a client's of a transaction, begins the transaction here. Then it may be appended with
// AppendVerified and the guard, after the coordinator was asked. A batch that was appended before begins nothing. With ownEpoch
// each transaction of the producer has an epoch of its own, and its marker a greater one. The error wraps kerr.NotEnoughReplicas when too many are asked about, or is that of a log that has failed.
func (l *Log) Verify(b record.Batch, ownEpoch bool, nowMs int64) (g Guard, begins bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.Err(); err != nil {
		return Guard{}, false, err
	}
	p := l.producers.get(b.ProducerID())
	if p.continues(b) || p != nil && p.find(b) != nil {
		return Guard{}, false, nil
	}
	g, err = l.producers.verify(b, ownEpoch, nowMs)
	return g, true, err
}

// AppendVerified is AppendReceived for a batch that is refused with kerr.InvalidTxnState where it would begin a transaction
// without a guard that holds.
func (l *Log) AppendVerified(batch []byte, checksum uint32, g Guard, leaderEpoch int32, nowMs int64) (AppendInfo, error) {
	return l.appendLeader(batch, &checksum, leaderEpoch, nowMs, writer{origin: fromVerified, guard: g})
}

// EndTransaction is AppendAsCoordinator for the marker that ends a transaction of that version (Kafka feature transaction.version).
func (l *Log) EndTransaction(batch record.Batch, txnVersion int8, leaderEpoch int32, nowMs int64) (AppendInfo, error) {
	return l.appendLeader(batch, nil, leaderEpoch, nowMs, writer{origin: fromCoordinator, txnVersion: txnVersion})
}

// continues says whether the batch is of the transaction that the producer, nil for an unknown one, has open here.
func (p *producer) continues(b record.Batch) bool {
	return p != nil && p.txnStart >= 0 && p.epoch == b.ProducerEpoch()
}

func (s *producers) verify(b record.Batch, ownEpoch bool, nowMs int64) (Guard, error) {
	id, epoch, seq := b.ProducerID(), b.ProducerEpoch(), b.BaseSequence()
	v, ok := s.verifying[id]
	switch {
	case !ok:
		if len(s.verifying) >= maxVerifications {
			s.dropStaleVerifications(nowMs)
		}
		if len(s.verifying) >= maxVerifications {
			return Guard{}, fmt.Errorf("%d transactions wait to begin: %w", len(s.verifying), kerr.NotEnoughReplicas)
		}
		s.guards++
		v = verification{guard: Guard{s.guards}, lowestSeq: seq, epoch: epoch}
	case epoch > v.epoch:
		v.epoch, v.lowestSeq = epoch, seq
	case epoch == v.epoch:
		v.lowestSeq = min(v.lowestSeq, seq)
	}
	v.sinceMs, v.ownEpoch = nowMs, ownEpoch
	if s.verifying == nil {
		s.verifying = map[int64]verification{}
	}
	s.verifying[id] = v
	return v.guard, nil
}

// checkVerified tells whether the guard lets the batch begin a transaction.
func (s *producers) checkVerified(b record.Batch, g Guard) error {
	v, ok := s.verifying[b.ProducerID()]
	switch {
	case !ok || v.guard != g:
		return fmt.Errorf("producer %d has no transaction open: %w", b.ProducerID(), kerr.InvalidTxnState)
	case b.ProducerEpoch() < v.epoch:
		return fmt.Errorf("producer %d sent epoch %d after %d: %w", b.ProducerID(), b.ProducerEpoch(), v.epoch, kerr.InvalidProducerEpoch)
	case b.BaseSequence() > v.lowestSeq:
		return fmt.Errorf("producer %d sent sequence number %d and %d before it: %w", b.ProducerID(), b.BaseSequence(), v.lowestSeq, kerr.OutOfOrderSequenceNumber)
	}
	return nil
}

// dropVerification forgets what was verified before a marker of the epoch. The marker of a transaction that was decided while the next
// one began, which has an epoch of its own, says nothing of that.
func (s *producers) dropVerification(id int64, markerEpoch int16) {
	if v, ok := s.verifying[id]; ok && !(v.ownEpoch && v.epoch >= markerEpoch) {
		delete(s.verifying, id)
	}
}

func (s *producers) dropStaleVerifications(nowMs int64) {
	maps.DeleteFunc(s.verifying, func(_ int64, v verification) bool { return nowMs-v.sinceMs >= verificationKeptMs })
}
