package record

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Builder collects records into a batch. Make one with [NewBuilder]; after Build, Reset makes it ready for the next.
type Builder struct {
	records       []byte // uncompressed
	count         int
	attributes    int16
	baseTimestamp int64
	maxTimestamp  int64
	producerID    int64
	producerEpoch int16
	baseSequence  int32
}

// NewBuilder returns a builder of plain batches: no producer id, no transaction.
func NewBuilder() *Builder {
	b := new(Builder)
	b.Reset()
	return b
}

// Reset forgets the records, the producer and the flags, and keeps the memory.
func (b *Builder) Reset() {
	*b = Builder{
		records:       b.records[:0],
		maxTimestamp:  NoTimestamp,
		producerID:    NoProducerID,
		producerEpoch: -1,
		baseSequence:  NoSequence,
	}
}

// SetProducer makes the batch an idempotent producer's (KIP-98).
func (b *Builder) SetProducer(id int64, epoch int16, baseSequence int32) {
	b.producerID, b.producerEpoch, b.baseSequence = id, epoch, baseSequence
}

// SetTransactional makes the batch part of its producer's open transaction.
func (b *Builder) SetTransactional() { b.attributes |= transactionalBit }

// Append adds a record with the next offset. A nil key or value is null; timestampMs is NoTimestamp for none.
// Everything is copied.
func (b *Builder) Append(timestampMs int64, key, value []byte, headers ...Header) {
	if b.count == 0 {
		b.baseTimestamp = timestampMs
	}
	b.maxTimestamp = max(b.maxTimestamp, timestampMs)
	delta, offset := timestampMs-b.baseTimestamp, int64(b.count)
	size := 1 + varintSize(delta) + varintSize(offset) + fieldSize(key) + fieldSize(value) + varintSize(int64(len(headers)))
	for _, h := range headers {
		size += varintSize(int64(len(h.Key))) + len(h.Key) + fieldSize(h.Value)
	}
	dst := appendVarint(b.records, int64(size))
	dst = append(dst, 0)
	dst = appendVarint(dst, delta)
	dst = appendVarint(dst, offset)
	dst = appendField(dst, key)
	dst = appendField(dst, value)
	dst = appendVarint(dst, int64(len(headers)))
	for _, h := range headers {
		dst = append(appendVarint(dst, int64(len(h.Key))), h.Key...)
		dst = appendField(dst, h.Value)
	}
	b.records = dst
	b.count++
}

// Len is the number of records so far.
func (b *Builder) Len() int { return b.count }

// Size is the size in bytes of the batch so far, uncompressed.
func (b *Builder) Size() int { return HeaderSize + len(b.records) }

// Build makes the batch in memory of its own; see AppendTo.
func (b *Builder) Build(codec Codec, level int) (Batch, error) { return b.AppendTo(nil, codec, level) }

// AppendTo appends the batch to dst, with base offset 0 and leader epoch -1, compressed as [Compress] does. The builder stays
// as it is. The error wraps kerr.MessageTooLarge for a batch that 32-bit lengths cannot hold, kerr.InvalidRecord for one
// without records and kerr.UnsupportedCompressionType for an unknown codec; dst then comes back as it was.
func (b *Builder) AppendTo(dst []byte, codec Codec, level int) ([]byte, error) {
	if b.count == 0 {
		return dst, fmt.Errorf("a batch needs a record: %w", kerr.InvalidRecord)
	}
	if b.count > math.MaxInt32 || len(b.records) > math.MaxInt32-HeaderSize {
		return dst, fmt.Errorf("%d records of %d bytes: %w", b.count, len(b.records), kerr.MessageTooLarge)
	}
	start := len(dst)
	out, err := Compress(append(dst, make([]byte, HeaderSize)...), b.records, codec, level)
	if err != nil {
		return dst, err
	}
	b.putHeader(out[start:], codec)
	return out, nil
}

func (b *Builder) putHeader(dst Batch, codec Codec) {
	be := binary.BigEndian
	dst.SetBaseOffset(0)
	be.PutUint32(dst[LengthAt:], uint32(len(dst)-LengthOverhead))
	dst.SetLeaderEpoch(-1)
	dst[MagicAt] = Magic
	be.PutUint16(dst[AttributesAt:], uint16(b.attributes|int16(codec)))
	be.PutUint32(dst[LastOffsetDeltaAt:], uint32(b.count-1))
	be.PutUint64(dst[BaseTimestampAt:], uint64(b.baseTimestamp))
	be.PutUint64(dst[MaxTimestampAt:], uint64(b.maxTimestamp))
	be.PutUint64(dst[ProducerIDAt:], uint64(b.producerID))
	be.PutUint16(dst[ProducerEpochAt:], uint16(b.producerEpoch))
	be.PutUint32(dst[BaseSequenceAt:], uint32(b.baseSequence))
	be.PutUint32(dst[CountAt:], uint32(b.count))
	dst.updateCRC()
}

func fieldSize(p []byte) int {
	if p == nil {
		return 1
	}
	return varintSize(int64(len(p))) + len(p)
}

func appendField(dst, p []byte) []byte {
	if p == nil {
		return appendVarint(dst, -1)
	}
	return append(appendVarint(dst, int64(len(p))), p...)
}
