package record

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// ControlType is what a control record says; its number is in the record's key (KIP-98).
type ControlType int16

// The control records that end transactions: how a producer's transaction ended.
const (
	Abort  ControlType = 0
	Commit ControlType = 1
)

const (
	leaderChange    = 2 // another kind of control record (KIP-595)
	controlKeySize  = 4 // version 0, type
	markerValueSize = 6 // version 0, coordinator epoch
)

// Marker is an end-transaction marker (KIP-98).
type Marker struct {
	Type ControlType
	// CoordinatorEpoch is that of the transaction coordinator that wrote it.
	CoordinatorEpoch int32
}

// EndTransaction makes the control batch that ends the producer's transaction, with base offset 0 and leader epoch -1.
func EndTransaction(m Marker, producerID int64, producerEpoch int16, timestampMs int64) Batch {
	var key [controlKeySize]byte
	var value [markerValueSize]byte
	binary.BigEndian.PutUint16(key[2:], uint16(m.Type))
	binary.BigEndian.PutUint32(value[2:], uint32(m.CoordinatorEpoch))
	b := NewBuilder()
	b.SetProducer(producerID, producerEpoch, NoSequence)
	b.attributes |= transactionalBit | controlBit
	b.Append(timestampMs, key[:], value[:])
	batch := append(make(Batch, HeaderSize), b.records...)
	b.putHeader(batch, None)
	return batch
}

// LeaderChange makes a control batch that tells who leads from now on (KIP-595), with base offset 0 and leader epoch -1. Clients
// pass over it, and Kafka's dump tool names it.
func LeaderChange(leader int32, timestampMs int64) Batch {
	var key [controlKeySize]byte
	binary.BigEndian.PutUint16(key[2:], leaderChange)
	value := binary.BigEndian.AppendUint32([]byte{0, 0}, uint32(leader)) // version 0
	value = append(value, 1, 1, 0)                                       // no voters, no granting voters, no tags
	b := NewBuilder()
	b.attributes |= controlBit
	b.Append(timestampMs, key[:], value)
	batch := append(make(Batch, HeaderSize), b.records...)
	b.putHeader(batch, None)
	return batch
}

// Marker reads the batch's end-transaction marker. Ok is false when the batch is no control batch or is one of another kind
// (of which a data partition may hold some that later versions know). The error wraps kerr.InvalidRecord.
func (b Batch) Marker() (m Marker, ok bool, err error) {
	if !b.IsControl() {
		return m, false, nil
	}
	for r, err := range b.Records(0) {
		if err != nil {
			return m, false, err
		}
		if len(r.Key) < controlKeySize || int16(binary.BigEndian.Uint16(r.Key)) < 0 {
			return m, false, fmt.Errorf("control record key %x: %w", r.Key, kerr.InvalidRecord)
		}
		m.Type = ControlType(binary.BigEndian.Uint16(r.Key[2:]))
		if m.Type != Commit && m.Type != Abort {
			return Marker{}, false, nil
		}
		if len(r.Value) < markerValueSize || int16(binary.BigEndian.Uint16(r.Value)) < 0 {
			return Marker{}, false, fmt.Errorf("end-transaction marker %x: %w", r.Value, kerr.InvalidRecord)
		}
		m.CoordinatorEpoch = int32(binary.BigEndian.Uint32(r.Value[2:]))
		return m, true, nil
	}
	return m, false, nil
}

// IsLeaderChange tells whether b is what [LeaderChange] makes.
func (b Batch) IsLeaderChange() bool {
	if !b.IsControl() {
		return false
	}
	for r, err := range b.Records(0) {
		return err == nil && len(r.Key) >= controlKeySize && binary.BigEndian.Uint16(r.Key[2:]) == leaderChange
	}
	return false
}
