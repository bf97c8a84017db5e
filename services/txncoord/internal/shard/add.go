package shard

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/services/txncoord/internal/schema"
)

// Participants are partitions that a producer writes to, or wants to, in a transaction.
type Participants struct {
	ID         string // transactional id
	ProducerID int64
	Epoch      int16
	Partitions []schema.Partition
	// VerifyOnly asks whether they take part, instead of adding them. The answer has a code for each partition.
	VerifyOnly bool
	// Verified says that the client follows KIP-890: its leaders add the partitions.
	Verified bool
}

// Add adds partitions to the producer's transaction, which begins with the first one, or verifies them. The answer is a
// []*kerr.Error, one for each partition and nil for those that take part.
func (m *Machine) Add(now time.Time, ticket coordinator.Ticket, q *Participants) coordinator.Step {
	s := m.begin()
	t, code := m.find(q.ID, q.ProducerID, q.Epoch)
	if code == nil && t.State.Decided() {
		code = kerr.ConcurrentTransactions
	}
	codes := make([]*kerr.Error, len(q.Partitions))
	switch {
	case code != nil:
		for i := range codes {
			codes[i] = code
		}
	case q.VerifyOnly:
		for i, p := range q.Partitions {
			if !schema.Contains(t.Partitions, p) {
				codes[i] = kerr.TransactionAbortable
			}
		}
	case !t.includes(q.Partitions):
		next := *t.Transaction
		if t.State != schema.Ongoing {
			next.State, next.StartMs = schema.Ongoing, now.UnixMilli()
		}
		next.UpdateMs = now.UnixMilli()
		next.Partitions = schema.Sort(slices.Concat(t.Partitions, q.Partitions))
		next.ClientVersion = 0
		if q.Verified {
			next.ClientVersion = verified
		}
		s.emit(q.ID, &next)
	}
	return s.answer(ticket, codes)
}

// includes says whether the transaction is open and partitions take part in it.
func (t *transaction) includes(partitions []schema.Partition) bool {
	return t.State == schema.Ongoing && !slices.ContainsFunc(partitions, func(p schema.Partition) bool { return !schema.Contains(t.Partitions, p) })
}
