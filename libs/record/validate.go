package record

import (
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
)

// DefaultMaxDecompressedBytes bounds what one batch's records may decompress to where the caller names no bound.
const DefaultMaxDecompressedBytes = 256 << 20

// ValidateOptions are what the topic demands of a batch.
type ValidateOptions struct {
	// MaxBytes bounds the whole batch as sent (Kafka config max.message.bytes); 0 for no bound.
	MaxBytes int
	// MaxDecompressedBytes bounds its records once decompressed; 0 for DefaultMaxDecompressedBytes.
	MaxDecompressedBytes int
	// Strict walks the records of compressed batches too, as Apache Kafka does. Without it their header is believed.
	Strict bool
	// AllowControl is for batches of coordinators, which may hold markers and need no base offset of 0.
	AllowControl bool
	// RequireKeys refuses records without a key, as compacted topics do.
	RequireKeys bool
	// MinTimestampMs and MaxTimestampMs are the timestamps accepted of records that have one (Kafka configs
	// message.timestamp.before.max.ms and .after.max.ms around the current time); both 0 for any.
	MinTimestampMs, MaxTimestampMs int64
}

// Summary is what a walk over a valid batch found.
type Summary struct {
	// MaxTimestampMs is the true maximum of the records' timestamps, whatever the header says; NoTimestamp when none
	// has one.
	MaxTimestampMs int64
	// MaxTimestampDelta is the offset delta of the first record that has it.
	MaxTimestampDelta int32
	// Count is the number of records.
	Count int32
}

// RecordError is what is wrong with one record of a batch (field record_errors of a produce response, KIP-467).
// It wraps kerr.InvalidRecord or kerr.InvalidTimestamp.
type RecordError struct {
	// BatchIndex is the record's position in its batch, from 0.
	BatchIndex int32
	Message    string
	code       *kerr.Error
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("record %d: %s: %v", e.BatchIndex, e.Message, e.code)
}

// Unwrap returns the Kafka error.
func (e *RecordError) Unwrap() error { return e.code }

// Validate checks a client's batch as a partition leader must before it appends it: size, CRC, header fields that have
// to agree with each other, and every record. It does not change the batch: a CreateTime topic gets its header right
// with SetMaxTimestamp(CreateTime, Summary.MaxTimestampMs).
//
// Errors wrap kerr.MessageTooLarge, CorruptMessage, InvalidRecord, InvalidTimestamp or UnsupportedCompressionType;
// those of single records are a [*RecordError].
func Validate(b Batch, o ValidateOptions) (Summary, error) {
	if o.MaxBytes > 0 && len(b) > o.MaxBytes {
		return Summary{}, fmt.Errorf("batch of %d bytes exceeds %d: %w", len(b), o.MaxBytes, kerr.MessageTooLarge)
	}
	if err := b.CheckCRC(); err != nil {
		return Summary{}, err
	}
	if err := b.checkHeader(o.AllowControl); err != nil {
		return Summary{}, err
	}
	if b.Codec() != None {
		return Summary{}, fmt.Errorf("codec %v: %w", b.Codec(), kerr.UnsupportedCompressionType)
	}
	return b.walk(o)
}

func (b Batch) checkHeader(allowControl bool) error {
	count, last := b.Count(), b.LastOffsetDelta()
	fault := ""
	switch {
	case count <= 0:
		fault = "declares no records"
	case last != count-1:
		fault = "has offsets that do not agree with its count of records"
	case b.IsControl() && !allowControl:
		fault = "is a control batch, which clients may not write"
	case b.BaseOffset() != 0 && !allowControl:
		fault = "has a base offset other than 0"
	case b.ProducerID() < NoProducerID:
		fault = "has a negative producer id"
	case b.ProducerID() >= 0 && b.ProducerEpoch() < 0:
		fault = "has a producer id without an epoch"
	case b.ProducerID() >= 0 && b.BaseSequence() < 0 && !b.IsControl():
		fault = "has a producer id without a sequence number"
	case b.IsTransactional() && b.ProducerID() < 0:
		fault = "is transactional without a producer id"
	}
	if fault != "" {
		return fmt.Errorf("batch of %d records, last offset delta %d, %s: %w", count, last, fault, kerr.InvalidRecord)
	}
	if b.TimestampType() == LogAppendTime && !allowControl {
		return fmt.Errorf("batch has LogAppendTime, which only the log may set: %w", kerr.InvalidTimestamp)
	}
	return nil
}

func (b Batch) walk(o ValidateOptions) (Summary, error) {
	records, base, count := b.records(), b.BaseTimestamp(), int(b.Count())
	minMs, maxMs := o.MinTimestampMs, o.MaxTimestampMs
	if minMs == 0 && maxMs == 0 {
		minMs, maxMs = math.MinInt64, math.MaxInt64
	}
	s := Summary{MaxTimestampMs: NoTimestamp, Count: b.Count()}
	at := 0
	for i := range count {
		f, fault := parse(records, at)
		if fault != "" {
			return s, invalid(i, fault)
		}
		if f.offsetDelta != i {
			return s, invalid(i, "its offset delta is out of order")
		}
		if f.keyLen < 0 && o.RequireKeys {
			return s, &RecordError{int32(i), "a compacted topic needs a key", kerr.InvalidRecord}
		}
		ms := base + f.timestampDelta
		if ms != NoTimestamp && (ms < minMs || ms > maxMs) {
			return s, &RecordError{int32(i), fmt.Sprintf("timestamp %d is not within [%d, %d]", ms, minMs, maxMs), kerr.InvalidTimestamp}
		}
		if ms > s.MaxTimestampMs {
			s.MaxTimestampMs, s.MaxTimestampDelta = ms, int32(i)
		}
		at = f.end
	}
	if at != len(records) {
		return s, fmt.Errorf("%d bytes follow the last of %d records: %w", len(records)-at, count, kerr.InvalidRecord)
	}
	return s, nil
}
