// Package record is Kafka's record batch, format version 2 (KIP-98), seen in place.
//
// A [Batch] is a view over the bytes as a producer sent them and as a segment file keeps them: nothing is
// decoded ahead of use and nothing is copied. [Validate] is what a partition leader demands of a client's batch,
// [Batch.Records] iterates over the records whatever their codec, and [Builder] makes new batches.
//
// Errors wrap the [kerr.Error] that Apache Kafka would answer. Records and codecs of a hostile batch cost memory
// that the caller has bounded, never what the batch claims.
package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Where the fields of a batch header lie, in bytes from its start. Everything from AttributesAt on is under the CRC;
// base offset and leader epoch are not, so that a leader can set them without touching the rest.
const (
	BaseOffsetAt      = 0
	LengthAt          = 8
	LeaderEpochAt     = 12
	MagicAt           = 16
	CRCAt             = 17
	AttributesAt      = 21
	LastOffsetDeltaAt = 23
	BaseTimestampAt   = 27
	MaxTimestampAt    = 35
	ProducerIDAt      = 43
	ProducerEpochAt   = 51
	BaseSequenceAt    = 53
	CountAt           = 57

	// HeaderSize is the size of the header, after which the records begin.
	HeaderSize = 61
	// LengthOverhead is what the length field does not count: base offset and the field itself.
	LengthOverhead = 12
)

const (
	// Magic is the only format version this package reads and writes.
	Magic = 2
	// NoTimestamp is the timestamp of a record that has none.
	NoTimestamp = -1
	// NoProducerID is the producer id of a batch that is not idempotent.
	NoProducerID = -1
	// NoSequence is the base sequence of a batch that is not idempotent.
	NoSequence = -1
)

const (
	codecMask         = 0x07
	timestampTypeBit  = 0x08
	transactionalBit  = 0x10
	controlBit        = 0x20
	deleteHorizonBit  = 0x40
	minBatchLength    = HeaderSize - LengthOverhead
	maxSequenceModulo = math.MaxInt32 + 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// TimestampType says who gave the records their timestamps (Kafka config message.timestamp.type).
type TimestampType int8

const (
	// CreateTime timestamps are the producer's, one per record.
	CreateTime TimestampType = 0
	// LogAppendTime is the leader's clock: one timestamp for the whole batch, kept as its maximum timestamp.
	LogAppendTime TimestampType = 1
)

// String returns Kafka's name of the type.
func (t TimestampType) String() string {
	if t == LogAppendTime {
		return "LogAppendTime"
	}
	return "CreateTime"
}

// Batch is exactly one record batch: as long as its own length field says and at least HeaderSize, which [Next] ensures.
// The accessors read the header without checking it further.
type Batch []byte

// Next splits the first batch off b and returns it with what follows. It looks at length and magic only.
// The error wraps [io.ErrUnexpectedEOF] when b ends before the batch does (an empty b gives [io.EOF] itself), and
// kerr.CorruptMessage when the length cannot be a batch's or the magic is not 2.
func Next(b []byte) (Batch, []byte, error) {
	if len(b) == 0 {
		return nil, nil, io.EOF
	}
	if len(b) <= MagicAt {
		return nil, b, fmt.Errorf("%d bytes are less than a batch header: %w", len(b), io.ErrUnexpectedEOF)
	}
	length := int32(binary.BigEndian.Uint32(b[LengthAt:]))
	if length < minBatchLength || length > math.MaxInt32-LengthOverhead {
		return nil, b, fmt.Errorf("batch length %d is out of range: %w", length, kerr.CorruptMessage)
	}
	if b[MagicAt] != Magic {
		return nil, b, fmt.Errorf("batch magic is %d: %w", int8(b[MagicAt]), kerr.CorruptMessage)
	}
	size := int(length) + LengthOverhead
	if len(b) < size {
		return nil, b, fmt.Errorf("batch of %d bytes ends after %d: %w", size, len(b), io.ErrUnexpectedEOF)
	}
	return Batch(b[:size:size]), b[size:], nil
}

// BaseOffset is the offset of the first record, or of the first before compaction took it away.
func (b Batch) BaseOffset() int64 { return int64(binary.BigEndian.Uint64(b[BaseOffsetAt:])) }

// LastOffset is the offset of the last record, or of the last before compaction took it away.
func (b Batch) LastOffset() int64 { return b.BaseOffset() + int64(b.LastOffsetDelta()) }

// LeaderEpoch is the epoch of the leader that appended the batch.
func (b Batch) LeaderEpoch() int32 { return int32(binary.BigEndian.Uint32(b[LeaderEpochAt:])) }

// Magic is the format version.
func (b Batch) Magic() int8 { return int8(b[MagicAt]) }

// CRC is the stored CRC-32C of everything from the attributes on.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[CRCAt:]) }

// Attributes are the codec, timestamp type and flags, as stored.
func (b Batch) Attributes() int16 { return int16(binary.BigEndian.Uint16(b[AttributesAt:])) }

// Codec is how the records are compressed; values above Zstd are possible in a batch not yet validated.
func (b Batch) Codec() Codec { return Codec(b.Attributes() & codecMask) }

// TimestampType says whose clock the timestamps are of.
func (b Batch) TimestampType() TimestampType {
	if b.Attributes()&timestampTypeBit != 0 {
		return LogAppendTime
	}
	return CreateTime
}

// IsTransactional says whether the batch belongs to a transaction (KIP-98).
func (b Batch) IsTransactional() bool { return b.Attributes()&transactionalBit != 0 }

// IsControl says whether the records are markers for brokers and clients, which no application sees (KIP-98).
func (b Batch) IsControl() bool { return b.Attributes()&controlBit != 0 }

// HasDeleteHorizon says whether the base timestamp is the time after which compaction may drop tombstones (KIP-534).
func (b Batch) HasDeleteHorizon() bool { return b.Attributes()&deleteHorizonBit != 0 }

// LastOffsetDelta is LastOffset less BaseOffset.
func (b Batch) LastOffsetDelta() int32 { return int32(binary.BigEndian.Uint32(b[LastOffsetDeltaAt:])) }

// BaseTimestamp is what the records' timestamps are counted from, in ms since 1970.
func (b Batch) BaseTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[BaseTimestampAt:])) }

// MaxTimestamp is the greatest timestamp of the records, in ms since 1970, as far as the header can be believed.
func (b Batch) MaxTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[MaxTimestampAt:])) }

// ProducerID is the id of an idempotent producer, or NoProducerID.
func (b Batch) ProducerID() int64 { return int64(binary.BigEndian.Uint64(b[ProducerIDAt:])) }

// ProducerEpoch is the epoch of an idempotent producer.
func (b Batch) ProducerEpoch() int16 { return int16(binary.BigEndian.Uint16(b[ProducerEpochAt:])) }

// BaseSequence is the sequence number of the first record, or NoSequence.
func (b Batch) BaseSequence() int32 { return int32(binary.BigEndian.Uint32(b[BaseSequenceAt:])) }

// LastSequence is the sequence number of the last record, or NoSequence. Sequence numbers begin again at 0 after 2^31-1.
func (b Batch) LastSequence() int32 {
	base := b.BaseSequence()
	if base == NoSequence {
		return NoSequence
	}
	return int32((int64(base) + int64(b.LastOffsetDelta())) % maxSequenceModulo)
}

// Count is the declared number of records.
func (b Batch) Count() int32 { return int32(binary.BigEndian.Uint32(b[CountAt:])) }

// SetBaseOffset gives the records their offsets. The CRC does not cover it.
func (b Batch) SetBaseOffset(offset int64) {
	binary.BigEndian.PutUint64(b[BaseOffsetAt:], uint64(offset))
}

// SetLeaderEpoch records the appending leader's epoch. The CRC does not cover it.
func (b Batch) SetLeaderEpoch(epoch int32) {
	binary.BigEndian.PutUint32(b[LeaderEpochAt:], uint32(epoch))
}

// SetMaxTimestamp sets the timestamp type and the maximum timestamp in ms, and the CRC that follows from them.
// With LogAppendTime that is the timestamp of every record. Setting what is there already costs nothing.
func (b Batch) SetMaxTimestamp(t TimestampType, ms int64) {
	if b.TimestampType() == t && b.MaxTimestamp() == ms {
		return
	}
	b[AttributesAt+1] &^= timestampTypeBit
	if t == LogAppendTime {
		b[AttributesAt+1] |= timestampTypeBit
	}
	binary.BigEndian.PutUint64(b[MaxTimestampAt:], uint64(ms))
	b.updateCRC()
}

// CheckCRC compares the stored CRC with the bytes; the error wraps kerr.CorruptMessage.
func (b Batch) CheckCRC() error { return b.checkCRC(nil) }

// checkCRC is CheckCRC for a batch whose bytes' checksum may be known.
func (b Batch) checkCRC(checksum *uint32) error {
	var got uint32
	if checksum != nil {
		got = *checksum
	} else {
		got = crc32.Checksum(b[AttributesAt:], castagnoli)
	}
	if want := b.CRC(); want != got {
		return fmt.Errorf("batch CRC is %08x, its bytes have %08x: %w", want, got, kerr.CorruptMessage)
	}
	return nil
}

func (b Batch) updateCRC() {
	binary.BigEndian.PutUint32(b[CRCAt:], crc32.Checksum(b[AttributesAt:], castagnoli))
}

// records are the bytes after the header, compressed or not.
func (b Batch) records() []byte { return b[HeaderSize:] }
