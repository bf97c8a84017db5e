package crc32c

import (
	"math/rand/v2"
	"testing"
)

func random(n int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestSumOfAnyRangeIsItsChecksum(t *testing.T) {
	buf := random(5*ChunkBytes + 1234)
	r := rand.New(rand.NewPCG(2, 3))
	ends := []int{0, 1, ChunkBytes - 1, ChunkBytes, ChunkBytes + 1, 3 * ChunkBytes, 5 * ChunkBytes, len(buf) - 1, len(buf)}
	for range 40 {
		ends = append(ends, r.IntN(len(buf)+1))
	}
	var c Chunks
	for have := 0; ; have = min(have+1+r.IntN(2*ChunkBytes), len(buf)) {
		c.Extend(buf[:have])
		if have == len(buf) {
			break
		}
	}
	for _, from := range ends {
		for _, to := range ends {
			if from > to {
				continue
			}
			if got, want := c.Sum(buf, from, to), Checksum(buf[from:to]); got != want {
				t.Fatalf("Sum(%d, %d) = %08x, want %08x", from, to, got, want)
			}
		}
	}
}

func TestSumSeesWhatArrivedOnly(t *testing.T) {
	buf := random(4 * ChunkBytes)
	var c Chunks
	c.Extend(buf[:2*ChunkBytes+5])
	if got, want := c.Sum(buf, 3, len(buf)), Checksum(buf[3:]); got != want {
		t.Fatalf("Sum = %08x, want %08x", got, want)
	}
}

// BenchmarkSum is what is left to do for a megabyte once its chunks are known; against it what the whole costs.
func BenchmarkSum(b *testing.B) {
	buf := random(1<<20 + 100)
	var c Chunks
	c.Extend(buf)
	b.Run("chunks", func(b *testing.B) {
		b.SetBytes(1 << 20)
		for b.Loop() {
			c.Sum(buf, 61, len(buf))
		}
	})
	b.Run("whole", func(b *testing.B) {
		b.SetBytes(1 << 20)
		for b.Loop() {
			Checksum(buf[61:])
		}
	})
}
