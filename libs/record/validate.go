package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
)

// DefaultMaxDecompressedBytes bounds what one batch's records may decompress to where the caller names no bound.
const DefaultMaxDecompressedBytes = 256 << 20

// ValidateOptions are what the topic demands of a batch.
type ValidateOptions struct {
	// MaxBytes bounds the whole batch as sent (Kafka config max.message.bytes); 0 for no bound.
	MaxBytes int
	// MaxDecompressedBytes bounds its records once decompressed; 0 for DefaultMaxDecompressedBytes. It bounds time, not
	// memory: records pass through a window of fixed size.
	MaxDecompressedBytes int
	// MaxRecordBytes bounds each record of a compressed batch, without its length (Kafka config
	// max.decompressed.message.bytes); 0 for no bound. One that claims more is not decompressed. It counts in strict
	// validation only.
	MaxRecordBytes int
	// Strict walks the records of compressed batches too, as Apache Kafka does. Without it their header is believed.
	Strict bool
	// Checksum, if there is one, is that of the batch from its attributes on, taken by the caller.
	Checksum *uint32
	// AllowControl is for batches of coordinators, which may hold markers, and need no base offset of 0 and no sequence number.
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
	// has one. Of a compressed batch that was not walked it is what the header says.
	MaxTimestampMs int64
	// MaxTimestampDelta is the offset delta of the first record that has it, or the last one's when not walked.
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

// FromProduce takes the one batch out of a partition's records in a produce request of that version (3 or later).
// The error wraps kerr.InvalidRecord when they are not exactly one batch or are of an older format, CorruptMessage as that
// of [Next] does, and UnsupportedCompressionType for zstd before version 7 (KIP-110).
func FromProduce(records []byte, version int16) (Batch, error) {
	if len(records) > MagicAt && records[MagicAt] < Magic {
		return nil, fmt.Errorf("magic %d in produce version %d: %w", int8(records[MagicAt]), version, kerr.InvalidRecord)
	}
	b, rest, err := Next(records)
	switch {
	case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("%d bytes of records hold no whole batch: %w", len(records), kerr.InvalidRecord)
	case err != nil:
		return nil, err
	case len(rest) > 0:
		return nil, fmt.Errorf("%d bytes follow the one batch of a partition: %w", len(rest), kerr.InvalidRecord)
	case b.Codec() == Zstd && version < 7:
		return nil, fmt.Errorf("zstd in produce version %d: %w", version, kerr.UnsupportedCompressionType)
	}
	return b, nil
}

// Validate checks a client's batch as a partition leader must before it appends it: size, CRC, header fields that have
// to agree with each other, and every record. It does not change the batch: a CreateTime topic gets its header right
// with SetMaxTimestamp(CreateTime, Summary.MaxTimestampMs).
//
// Errors wrap kerr.MessageTooLarge, CorruptMessage, InvalidRecord, InvalidTimestamp or UnsupportedCompressionType;
// what a topic's rules forbid of one record is a [*RecordError].
func Validate(b Batch, o ValidateOptions) (Summary, error) {
	if o.MaxBytes > 0 && len(b) > o.MaxBytes {
		return Summary{}, fmt.Errorf("batch of %d bytes exceeds %d: %w", len(b), o.MaxBytes, kerr.MessageTooLarge)
	}
	if err := b.checkCRC(o.Checksum); err != nil {
		return Summary{}, err
	}
	if err := b.Codec().check(); err != nil {
		return Summary{}, err
	}
	if err := b.checkHeader(o.AllowControl); err != nil {
		return Summary{}, err
	}
	if b.Codec() != None && !o.Strict {
		return Summary{MaxTimestampMs: b.MaxTimestamp(), MaxTimestampDelta: b.LastOffsetDelta(), Count: b.Count()}, nil
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
	case b.ProducerID() >= 0 && b.BaseSequence() < 0 && !allowControl:
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

// wideWindow lets one batch at a time be decompressed with a window greater than pooled decoders have.
var wideWindow sync.Mutex

// walk checks every record. Records of the usual shape are passed over by plain, many at a time, and one of any other
// shape by the stream.
func (b Batch) walk(o ValidateOptions) (Summary, error) {
	s := openStream(b, o.MaxDecompressedBytes)
	defer s.close()
	if s.window != nil && s.window.source.wide() {
		wideWindow.Lock()
		defer wideWindow.Unlock()
	}
	c := checker{
		summary: Summary{MaxTimestampMs: NoTimestamp, Count: b.Count()},
		count:   int(b.Count()), base: b.BaseTimestamp(),
		minMs: o.MinTimestampMs, maxMs: o.MaxTimestampMs, requireKeys: o.RequireKeys,
	}
	if c.minMs == 0 && c.maxMs == 0 {
		c.minMs, c.maxMs = math.MinInt64, math.MaxInt64
	}
	if s.window != nil {
		s.maxRecordBytes = o.MaxRecordBytes
	}
	plain := s.maxRecordBytes == 0 || s.maxRecordBytes >= maxPlainBytes
	for {
		if plain {
			s.at += c.plain(s.buf[s.at:])
		}
		if c.index == c.count {
			break
		}
		f := s.next()
		if s.failed() {
			return Summary{}, s.problem(c.index)
		}
		if err := c.check(&f); err != nil {
			return Summary{}, err
		}
	}
	if !s.ended() || s.err != nil {
		s.fail("is followed by bytes beyond the declared count")
		return Summary{}, s.problem(c.count - 1)
	}
	return c.summary, nil
}

// checker holds records against what the topic demands.
type checker struct {
	summary      Summary
	index, count int   // the next record's index, and how many there are
	base         int64 // timestamp, ms
	minMs, maxMs int64
	requireKeys  bool
}

func (c *checker) check(f *frame) error {
	ms := c.base + f.timestampDelta
	switch {
	case f.offsetDelta != c.index:
		return fmt.Errorf("record %d of the batch has offset delta %d: %w", c.index, f.offsetDelta, kerr.InvalidRecord)
	case c.requireKeys && f.keyLen < 0:
		return &RecordError{int32(c.index), "a compacted topic cannot take a record without a key", kerr.InvalidRecord}
	case ms != NoTimestamp && (ms < c.minMs || ms > c.maxMs):
		return &RecordError{int32(c.index), fmt.Sprintf("timestamp %d is out of range [%d, %d]", ms, c.minMs, c.maxMs), kerr.InvalidTimestamp}
	}
	if ms > c.summary.MaxTimestampMs {
		c.summary.MaxTimestampMs, c.summary.MaxTimestampDelta = ms, int32(c.index)
	}
	c.index++
	return nil
}

// maxPlainBytes is the greatest record, without its length, that plain passes over.
const maxPlainBytes = 1<<13 - 1

// plain passes over the records at the front of b that need no second look, and returns how many bytes they take: whole
// records with the right offset, an acceptable timestamp, and no field, distance or count above what two bytes tell.
// It is check and stream.next for them, at a quarter of their cost.
func (c *checker) plain(b []byte) int {
	at, i, count, base, minMs, maxMs := 0, c.index, c.count, c.base, c.minMs, c.maxMs
	topMs, topAt := c.summary.MaxTimestampMs, c.summary.MaxTimestampDelta
	for ; i < count && at <= len(b)-8; i++ {
		size, x, n := low(binary.LittleEndian.Uint64(b[at:]))
		p := at + n
		end := p + int(size>>1)
		ts, x, n := low(x >> 8)
		p += 1 + n
		offset, _, n := low(x)
		p += n
		if uint(p) > uint(len(b)-4) {
			break
		}
		key, y, n := low(uint64(binary.LittleEndian.Uint32(b[p:])))
		p += n
		odd := size
		if key != 1 {
			odd |= key
			p += int(key >> 1)
			if uint(p) > uint(len(b)-2) {
				break
			}
			y = uint64(binary.LittleEndian.Uint16(b[p:]))
		} else if c.requireKeys {
			break
		}
		value, _, n := low(y)
		p += n
		if value != 1 {
			odd |= value
			p += int(value >> 1)
		}
		if uint(p) >= uint(len(b)) {
			break
		}
		if headers := b[p]; headers == 0 {
			p++
		} else {
			p = plainHeaders(b, p+1, headers)
		}
		ms := base + (int64(ts>>1) ^ -int64(ts&1))
		if p != end || end > len(b) || offset != uint64(i)<<1 ||
			size|ts|offset|key|value >= 1<<14 || odd&1 != 0 || ms < minMs || ms > maxMs {
			break
		}
		if ms > topMs {
			topMs, topAt = ms, int32(i)
		}
		at = end
	}
	c.index, c.summary.MaxTimestampMs, c.summary.MaxTimestampDelta = i, topMs, topAt
	return at
}

// plainHeaders passes over as many headers as the byte before b[at], a zigzag varint, says. It returns where they end, or -1
// when they need a second look.
func plainHeaders(b []byte, at int, count byte) int {
	if count&0x81 != 0 {
		return -1
	}
	for range count >> 1 {
		for null := range uint64(2) { // no null in the key, but in the value
			if uint(at) > uint(len(b)-2) {
				return -1
			}
			size, _, n := low(uint64(binary.LittleEndian.Uint16(b[at:])))
			at += n
			if size == null {
				continue
			}
			if size&1 != 0 || size >= 1<<14 {
				return -1
			}
			at += int(size >> 1)
		}
	}
	return at
}
