// Package crc32c takes the CRC-32C of bytes while they arrive.
//
// A checksum over a megabyte that was received as a whole runs at the speed of memory, since the first bytes have left the
// processor's caches by the time the last one is there; over 128 KiB that were just copied it runs several times as fast.
// So whoever receives takes the checksums of chunks, from which that of any range follows with little work.
package crc32c

import "hash/crc32"

// ChunkBytes is the size of a chunk: small enough for a core's own cache, large enough that chunks are few.
const ChunkBytes = 128 << 10

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum is the CRC-32C of b.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Chunks are the checksums of the chunks of one growing buffer. The zero value has none.
type Chunks struct{ sums []uint32 }

// Extend takes the checksums of the chunks that have become complete; have is all that has arrived, and begins with what it
// had at the last call.
func (c *Chunks) Extend(have []byte) {
	for {
		from := len(c.sums) * ChunkBytes
		if len(have)-from < ChunkBytes {
			return
		}
		c.sums = append(c.sums, Checksum(have[from:from+ChunkBytes]))
	}
}

// Sum is the checksum of buf[from:to], where buf is what was given to Extend. Only bytes outside of whole chunks are looked
// at.
func (c *Chunks) Sum(buf []byte, from, to int) uint32 {
	first := (from + ChunkBytes - 1) / ChunkBytes // the first whole chunk in the range
	last := min(to/ChunkBytes, len(c.sums))       // the one behind the last
	if first >= last {
		return Checksum(buf[from:to])
	}
	sum := Checksum(buf[from : first*ChunkBytes])
	for i := first; i < last; i++ {
		sum = behindChunk.times(sum) ^ c.sums[i]
	}
	return crc32.Update(sum, castagnoli, buf[last*ChunkBytes:to])
}

// matrix is a linear map of checksums over GF(2): row i is what becomes of bit i.
type matrix [32]uint32

func (m *matrix) times(v uint32) uint32 {
	var sum uint32
	for i := 0; v != 0; i, v = i+1, v>>1 {
		if v&1 != 0 {
			sum ^= m[i]
		}
	}
	return sum
}

func (m *matrix) squared() matrix {
	var s matrix
	for i, row := range m {
		s[i] = m.times(row)
	}
	return s
}

// behindChunk is what a chunk of zeros makes of the checksum in front of it. The checksum of two strings in a row is that of the
// first under this map, xor that of the second: complementing the register before and after cancels out.
var behindChunk = func() matrix {
	var m matrix // one zero bit
	m[0] = crc32.Castagnoli
	for i := 1; i < 32; i++ {
		m[i] = 1 << (i - 1)
	}
	for bits := 1; bits < 8*ChunkBytes; bits *= 2 {
		m = m.squared()
	}
	return m
}()
