package record

import (
	"encoding/binary"
	"iter"
)

// Record is one record of a batch. Its byte slices are views: see [Batch.Records] for how long they live.
type Record struct {
	// Attributes are unused so far: 0.
	Attributes int8
	// TimestampDelta is in ms from the batch's base timestamp; see [Batch.Timestamp].
	TimestampDelta int64
	// OffsetDelta is from the batch's base offset; see [Batch.Offset].
	OffsetDelta int32
	// Key and Value are nil when null.
	Key, Value []byte
	// RawHeaders are HeaderCount headers as stored; see [Record.Headers].
	RawHeaders  []byte
	HeaderCount int32
}

// Header is one record header (KIP-82). Value is nil when null.
type Header struct {
	Key, Value []byte
}

// Headers ranges over the record's headers in order. They are known to be well-formed, since the iteration that gave the
// record has passed over them.
func (r Record) Headers() iter.Seq[Header] {
	return func(yield func(Header) bool) {
		b := r.RawHeaders
		for range r.HeaderCount {
			var h Header
			h.Key, b = cutField(b)
			h.Value, b = cutField(b)
			if !yield(h) {
				return
			}
		}
	}
}

func cutField(b []byte) (field, rest []byte) {
	n, size := binary.Varint(b)
	if b = b[size:]; n < 0 {
		return nil, b
	}
	return b[:n:n], b[n:]
}

// Offset is the absolute offset of one of b's records.
func (b Batch) Offset(r Record) int64 { return b.BaseOffset() + int64(r.OffsetDelta) }

// Timestamp is the timestamp of one of b's records in ms since 1970, or NoTimestamp.
func (b Batch) Timestamp(r Record) int64 {
	if b.TimestampType() == LogAppendTime {
		return b.MaxTimestamp()
	}
	return b.BaseTimestamp() + r.TimestampDelta
}

// Records ranges over the batch's records, decompressing them as it goes; a broken batch ends it with an error, which
// wraps kerr.InvalidRecord, UnsupportedCompressionType, or MessageTooLarge when they decompress to more than maxBytes (0 for
// DefaultMaxDecompressedBytes). The memory taken is that of the greatest record, not of the batch.
//
// The slices of a record point into the batch, or live only until the next step when the batch is compressed.
// Neither CRC nor offsets are checked: that is for Validate and CheckCRC.
func (b Batch) Records(maxBytes int) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if err := b.Codec().check(); err != nil {
			yield(Record{}, err)
			return
		}
		s := openStream(b, maxBytes)
		defer s.close()
		s.keep = true
		for i := range int(b.Count()) {
			f := s.next()
			if s.failed() {
				yield(Record{}, s.problem(i))
				return
			}
			if !yield(s.record(&f), nil) {
				return
			}
		}
		if !s.ended() || s.err != nil {
			s.fail("is followed by bytes beyond the declared count")
			yield(Record{}, s.problem(int(b.Count())-1))
		}
	}
}

// OffsetForTime is the first record, by offset and from the offset on, with a timestamp of at least ms: its
// offset and its own timestamp, which need not rise within a batch. Found is false when there is none.
func (b Batch) OffsetForTime(ms, from int64) (offset, timestampMs int64, found bool, err error) {
	for r, err := range b.Records(0) {
		if err != nil {
			return 0, 0, false, err
		}
		if o, t := b.Offset(r), b.Timestamp(r); o >= from && t >= ms {
			return o, t, true, nil
		}
	}
	return 0, 0, false, nil
}
