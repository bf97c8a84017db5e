package record

import (
	"fmt"
	"iter"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Record is one record of a batch. Its byte slices are views that live as long as the iteration that gave them says.
type Record struct {
	// Attributes are unused so far: 0.
	Attributes int8
	// TimestampDelta is in ms from the batch's base timestamp; see [Batch.Timestamp].
	TimestampDelta int64
	// OffsetDelta is from the batch's base offset.
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

// Headers ranges over the record's headers in order. The record's iteration has checked that they are well-formed.
func (r Record) Headers() iter.Seq[Header] {
	return func(yield func(Header) bool) {
		b, at := r.RawHeaders, 0
		for range r.HeaderCount {
			var h Header
			h.Key, at = field(b, at)
			h.Value, at = field(b, at)
			if at < 0 || !yield(h) {
				return
			}
		}
	}
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

// frame is where the parts of one encoded record lie. A length of -1 is null.
type frame struct {
	timestampDelta     int64
	offsetDelta        int
	keyAt, keyLen      int
	valueAt, valueLen  int
	headersAt, headers int
	bodyAt, end        int
}

// parse finds the record that begins at b[at]. A fault is told by text, empty when there is none, so that the hot path
// formats nothing.
func parse(b []byte, at int) (f frame, fault string) {
	length, at := varint(b, at)
	if at < 0 {
		return f, "its length is cut short or too long"
	}
	if length < minRecordBody || length > len(b)-at {
		return f, "its length does not fit the batch"
	}
	f.bodyAt, f.end = at, at+length
	b = b[:f.end]
	f.timestampDelta, at = varlong(b, at+1)
	f.offsetDelta, at = varint(b, at)
	f.keyLen, at = varint(b, at)
	if at < 0 {
		return f, "its fields are cut short or out of range"
	}
	f.keyAt = at
	if at = skip(b, at, f.keyLen); at < 0 {
		return f, "its key does not fit"
	}
	f.valueLen, at = varint(b, at)
	f.valueAt = at
	if at = skip(b, at, f.valueLen); at < 0 {
		return f, "its value does not fit"
	}
	f.headers, at = varint(b, at)
	f.headersAt = at
	if at < 0 || f.headers < 0 || f.headers > f.end-at {
		return f, "its header count is out of range"
	}
	for range f.headers {
		n, next := varint(b, at)
		if next < 0 || n < 0 {
			return f, "a header key has no length"
		}
		if at = skip(b, next, n); at < 0 {
			return f, "a header key does not fit"
		}
		n, next = varint(b, at)
		if at = skip(b, next, n); at < 0 {
			return f, "a header value does not fit"
		}
	}
	if at != f.end {
		return f, "its length is not that of its fields"
	}
	return f, ""
}

// minRecordBody is the shortest record after its length: attributes, two deltas, null key, null value, no headers.
const minRecordBody = 6

func (f *frame) record(b []byte) Record {
	r := Record{
		Attributes:     int8(b[f.bodyAt]),
		TimestampDelta: f.timestampDelta,
		OffsetDelta:    int32(f.offsetDelta),
		RawHeaders:     b[f.headersAt:f.end:f.end],
		HeaderCount:    int32(f.headers),
	}
	if f.keyLen >= 0 {
		r.Key = b[f.keyAt : f.keyAt+f.keyLen : f.keyAt+f.keyLen]
	}
	if f.valueLen >= 0 {
		r.Value = b[f.valueAt : f.valueAt+f.valueLen : f.valueAt+f.valueLen]
	}
	return r
}

func invalid(index int, fault string) error {
	return fmt.Errorf("record %d of the batch: %s: %w", index, fault, kerr.InvalidRecord)
}
