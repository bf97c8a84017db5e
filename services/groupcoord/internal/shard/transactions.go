package shard

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/groupapi"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/record"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/offsets"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/producers"
)

const (
	// commitKnowsAbortable is the first version of TxnOffsetCommit with TRANSACTION_ABORTABLE (KIP-890).
	commitKnowsAbortable = 4
	// commitAddsPartition is the first version whose clients leave it to the coordinator of the group to add the shard's partition to
	// their transaction (KIP-890).
	commitAddsPartition = 5
)

// Verification is a job: the coordinator of a transaction is to be asked whether the shard's partition belongs to it, or to add it.
// Machine.Verified takes the answer.
type Verification struct {
	TransactionalID string
	Producer        coordinator.Producer
	Add             bool

	ticket coordinator.Ticket
	req    *kmsg.TxnOffsetCommitRequest
	guard  *producers.Guard
}

// TxnOffsetCommit stores offsets that count when their transaction is committed. Before the first of a transaction its coordinator is
// asked (KIP-890).
func (m *Machine) TxnOffsetCommit(now time.Time, t coordinator.Ticket, req *kmsg.TxnOffsetCommitRequest) coordinator.Step {
	o := m.begin(now)
	p := coordinator.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch}
	_, begins, err := m.admitTransactional(o, req, p)
	switch {
	case err != nil:
		o.Answer(t, groupapi.Refuse(req, groupapi.Code(err)))
	case begins && m.settings.Broker.Bool("transaction.partition.verification.enable"):
		add := req.Version >= commitAddsPartition
		v := &Verification{TransactionalID: req.TransactionalID, Producer: p, Add: add, ticket: t, req: req, guard: m.producers.Guard(p, add)}
		m.verifying[v] = true
		o.Job(v)
	default:
		return m.commitTransactional(now, t, req)
	}
	return o.Step()
}

// Verified goes on with the commit that a verification is for. err is what the transaction's coordinator said, or why it did not.
func (m *Machine) Verified(now time.Time, v *Verification, err error) coordinator.Step {
	o := m.begin(now)
	if !m.verifying[v] {
		return o.Step() // it was another machine's; the runtime has answered the request
	}
	delete(m.verifying, v)
	holds := m.producers.Release(v.Producer, v.guard)
	begins, fenced := m.producers.Check(v.Producer)
	switch {
	case err != nil:
		err = toCommitter(err, v.req.Version)
	case fenced == nil && begins && !holds && !v.Add:
		// It was ended meanwhile. Where the coordinator adds partitions each transaction has an epoch of its own, by which Check would know;
		// the marker that came was that of the last one, which the coordinator has waited for.
		err = kerr.InvalidTxnState
	}
	if err != nil {
		o.Answer(v.ticket, groupapi.Refuse(v.req, groupapi.Code(err)))
		return o.Step()
	}
	return m.commitTransactional(now, v.ticket, v.req)
}

// toCommitter is what a coordinator of transactions says in the words that committers of the version know: another code for trouble
// between coordinators is fatal to some of them.
func toCommitter(err error, version int16) error {
	code, ok := errors.AsType[*kerr.Error](err)
	switch {
	case !ok:
		return err
	case code == kerr.ProducerFenced:
		return kerr.InvalidProducerEpoch
	case code == kerr.TransactionAbortable && version < commitKnowsAbortable:
		return kerr.InvalidTxnState
	case code == kerr.ConcurrentTransactions, code.Retriable:
		return kerr.CoordinatorLoadInProgress
	}
	return err
}

func (m *Machine) commitTransactional(now time.Time, t coordinator.Ticket, req *kmsg.TxnOffsetCommitRequest) coordinator.Step {
	p := coordinator.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch}
	o := m.beginTransactional(now, p)
	admit, _, err := m.admitTransactional(o, req, p)
	if err != nil {
		o.Answer(t, groupapi.Refuse(req, groupapi.Code(err)))
		return o.Step()
	}
	o.Answer(t, m.offsets.CommitInTransaction(o, req, func(id metadata.TopicID, partition int32) error {
		if admit == nil {
			return nil
		}
		return toProducer(admit(id, partition))
	}))
	return o.Step()
}

// admitTransactional says whether a producer may commit offsets of a group, and whether that begins its transaction here.
func (m *Machine) admitTransactional(o *op.Op, req *kmsg.TxnOffsetCommitRequest, p coordinator.Producer) (admit offsets.Admission, begins bool, err error) {
	if req.Group == "" {
		return nil, false, kerr.InvalidGroupID
	}
	by := offsets.Committer{MemberID: req.MemberID, InstanceID: req.InstanceID, Epoch: req.Generation, Version: req.Version, Transactional: true}
	if admit, err = m.admitCommit(o, req.Group, by); err != nil {
		return nil, false, toProducer(err)
	}
	begins, err = m.producers.Check(p)
	return admit, begins, err
}

// toProducer is an error in the words that producers know.
func toProducer(err error) error {
	if errors.Is(err, kerr.StaleMemberEpoch) {
		return kerr.IllegalGeneration
	}
	return err
}

// EndTransaction writes the marker that ends a transaction. The answer is nil, or an error that wraps kerr.InvalidProducerEpoch or
// kerr.TransactionCoordinatorFenced.
func (m *Machine) EndTransaction(now time.Time, t coordinator.Ticket, e record.Ending) coordinator.Step {
	o := m.begin(now)
	written, err := m.producers.CheckEnding(e)
	if err != nil {
		o.Answer(t, err)
		return o.Step()
	}
	o.Answer(t, nil)
	step := o.Step()
	if written {
		return step
	}
	step.Producer, step.Marker = coordinator.Producer{ID: e.ProducerID, Epoch: e.ProducerEpoch}, &e.Marker
	if err := m.ReplayMarker(step.Producer, e.Marker); err != nil {
		panic(err) // it is of a kind that replays
	}
	return step
}

// expireProducers forgets those who were not seen for producer.id.expiration.ms, as the log does.
func (m *Machine) expireProducers(o *op.Op) {
	m.producers.Expire(o.Now.UnixMilli() - o.Settings.Broker.DurationMs("producer.id.expiration.ms").Milliseconds())
}
