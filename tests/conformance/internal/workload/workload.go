// Package workload defines the records that every client of the conformance suite writes and the digest that every
// reader computes. Each driver, in whatever language, implements the same definition:
//
// PRNG: xorshift32 over an unsigned 32-bit state s: s ^= s<<13; s ^= s>>17; s ^= s<<5; the new s is the draw.
//
// Pool: PoolSize bytes. With s = 2463534242, append words[draw & 31] until PoolSize is reached, and cut.
//
// Record i (from 0): s = (i+1) * 2654435761 mod 2^32; draws r1…r6 in order.
//
//	timestamp  1700000000000 + i
//	partition  i mod partitions, so its offset is i / partitions
//	key        null if i%10 = 3, empty if i%10 = 7, else "key-" and r1%1000 in decimal
//	value      null if i%20 = 5 or i%30 = 13; empty if i%20 = 11; BigValueSize bytes of the pool from r2%200000
//	           if i%12500 = 2500; else 1 + r3%600 bytes of the pool from r2%1000000
//	headers    r4%4 of them; header j has the key "h"+j, but the third of three is called "h1" again; with
//	           m = (r5>>(3j)) & 7 its value is null if m = 0, empty if m = 1, else 1 + (r5>>(8+j))%40 bytes of the
//	           pool from (r6 + 37j mod 2^32) % 1000000
//
// Digest of a partition: SHA-256 over its records in offset order, each as big-endian int64 offset, int64 timestamp,
// key, value, int32 header count, and each header's key and value, where bytes are an int32 length (-1 for null) and
// the bytes themselves.
package workload

import "strconv"

const (
	// PoolSize is the length in bytes of the pool that values are cut from.
	PoolSize = 1_200_000
	// BigValueSize is the length in bytes of the few large values: nearly the largest that default limits allow.
	BigValueSize = 1_000_000
	// BaseTimestampMs is the timestamp of record 0, in milliseconds; record i is i later.
	BaseTimestampMs = 1_700_000_000_000

	bigValueEvery = 12_500
	bigValueAt    = 2_500
)

// words are what the pool is made of: text that every codec can compress, and bytes that text handling would break.
var words = [32]string{
	"the ", "quick ", "brown ", "fox ", "jumps ", "over ", "lazy ", "dog ",
	"stream", "record", "offset", "leader", "replica", "broker", "topic", "segment",
	"\x00", "\xff\xfe", "\n", "\r\n", "\t", "\"", "\\", "é",
	"日本", "\x00\x00\x00\x00", "0123456789", "{\"a\":1}", ",", "=", "\x7f\x80", "\xf0\x9f\x98\x80",
}

// Header is one record header. A nil Value is a null value.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record of the workload. A nil Key or Value is null; an empty one is not nil.
type Record struct {
	Partition   int32
	Offset      int64
	TimestampMs int64
	Key         []byte
	Value       []byte
	Headers     []Header
}

// Generator makes the records of the workload. It is safe for concurrent use; values share memory and must not be
// changed.
type Generator struct {
	pool  []byte
	shape Shape
}

// NewGenerator returns a generator of records reduced to what shape can express.
func NewGenerator(shape Shape) *Generator {
	pool := make([]byte, 0, PoolSize+16)
	for s := xorshift(2463534242); len(pool) < PoolSize; {
		pool = append(pool, words[s.next()&31]...)
	}
	return &Generator{pool: pool[:PoolSize:PoolSize], shape: shape}
}

// Record returns record i of a topic with the given number of partitions.
func (g *Generator) Record(i, partitions int) Record {
	s := xorshift(uint32(i+1) * 2654435761)
	r1, r2, r3, r4, r5, r6 := s.next(), s.next(), s.next(), s.next(), s.next(), s.next()
	r := Record{
		Partition:   int32(i % partitions),
		Offset:      int64(i / partitions),
		TimestampMs: BaseTimestampMs + int64(i),
		Key:         key(i, r1),
		Value:       g.value(i, r2, r3),
		Headers:     g.headers(r4, r5, r6),
	}
	return g.shape.reduce(r)
}

func key(i int, r1 uint32) []byte {
	switch i % 10 {
	case 3:
		return nil
	case 7:
		return []byte{}
	}
	return strconv.AppendUint([]byte("key-"), uint64(r1%1000), 10)
}

func (g *Generator) value(i int, r2, r3 uint32) []byte {
	switch {
	case i%20 == 5 || i%30 == 13:
		return nil
	case i%20 == 11:
		return []byte{}
	case i%bigValueEvery == bigValueAt:
		return g.cut(r2%200_000, BigValueSize)
	}
	return g.cut(r2%1_000_000, 1+r3%600)
}

func (g *Generator) headers(r4, r5, r6 uint32) []Header {
	headers := make([]Header, r4%4)
	for j := range uint32(len(headers)) {
		h := &headers[j]
		h.Key = "h" + strconv.Itoa(int(j))
		if len(headers) == 3 && j == 2 {
			h.Key = "h1"
		}
		switch (r5 >> (3 * j)) & 7 {
		case 0:
		case 1:
			h.Value = []byte{}
		default:
			h.Value = g.cut((r6+37*j)%1_000_000, 1+(r5>>(8+j))%40)
		}
	}
	return headers
}

func (g *Generator) cut(from, size uint32) []byte {
	return g.pool[from : from+size : from+size]
}

type xorshift uint32

func (s *xorshift) next() uint32 {
	*s ^= *s << 13
	*s ^= *s >> 17
	*s ^= *s << 5
	return uint32(*s)
}
