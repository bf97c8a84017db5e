package log

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/record"
)

// origin says who wrote a batch, which decides what is asked of it.
type origin int8

const (
	fromClient      origin = iota
	fromVerified           // a client whose transactions the coordinator is asked about
	fromCoordinator        // no sequence numbers, but control batches
)

// writer is who appends a batch as leader.
type writer struct {
	origin     origin
	txnVersion int8  // of the transaction that a marker ends (Kafka feature transaction.version)
	guard      Guard // of who is verified
}

func (w writer) isClient() bool { return w.origin != fromCoordinator }

// batchesKept is how many batches of a producer are remembered to recognise what it sends again; an idempotent producer
// has at most five requests in flight.
const batchesKept = 5

// batchMeta is one remembered batch.
type batchMeta struct {
	lastOffset  int64
	timestampMs int64
	lastSeq     int32
	offsetDelta int32
}

func (m batchMeta) firstSeq() int32 {
	seq := int64(m.lastSeq) - int64(m.offsetDelta)
	if seq < 0 {
		seq += 1 << 31
	}
	return int32(seq)
}

func (m batchMeta) firstOffset() int64 { return m.lastOffset - int64(m.offsetDelta) }

// producer is the state of one producer id.
type producer struct {
	id               int64
	lastMs           int64 // timestamp of the last batch
	seenMs           int64 // when this process last appended for it; 0 when it has not
	txnStart         int64 // first offset of the open transaction, -1 for none
	coordinatorEpoch int32
	epoch            int16
	kept             int8 // of batches
	batches          [batchesKept]batchMeta
}

func (p *producer) last() *batchMeta {
	if p.kept == 0 {
		return nil
	}
	return &p.batches[p.kept-1]
}

func (p *producer) lastSeq() int32 {
	if m := p.last(); m != nil {
		return m.lastSeq
	}
	return record.NoSequence
}

func (p *producer) setEpoch(epoch int16) {
	if p.epoch != epoch {
		p.epoch, p.kept = epoch, 0
	}
}

func (p *producer) keep(m batchMeta) {
	if p.kept == batchesKept {
		copy(p.batches[:], p.batches[1:])
		p.kept--
	}
	p.batches[p.kept] = m
	p.kept++
}

// recall remembers a batch that came before the last one. Batches are recalled in order.
func (p *producer) recall(b record.Batch) {
	last := p.last()
	if last == nil || b.LastOffset() >= last.lastOffset {
		return
	}
	newest := *last
	p.kept--
	p.keep(metaOf(b))
	p.keep(newest)
}

func metaOf(b record.Batch) batchMeta {
	return batchMeta{b.LastOffset(), b.MaxTimestamp(), b.LastSequence(), b.LastOffsetDelta()}
}

// find is the remembered batch of exactly that sequence range.
func (p *producer) find(b record.Batch) *batchMeta {
	if p.epoch != b.ProducerEpoch() {
		return nil
	}
	for i := range p.batches[:p.kept] {
		if m := &p.batches[i]; m.firstSeq() == b.BaseSequence() && m.lastSeq == b.LastSequence() {
			return m
		}
	}
	return nil
}

// txn is a transaction of which this partition holds records, from its first record to its marker.
type txn struct {
	producerID  int64
	first, last int64
}

// producers is the producer state of a log: what idempotence and transactions need to know of what was appended before
// end. It is pure; the log's mutex guards it.
type producers struct {
	byID []*producer // ascending
	end  int64       // offset up to which batches were applied
	// open are the transactions without a marker, unreplicated those whose marker is not below the high watermark yet;
	// both by first offset.
	open, unreplicated []txn

	verifying map[int64]verification // by producer id; nil for none
	guards    uint64                 // handed out so far
}

func (s *producers) find(id int64) (int, bool) {
	return slices.BinarySearchFunc(s.byID, id, func(p *producer, id int64) int { return cmp.Compare(p.id, id) })
}

func (s *producers) get(id int64) *producer {
	if i, ok := s.find(id); ok {
		return s.byID[i]
	}
	return nil
}

func (s *producers) getOrAdd(id int64) *producer {
	i, ok := s.find(id)
	if !ok {
		p := &producer{id: id, epoch: -1, coordinatorEpoch: -1, lastMs: record.NoTimestamp, txnStart: -1}
		s.byID = slices.Insert(s.byID, i, p)
	}
	return s.byID[i]
}

// check tells whether the batch may be appended. A batch that is there already is no error but its memory. The error
// wraps kerr.InvalidProducerEpoch, OutOfOrderSequenceNumber, InvalidTxnState or TransactionCoordinatorFenced.
func (s *producers) check(b record.Batch, w writer) (duplicate *batchMeta, err error) {
	p := s.get(b.ProducerID())
	if p != nil && w.isClient() {
		if m := p.find(b); m != nil {
			return m, nil
		}
	}
	if w.origin == fromVerified && b.IsTransactional() && !p.continues(b) {
		if err := s.checkVerified(b, w.guard); err != nil {
			return nil, err
		}
	}
	if p == nil {
		// Nothing is known, be it a new producer or one whose state has expired: any sequence number may begin (KIP-360).
		return nil, nil
	}
	if b.ProducerEpoch() < p.epoch {
		return nil, fmt.Errorf("producer %d sent epoch %d after %d: %w", p.id, b.ProducerEpoch(), p.epoch, kerr.InvalidProducerEpoch)
	}
	if b.IsControl() {
		return nil, p.checkMarker(b, w.txnVersion)
	}
	if w.isClient() {
		if err := p.checkSequence(b); err != nil {
			return nil, err
		}
	}
	if p.txnStart >= 0 && !b.IsTransactional() {
		return nil, fmt.Errorf("producer %d has a transaction open and sent a batch outside it: %w", p.id, kerr.InvalidTxnState)
	}
	return nil, nil
}

// checkMarker tells whether the marker may end what the producer has here.
func (p *producer) checkMarker(b record.Batch, txnVersion int8) error {
	m, ok, err := b.Marker()
	switch {
	case err != nil || !ok:
		return err
	case m.CoordinatorEpoch < p.coordinatorEpoch:
		return fmt.Errorf("marker of coordinator epoch %d after %d: %w", m.CoordinatorEpoch, p.coordinatorEpoch, kerr.TransactionCoordinatorFenced)
	case txnVersion >= record.PerTxnEpochs && p.txnStart >= 0 && b.ProducerEpoch() == p.epoch:
		return fmt.Errorf("marker of producer %d and epoch %d comes after its transaction: %w", p.id, p.epoch, kerr.InvalidProducerEpoch)
	}
	return nil
}

func (p *producer) checkSequence(b record.Batch) error {
	first, last := b.BaseSequence(), p.lastSeq()
	if b.ProducerEpoch() != p.epoch {
		if first != 0 && p.epoch != -1 {
			return fmt.Errorf("producer %d begins epoch %d with sequence number %d: %w", p.id, b.ProducerEpoch(), first, kerr.OutOfOrderSequenceNumber)
		}
		return nil
	}
	if int64(first) == int64(last)+1 || first == 0 && last == 1<<31-1 {
		return nil
	}
	return fmt.Errorf("producer %d sent sequence number %d after %d: %w", p.id, first, last, kerr.OutOfOrderSequenceNumber)
}

// apply notes a batch that is in the log, with its offsets. aborted is the transaction that it aborts, if it does.
func (s *producers) apply(b record.Batch) (aborted abortedTxn, isAbort bool) {
	s.end = b.LastOffset() + 1
	if b.ProducerID() < 0 {
		return aborted, false
	}
	if b.IsControl() {
		return s.applyMarker(b)
	}
	p := s.getOrAdd(b.ProducerID())
	p.setEpoch(b.ProducerEpoch())
	p.lastMs = b.MaxTimestamp()
	p.keep(metaOf(b))
	if b.IsTransactional() && p.txnStart < 0 {
		delete(s.verifying, p.id)
		p.txnStart = b.BaseOffset()
		s.open = append(s.open, txn{producerID: p.id, first: b.BaseOffset()})
	}
	return aborted, false
}

func (s *producers) applyMarker(b record.Batch) (aborted abortedTxn, isAbort bool) {
	// Control batches of other kinds, and markers that cannot be read, end no transaction.
	m, ok, err := b.Marker()
	if !ok || err != nil {
		return aborted, false
	}
	p := s.getOrAdd(b.ProducerID())
	s.dropVerification(p.id, b.ProducerEpoch())
	start := p.txnStart
	p.setEpoch(b.ProducerEpoch())
	p.coordinatorEpoch, p.lastMs, p.txnStart = m.CoordinatorEpoch, b.MaxTimestamp(), -1
	if start < 0 {
		return aborted, false
	}
	done := txn{p.id, start, b.BaseOffset()}
	s.open = slices.DeleteFunc(s.open, func(t txn) bool { return t.first == start })
	s.unreplicated = append(s.unreplicated, done)
	sortTxns(s.unreplicated)
	if m.Type == record.Commit {
		return aborted, false
	}
	stable := done.last + 1
	if len(s.open) > 0 {
		stable = s.open[0].first
	}
	return abortedTxn{done.producerID, done.first, done.last, stable}, true
}

// firstUnstable is the first offset of a transaction that is undecided, or decided by a marker that is not below the high
// watermark yet; -1 when there is none.
func (s *producers) firstUnstable() int64 {
	first := int64(-1)
	if len(s.open) > 0 {
		first = s.open[0].first
	}
	if len(s.unreplicated) > 0 && (first < 0 || s.unreplicated[0].first < first) {
		first = s.unreplicated[0].first
	}
	return first
}

// replicated forgets the decided transactions whose marker is below offset.
func (s *producers) replicated(offset int64) {
	s.unreplicated = slices.DeleteFunc(s.unreplicated, func(t txn) bool { return t.last < offset })
}

// expired tells whether p has been idle for so long that it is forgotten. One with a transaction open never is.
func (p *producer) expired(nowMs, afterMs int64) bool {
	return p.txnStart < 0 && nowMs-max(p.lastMs, p.seenMs) >= afterMs
}

func (s *producers) expire(nowMs, afterMs int64) {
	s.byID = slices.DeleteFunc(s.byID, func(p *producer) bool { return p.expired(nowMs, afterMs) })
	if len(s.byID) == 0 {
		s.byID = nil
	}
	s.dropStaleVerifications(nowMs)
}

func sortTxns(t []txn) {
	slices.SortFunc(t, func(a, b txn) int { return cmp.Compare(a.first, b.first) })
}
