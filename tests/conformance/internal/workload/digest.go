package workload

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
)

// Shape says what a client cannot express or tell apart. The zero value is a client that can do everything.
type Shape struct {
	// NoAllNull: a record of null key and null value is written with an empty value.
	NoAllNull bool
	// NoHeaders: headers are not written or not seen.
	NoHeaders bool
	// NoTimestamps: the client cannot set the timestamp; it is digested as 0.
	NoTimestamps bool
	// EmptyIsNull: empty keys and values are written as null, or read without a difference.
	EmptyIsNull bool
	// NullIsEmpty: null keys and values are read as empty.
	NullIsEmpty bool
	// EmptyHeaderIsNull: empty header values are written as null, or read without a difference.
	EmptyHeaderIsNull bool
	// NullHeaderIsEmpty: null header values are written as empty ones.
	NullHeaderIsEmpty bool
}

func (s Shape) reduce(r Record) Record {
	if s.NoTimestamps {
		r.TimestampMs = 0
	}
	if s.NoAllNull && r.Key == nil && r.Value == nil {
		r.Value = []byte{}
	}
	r.Key, r.Value = blur(r.Key, s.EmptyIsNull, s.NullIsEmpty), blur(r.Value, s.EmptyIsNull, s.NullIsEmpty)
	if s.NoHeaders {
		r.Headers = nil
		return r
	}
	for i := range r.Headers {
		h := &r.Headers[i]
		h.Value = blur(h.Value, s.EmptyHeaderIsNull, s.NullHeaderIsEmpty)
	}
	return r
}

func blur(b []byte, emptyIsNull, nullIsEmpty bool) []byte {
	if emptyIsNull && len(b) == 0 {
		return nil
	}
	if nullIsEmpty && b == nil {
		return []byte{}
	}
	return b
}

// PartitionDigest is what one reader saw of one partition.
type PartitionDigest struct {
	Records int
	SHA256  string
}

// Digest accumulates the records of one topic as a reader sees them.
type Digest struct {
	shape Shape
	parts []partitionState
	total int
	buf   []byte
}

type partitionState struct {
	next    int64
	records int
	hash    hash.Hash
}

// NewDigest returns the digest of an empty topic, blind to whatever shape cannot tell apart.
func NewDigest(partitions int, shape Shape) *Digest {
	d := &Digest{shape: shape, parts: make([]partitionState, partitions)}
	for p := range d.parts {
		d.parts[p].hash = sha256.New()
	}
	return d
}

// Add takes the next record of its partition. It returns an error when the record's offset does not follow the one
// before it, naming both.
func (d *Digest) Add(r Record) error {
	if int(r.Partition) >= len(d.parts) || r.Partition < 0 {
		return fmt.Errorf("record for partition %d of %d", r.Partition, len(d.parts))
	}
	p := &d.parts[r.Partition]
	if r.Offset != p.next {
		return fmt.Errorf("partition %d: offset %d came where %d was due", r.Partition, r.Offset, p.next)
	}
	p.next++
	p.records++
	d.total++
	d.buf = appendRecord(d.buf[:0], d.shape.reduce(r))
	p.hash.Write(d.buf)
	return nil
}

// Records returns how many records were added.
func (d *Digest) Records() int { return d.total }

// Partitions returns the digest of every partition.
func (d *Digest) Partitions() []PartitionDigest {
	out := make([]PartitionDigest, len(d.parts))
	for i, p := range d.parts {
		out[i] = PartitionDigest{Records: p.records, SHA256: hex.EncodeToString(p.hash.Sum(nil))}
	}
	return out
}

// Expect returns the digests of the first n records of the workload, as written by a client of shape writer and read
// by one of shape reader.
func Expect(n, partitions int, writer, reader Shape) []PartitionDigest {
	g, d := NewGenerator(writer), NewDigest(partitions, reader)
	for i := range n {
		if err := d.Add(g.Record(i, partitions)); err != nil {
			panic(err) // the generator's offsets are contiguous by construction
		}
	}
	return d.Partitions()
}

func appendRecord(b []byte, r Record) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(r.Offset))
	b = binary.BigEndian.AppendUint64(b, uint64(r.TimestampMs))
	b = appendBytes(b, r.Key)
	b = appendBytes(b, r.Value)
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Headers)))
	for _, h := range r.Headers {
		b = appendBytes(b, []byte(h.Key))
		b = appendBytes(b, h.Value)
	}
	return b
}

func appendBytes(b, v []byte) []byte {
	if v == nil {
		return binary.BigEndian.AppendUint32(b, 0xffffffff)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(v)))
	return append(b, v...)
}
