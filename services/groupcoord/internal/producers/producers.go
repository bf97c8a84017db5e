// Package producers is what a shard of groups knows of transactional producers: who of them is fenced, whose transaction is open,
// and which coordinators' answers still hold.
//
// The brokers' logs know it too, and refuse what is wrong. But a batch that the log refuses costs its shard a reload, so that
// nothing is sent that the log would refuse.
package producers

import (
	"fmt"
	"maps"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/record"
)

// producer is one of them, by its last batch.
type producer struct {
	epoch            int16
	coordinatorEpoch int32 // of its last marker, -1 for none
	open             bool  // its transaction has records that no marker has ended
	lastMs           int64 // of its last records, in milliseconds since 1970
}

// Guard is the right to begin a producer's transaction in the shard, once its coordinator has said that the shard belongs to it. It
// is void once a transaction of the producer has begun, or one that may be this one has ended.
type Guard struct {
	waits int
	epoch int16
	// ownEpoch says that no other transaction has the epoch.
	ownEpoch bool
}

// Set is all producers of a shard.
type Set struct {
	known  map[int64]producer
	guards map[int64]*Guard
}

// NewSet is a set without producers.
func NewSet() *Set { return &Set{known: map[int64]producer{}, guards: map[int64]*Guard{}} }

// Replay notes a record in a transaction, of a time in milliseconds since 1970.
func (s *Set) Replay(p coordinator.Producer, ms int64) {
	known, ok := s.known[p.ID]
	if !ok {
		known.coordinatorEpoch = -1
	}
	known.epoch, known.open, known.lastMs = p.Epoch, true, max(known.lastMs, ms)
	s.known[p.ID] = known
	delete(s.guards, p.ID)
}

// ReplayMarker notes the end of a transaction.
func (s *Set) ReplayMarker(p coordinator.Producer, m record.Marker) {
	known := s.known[p.ID]
	known.epoch, known.coordinatorEpoch, known.open = p.Epoch, m.CoordinatorEpoch, false
	s.known[p.ID] = known
	// The marker of a transaction that was decided while the next one began, which has an epoch of its own, says nothing of that.
	if g := s.guards[p.ID]; g != nil && !(g.ownEpoch && g.epoch >= p.Epoch) {
		delete(s.guards, p.ID)
	}
}

// Check says whether records of a producer may be written: the error wraps kerr.InvalidProducerEpoch for one that is fenced. begins
// says that they would begin a transaction.
func (s *Set) Check(p coordinator.Producer) (begins bool, err error) {
	known, ok := s.known[p.ID]
	if ok && p.Epoch < known.epoch {
		return false, fmt.Errorf("producer %d has epoch %d, after %d: %w", p.ID, known.epoch, p.Epoch, kerr.InvalidProducerEpoch)
	}
	return !known.open || known.epoch != p.Epoch, nil
}

// Guard gives the right to begin the producer's transaction, should its coordinator allow it. With ownEpoch each transaction of the
// producer has an epoch of its own, and its marker a greater one. The guard is to be given back with Release.
func (s *Set) Guard(p coordinator.Producer, ownEpoch bool) *Guard {
	g := s.guards[p.ID]
	if g == nil || g.epoch != p.Epoch || g.ownEpoch != ownEpoch {
		g = &Guard{epoch: p.Epoch, ownEpoch: ownEpoch}
		s.guards[p.ID] = g
	}
	g.waits++
	return g
}

// Release gives a guard back and says whether it holds.
func (s *Set) Release(p coordinator.Producer, g *Guard) bool {
	holds := s.guards[p.ID] == g
	if g.waits--; holds && g.waits == 0 {
		delete(s.guards, p.ID)
	}
	return holds
}

// CheckEnding says whether a transaction may be ended so, in Kafka's words (kerr.InvalidProducerEpoch and
// kerr.TransactionCoordinatorFenced). written says that the shard has this marker already.
func (s *Set) CheckEnding(e record.Ending) (written bool, err error) {
	known, ok := s.known[e.ProducerID]
	switch {
	case !ok:
		return false, nil
	case e.ProducerEpoch < known.epoch:
		return false, fmt.Errorf("marker of producer epoch %d after %d: %w", e.ProducerEpoch, known.epoch, kerr.InvalidProducerEpoch)
	case e.CoordinatorEpoch < known.coordinatorEpoch:
		return false, fmt.Errorf("marker of coordinator epoch %d after %d: %w", e.CoordinatorEpoch, known.coordinatorEpoch, kerr.TransactionCoordinatorFenced)
	case e.TxnVersion < record.PerTxnEpochs || e.ProducerEpoch > known.epoch:
		return false, nil
	case known.open:
		return false, fmt.Errorf("marker of producer epoch %d comes after its transaction: %w", e.ProducerEpoch, kerr.InvalidProducerEpoch)
	}
	return true, nil
}

// Expire forgets producers without an open transaction whose last records are from before a time in milliseconds since 1970.
func (s *Set) Expire(beforeMs int64) {
	maps.DeleteFunc(s.known, func(_ int64, p producer) bool { return !p.open && p.lastMs < beforeMs })
}
