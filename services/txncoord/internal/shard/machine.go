// Package shard is a shard of transactions: the state machine over one partition of __transaction_state.
//
// A transaction is decided when its Prepare record is committed. Only then the shell is told to write the markers
// ([Completion]), and it comes back with each partition that has its marker ([Machine.Written]); the last one completes the
// transaction. A machine that is loaded hands all that is decided out again.
//
// What a machine answers with are responses without a version: whoever encodes them knows the request's.
package shard

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/record"
	"github.com/cauce-stream/cauce/services/txncoord/internal/schema"
)

// verified is the level of transaction.version from which on every end of a transaction bumps the epoch (KIP-890).
const verified = 2

// Settings rule transactions.
type Settings struct {
	// MaxTimeoutMs is Kafka's transaction.max.timeout.ms.
	MaxTimeoutMs int32
	// ExpireAfter is Kafka's transactional.id.expiration.ms, and SweepEvery transaction.remove.expired.transaction.cleanup.interval.ms.
	ExpireAfter, SweepEvery time.Duration
	// MaxBatchBytes bounds the records of a sweep's step.
	MaxBatchBytes int
}

// Completion is the job of writing the markers of a transaction that is decided, and committed so.
type Completion struct {
	ID         string // transactional id
	ProducerID int64
	Epoch      int16
	Commit     bool
	// ClientVersion is the level of transaction.version that the markers follow.
	ClientVersion int16
	Partitions    []schema.Partition
	// StartMs and DecidedMs, with the producer's epoch, tell the transaction from others of its id.
	StartMs, DecidedMs int64
}

// Decision is the job of counting a transaction that has been decided.
type Decision struct {
	ID     string
	Reason Reason
}

// Reason is why a transaction ended.
type Reason string

// The reasons: the client's wish, its time was over, or another producer took its transactional id.
const (
	Committed Reason = "commit"
	Aborted   Reason = "abort"
	TimedOut  Reason = "timeout"
	Fenced    Reason = "fenced"
)

// NeedProducerID is the job, and the answer, of an operation that has to be repeated with a producer id that nobody had.
type NeedProducerID struct {
	// ID is the transactional id whose timeout needs it; empty in answers.
	ID string
}

// transaction is what the shard knows of a transactional id.
type transaction struct {
	*schema.Transaction
	id string
	// unmarked are the partitions of a decided transaction that have no marker yet.
	unmarked map[schema.Partition]struct{}
	// initializing is the request whose bump of the epoch may not be committed yet: there is no other one meanwhile.
	initializing coordinator.Ticket
	due          *deadline
}

// Machine is one shard. It implements [coordinator.Machine].
type Machine struct {
	settings  *Settings
	txns      map[string]*transaction
	deadlines deadlines
	sweepAt   time.Time
	// sweepFrom is the transactional id that a sweep goes on with.
	sweepFrom string
}

// New is an empty shard.
func New(s *Settings) *Machine { return &Machine{settings: s, txns: map[string]*transaction{}} }

// Replay applies a record of the log. Records of unknown types are passed over, as Apache Kafka does.
func (m *Machine) Replay(_ coordinator.Producer, r coordinator.Record) error {
	id, t, err := schema.Decode(r)
	if errors.Is(err, schema.ErrUnknownType) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	m.apply(id, t)
	return nil
}

// ReplayMarker has nothing to do: the shard's own records are not part of transactions.
func (m *Machine) ReplayMarker(coordinator.Producer, record.Marker) error { return nil }

// apply changes what the log keeps, and nothing else does.
func (m *Machine) apply(id string, value *schema.Transaction) {
	t := m.txns[id]
	if value == nil {
		if t != nil {
			m.deadlines.clear(t)
			delete(m.txns, id)
		}
		return
	}
	if t == nil {
		t = &transaction{id: id}
		m.txns[id] = t
	}
	t.Transaction, t.unmarked = value, nil
	if value.State.Decided() {
		t.unmarked = make(map[schema.Partition]struct{}, len(value.Partitions))
		for _, p := range value.Partitions {
			t.unmarked[p] = struct{}{}
		}
	}
	if value.State == schema.Ongoing {
		m.deadlines.set(t, time.UnixMilli(value.StartMs).Add(time.Duration(value.TimeoutMs)*time.Millisecond))
	} else {
		m.deadlines.clear(t)
	}
}

// step is what one operation brings about.
type step struct {
	m   *Machine
	out coordinator.Step
	// bytes are those of the records so far.
	bytes int
}

func (m *Machine) begin() *step {
	return &step{m: m, out: coordinator.Step{Producer: coordinator.NoProducer}}
}

// emit replays a record and has it written.
func (s *step) emit(id string, t *schema.Transaction) {
	s.m.apply(id, t)
	r := schema.Encode(id, t)
	s.out.Records = append(s.out.Records, r)
	s.bytes += len(r.Key) + len(r.Value)
}

// answer ends the step with a response to the request of a ticket.
func (s *step) answer(t coordinator.Ticket, response any) coordinator.Step {
	s.out.Answers = append(s.out.Answers, coordinator.Answer{Ticket: t, Response: response})
	return s.out
}

// find is the transaction of an id if it is that producer's.
func (m *Machine) find(id string, producerID int64, epoch int16) (*transaction, *kerr.Error) {
	t := m.txns[id]
	switch {
	case t == nil || t.ProducerID != producerID:
		return nil, kerr.InvalidProducerIDMapping
	case t.Epoch != epoch:
		return nil, kerr.ProducerFenced
	}
	return t, nil
}

// Loaded has the markers of what was decided written.
func (m *Machine) Loaded(now time.Time) coordinator.Step {
	s := m.begin()
	for _, id := range slices.Sorted(maps.Keys(m.txns)) {
		t := m.txns[id]
		if !t.State.Decided() {
			continue
		}
		if len(t.Partitions) == 0 {
			s.complete(t, now)
			continue
		}
		s.deliver(t)
	}
	m.sweepAt = now.Add(m.settings.SweepEvery)
	return s.out
}

// NextTick is when something is due.
func (m *Machine) NextTick() time.Time {
	if at, ok := m.deadlines.next(); ok && (m.sweepAt.IsZero() || at.Before(m.sweepAt)) {
		return at
	}
	return m.sweepAt
}

// maxTimeoutsPerTick bounds what one operation does; what is left is due at once.
const maxTimeoutsPerTick = 256

// Tick aborts transactions whose time is over, and forgets transactional ids that nobody uses.
func (m *Machine) Tick(now time.Time) coordinator.Step {
	s := m.begin()
	for range maxTimeoutsPerTick {
		if s.bytes > m.settings.MaxBatchBytes/2 {
			break
		}
		t := m.deadlines.pop(now)
		if t == nil {
			break
		}
		s.timeOut(t, now, schema.NoProducer)
	}
	if !m.sweepAt.IsZero() && !now.Before(m.sweepAt) {
		s.sweep(now)
	}
	return s.out
}
