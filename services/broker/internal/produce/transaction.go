package produce

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/coordinator/txncheck"
	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/libs/record"
)

const (
	// knowsAbortable is the first version of Produce with TRANSACTION_ABORTABLE (KIP-890).
	knowsAbortable = 11
	// addsPartitions is the first version whose clients leave it to leaders to add partitions to their transaction, and have an epoch
	// of its own for each (KIP-890).
	addsPartitions = 12
)

// Checker asks a transaction's coordinator about partitions, as [txncheck.Checker] does.
type Checker interface {
	Check(t txncheck.Transaction, partitions []txncheck.Partition, done func([]error))
}

// permit is what is known, before anything is appended, of a batch of a transactional request.
type permit struct {
	guard log.Guard
	err   error
}

// verify fills p.permits, one for each partition of the request: it finds out which batches begin a transaction in their partition,
// and asks the coordinator about these, once for all. It waits for the answer, so that batches of one producer keep their order:
// the connection's next request comes after it.
func (s *Service) verify(ctx context.Context, p *produce, nowMs int64) {
	q := &p.request
	var t txncheck.Transaction
	var begin []txncheck.Partition
	var places []int
	for i := range q.Topics {
		topic := &q.Topics[i]
		for j := range topic.Partitions {
			p.permits = append(p.permits, permit{})
			at := len(p.permits) - 1
			b, err := record.FromProduce(topic.Partitions[j].Records, q.Version)
			if err != nil || !b.IsTransactional() {
				continue // append says what is wrong
			}
			if t.ID == "" {
				t = txncheck.Transaction{ID: *q.TransactionID, ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(), Add: q.Version >= addsPartitions, Origin: p.r.Trace().SpanContext()}
			}
			if t.ProducerID != b.ProducerID() || t.ProducerEpoch != b.ProducerEpoch() {
				p.permits[at].err = fmt.Errorf("batches of several producers in one request: %w", kerr.InvalidProducerIDMapping)
				continue
			}
			hosted, err := s.parts.Lookup(topic.Topic, topic.TopicID, topic.Partitions[j].Partition)
			if err != nil {
				continue
			}
			begins := false
			p.permits[at].guard, begins, p.permits[at].err = hosted.Verify(b, t.Add, nowMs)
			if begins && p.permits[at].err == nil {
				begin = append(begin, txncheck.Partition{Topic: hosted.Topic.Name, ID: hosted.ID})
				places = append(places, at)
			}
		}
	}
	if len(begin) == 0 {
		return
	}
	answer := make(chan []error, 1)
	s.cfg.Checker.Check(t, begin, func(errs []error) { answer <- errs })
	errs := slices.Repeat([]error{kerr.NotEnoughReplicas}, len(begin))
	select {
	case errs = <-answer:
	case <-ctx.Done():
	}
	for i, err := range errs {
		p.permits[places[i]].err = toProducer(err, q.Version)
	}
}

// toProducer says what the coordinator answered in codes that producers of the version know what to do with: those for
// coordinators are fatal to some, and NOT_ENOUGH_REPLICAS has all try again without looking for another leader.
func toProducer(err error, version int16) error {
	if err == nil {
		return nil
	}
	code, ok := errors.AsType[*kerr.Error](err)
	switch {
	case !ok:
		code = kerr.UnknownServerError
	case code == kerr.ProducerFenced:
		code = kerr.InvalidProducerEpoch
	case code == kerr.TransactionAbortable && version < knowsAbortable:
		code = kerr.InvalidTxnState
	case code == kerr.ConcurrentTransactions && version >= addsPartitions:
	case code == kerr.ConcurrentTransactions, code.Retriable:
		code = kerr.NotEnoughReplicas
	}
	return fmt.Errorf("the coordinator did not confirm that the partition is in the transaction (%v): %w", err, code)
}
