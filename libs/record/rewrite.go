package record

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
)

// AppendRewritten appends to dst what compaction leaves of b: the records of which keep, asked by their number, says true,
// in b's codec at a level as [Compress] takes it. Their offsets and timestamps stay, and so do the batch's first and last
// offset, its producer and its sequence numbers. With horizonMs of at least 0 that becomes the delete horizon (KIP-534).
// The errors are those of [Batch.Records] and of [Builder.AppendTo]; dst then comes back as it was.
func AppendRewritten(dst []byte, b Batch, keep func(i int) bool, horizonMs int64, level int) ([]byte, error) {
	buf := decompressed.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= maxKeptBuffer {
			decompressed.Put(buf)
		}
	}()
	base := b.BaseTimestamp()
	if horizonMs >= 0 {
		base = horizonMs
	}
	records := (*buf)[:0]
	i, kept, maxMs := 0, 0, int64(NoTimestamp)
	for r, err := range b.Records(0) {
		if err != nil {
			return dst, err
		}
		if keep(i) {
			ms := b.Timestamp(r)
			maxMs = max(maxMs, ms)
			if horizonMs >= 0 {
				r.TimestampDelta = ms - base
			}
			records = appendRecord(records, r)
			kept++
		}
		i++
	}
	*buf = records
	if kept == 0 {
		return AppendEmptied(dst, b), nil
	}
	if len(records) > math.MaxInt32-HeaderSize {
		return dst, fmt.Errorf("%d records of %d bytes: %w", kept, len(records), kerr.MessageTooLarge)
	}
	start := len(dst)
	out, err := Compress(append(dst, b[:HeaderSize]...), records, b.Codec(), level)
	if err != nil {
		return dst, err
	}
	be, batch := binary.BigEndian, Batch(out[start:])
	be.PutUint32(batch[LengthAt:], uint32(len(batch)-LengthOverhead))
	be.PutUint64(batch[BaseTimestampAt:], uint64(base))
	if horizonMs >= 0 {
		batch[AttributesAt+1] |= deleteHorizonBit
	}
	if b.TimestampType() == CreateTime {
		be.PutUint64(batch[MaxTimestampAt:], uint64(maxMs))
	}
	be.PutUint32(batch[CountAt:], uint32(kept))
	batch.updateCRC()
	return out, nil
}

// AppendEmptied appends to dst the header of b as that of a batch whose records compaction has all removed. What is left
// says which offsets were there, and what its producer had sent.
func AppendEmptied(dst []byte, b Batch) []byte {
	start := len(dst)
	dst = append(dst, b[:HeaderSize]...)
	be, batch := binary.BigEndian, Batch(dst[start:])
	be.PutUint32(batch[LengthAt:], HeaderSize-LengthOverhead)
	batch[AttributesAt+1] &^= codecMask | deleteHorizonBit
	noTimestamp := int64(NoTimestamp)
	be.PutUint64(batch[BaseTimestampAt:], uint64(noTimestamp))
	be.PutUint32(batch[CountAt:], 0)
	batch.updateCRC()
	return dst
}

// appendRecord appends r as a batch holds it.
func appendRecord(dst []byte, r Record) []byte {
	size := 1 + varintSize(r.TimestampDelta) + varintSize(int64(r.OffsetDelta)) + fieldSize(r.Key) + fieldSize(r.Value) +
		varintSize(int64(r.HeaderCount)) + len(r.RawHeaders)
	dst = appendVarint(dst, int64(size))
	dst = append(dst, byte(r.Attributes))
	dst = appendVarint(dst, r.TimestampDelta)
	dst = appendVarint(dst, int64(r.OffsetDelta))
	dst = appendField(dst, r.Key)
	dst = appendField(dst, r.Value)
	dst = appendVarint(dst, int64(r.HeaderCount))
	return append(dst, r.RawHeaders...)
}
