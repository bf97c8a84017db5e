package record

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Builder collects records into a batch. Make one with [NewBuilder]; after Build, Reset makes it ready for the next.
type Builder struct {
	buf           []byte // header, still empty, and the records uncompressed
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
	if b.buf == nil {
		b.buf = make([]byte, HeaderSize, 512)
	}
	*b = Builder{
		buf:           b.buf[:HeaderSize],
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
	dst := appendVarint(b.buf, int64(size))
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
	b.buf = dst
	b.count++
}

// Len is the number of records so far.
func (b *Builder) Len() int { return b.count }

// Size is the size in bytes of the batch so far, uncompressed.
func (b *Builder) Size() int { return len(b.buf) }

// Build makes the batch, with base offset 0 and leader epoch -1. An uncompressed one is the builder's own memory: it lives until
// the next Append or Reset. The error is kerr.MessageTooLarge for a batch that 32-bit lengths cannot hold and
// kerr.InvalidRecord for one without records.
func (b *Builder) Build(codec Codec, level int) (Batch, error) {
	if b.count == 0 {
		return nil, fmt.Errorf("a batch needs a record: %w", kerr.InvalidRecord)
	}
	if b.count > math.MaxInt32 || len(b.buf) > math.MaxInt32 {
		return nil, fmt.Errorf("%d records of %d bytes: %w", b.count, len(b.buf), kerr.MessageTooLarge)
	}
	if codec != None {
		return nil, fmt.Errorf("codec %v: %w", codec, kerr.UnsupportedCompressionType)
	}
	batch := Batch(b.buf)
	b.putHeader(batch, codec)
	return batch, nil
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
