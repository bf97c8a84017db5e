// Package schema is the records of __transaction_state in Apache Kafka's own format (transaction-coordinator's
// common/message/TransactionLogKey.json and TransactionLogValue.json).
//
// A key starts with the number of the record's type, a value with the version of its schema.
package schema

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
)

const (
	keyVersion          = 0
	valueVersion        = 1 // that of transaction.version 1 and above
	lastEpochTag uint32 = 100
)

// State is where a transaction stands, by the number that the log has.
type State int8

// The states of a transaction.
const (
	// Empty is a producer that has not begun a transaction yet.
	Empty State = iota
	Ongoing
	// PrepareCommit and PrepareAbort are decided: nothing but markers is missing.
	PrepareCommit
	PrepareAbort
	CompleteCommit
	CompleteAbort
	// Dead and PrepareEpochFence are states of Kafka's coordinator that its log never has.
	Dead
	PrepareEpochFence
)

var stateNames = [...]string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"}

// String is the name that ListTransactions has.
func (s State) String() string {
	if s < 0 || int(s) >= len(stateNames) {
		return fmt.Sprintf("State(%d)", int8(s))
	}
	return stateNames[s]
}

// StateOf is the state of a name; false for a name that there is not.
func StateOf(name string) (State, bool) {
	for i, n := range stateNames {
		if n == name {
			return State(i), true
		}
	}
	return 0, false
}

// Decided says whether the transaction's outcome is known and its markers are missing.
func (s State) Decided() bool { return s == PrepareCommit || s == PrepareAbort }

// NoProducer stands for no producer id, NoEpoch for no epoch.
const (
	NoProducer int64 = -1
	NoEpoch    int16 = -1
)

// Transaction is all that the log says about a transactional id. It is not changed once it was encoded or decoded.
type Transaction struct {
	ProducerID int64
	// PreviousProducerID is the one before ProducerID, so that a producer that did not hear of the new one can ask again;
	// NextProducerID the one that follows when the markers are written. NoProducer for none.
	PreviousProducerID, NextProducerID int64
	Epoch                              int16
	// LastEpoch is the producer's epoch before Epoch, if the producer itself asked for Epoch; else NoEpoch.
	LastEpoch int16
	TimeoutMs int32
	State     State
	// Partitions that take part, in order; none when Empty or complete.
	Partitions []Partition
	// StartMs is when the transaction began, in ms since 1970; -1 when there was none. UpdateMs is when this was written.
	StartMs, UpdateMs int64
	// ClientVersion is the level of transaction.version that the last request or timeout followed.
	ClientVersion int16
}

// Partition is a partition of a topic.
type Partition struct {
	Topic string
	ID    int32
}

// Encode is what the log has for a transactional id; a nil transaction is a tombstone.
//
// The last epoch is a tagged field of our own, which Apache Kafka passes over: without it, a producer that asks again for a new
// epoch while the coordinator moves would be taken for a fenced one.
func Encode(id string, t *Transaction) coordinator.Record {
	key := kmsg.TxnMetadataKey{Version: keyVersion, TransactionalID: id}
	r := coordinator.Record{Key: key.AppendTo(nil)}
	if t == nil {
		return r
	}
	v := kmsg.NewTxnMetadataValue()
	v.Version = valueVersion
	v.ProducerID, v.PreviousProducerID, v.NextProducerID = t.ProducerID, t.PreviousProducerID, t.NextProducerID
	v.ProducerEpoch, v.TimeoutMillis, v.State = t.Epoch, t.TimeoutMs, kmsg.TransactionState(t.State)
	v.LastUpdateTimestamp, v.StartTimestamp, v.ClientTransactionVersion = t.UpdateMs, t.StartMs, t.ClientVersion
	if t.State != Empty {
		v.Topics = topics(t.Partitions)
	}
	if t.LastEpoch != NoEpoch {
		v.UnknownTags.Set(lastEpochTag, binary.BigEndian.AppendUint16(nil, uint16(t.LastEpoch)))
	}
	r.Value = v.AppendTo([]byte{})
	return r
}

// topics are partitions, which are in order, by topic.
func topics(partitions []Partition) []kmsg.TxnMetadataValueTopic {
	list := []kmsg.TxnMetadataValueTopic{}
	for _, p := range partitions {
		if n := len(list); n == 0 || list[n-1].Topic != p.Topic {
			list = append(list, kmsg.TxnMetadataValueTopic{Topic: p.Topic})
		}
		last := &list[len(list)-1]
		last.Partitions = append(last.Partitions, p.ID)
	}
	return list
}

// ErrUnknownType is wrapped by what Decode says of a record whose type it does not know. Whoever loads a shard passes over such
// records, as Apache Kafka does.
var ErrUnknownType = errors.New("unknown type of record")

// Decode is the transactional id of a record, and the transaction; nil for a tombstone.
func Decode(r coordinator.Record) (id string, t *Transaction, err error) {
	if len(r.Key) < 2 {
		return "", nil, fmt.Errorf("key of %d bytes has no type", len(r.Key))
	}
	if n := int16(binary.BigEndian.Uint16(r.Key)); n != keyVersion {
		return "", nil, fmt.Errorf("%w: %d", ErrUnknownType, n)
	}
	var key kmsg.TxnMetadataKey
	if err := key.ReadFrom(r.Key); err != nil {
		return "", nil, fmt.Errorf("key: %w", err)
	}
	if r.Value == nil {
		return key.TransactionalID, nil, nil
	}
	if t, err = decodeValue(r.Value); err != nil {
		return "", nil, fmt.Errorf("value of transactional id %q: %w", key.TransactionalID, err)
	}
	return key.TransactionalID, t, nil
}

func decodeValue(b []byte) (*Transaction, error) {
	if len(b) < 2 {
		return nil, fmt.Errorf("%d bytes have no version", len(b))
	}
	if v := int16(binary.BigEndian.Uint16(b)); v < 0 || v > valueVersion {
		return nil, fmt.Errorf("version %d, known are 0 to %d", v, valueVersion)
	}
	v := kmsg.NewTxnMetadataValue()
	if err := v.ReadFrom(b); err != nil {
		return nil, err
	}
	t := &Transaction{
		ProducerID: v.ProducerID, PreviousProducerID: v.PreviousProducerID, NextProducerID: v.NextProducerID,
		Epoch: v.ProducerEpoch, LastEpoch: NoEpoch, TimeoutMs: v.TimeoutMillis, State: State(v.State),
		StartMs: v.StartTimestamp, UpdateMs: v.LastUpdateTimestamp, ClientVersion: v.ClientTransactionVersion,
	}
	if t.State < Empty || t.State > CompleteAbort {
		return nil, fmt.Errorf("no transaction is stored in state %d", v.State)
	}
	for _, topic := range v.Topics {
		for _, p := range topic.Partitions {
			t.Partitions = append(t.Partitions, Partition{topic.Topic, p})
		}
	}
	t.Partitions = Sort(t.Partitions)
	v.UnknownTags.Each(func(tag uint32, value []byte) {
		if tag == lastEpochTag && len(value) == 2 {
			t.LastEpoch = int16(binary.BigEndian.Uint16(value))
		}
	})
	return t, nil
}
