package log

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/cauce-stream/cauce/libs/record"
)

// bytesOf is a batch of about size bytes in records of 100.
func bytesOf(t testing.TB, size int) record.Batch {
	size = max(size, record.HeaderSize+1)
	return buildBatch(t, record.None, func(b *record.Builder) {
		value := make([]byte, 93)
		for i := range value {
			value[i] = byte(i * 7)
		}
		for b.Size() < size {
			b.Append(nowMs, nil, value)
		}
	})
}

func benchLog(b *testing.B) *Log {
	return openNew(b, func(o *Options) { o.Config.SegmentBytes = 256 << 20; o.Config.RetentionBytes = 512 << 20 })
}

// keepSmall stops a benchmark from filling the disk.
func keepSmall(b *testing.B, l *Log) {
	b.StopTimer()
	l.SetHighWatermark(l.EndOffset())
	if _, err := l.Retain(nowMs); err != nil {
		b.Fatal(err)
	}
	if err := l.Purge(nowMs + 1<<40); err != nil {
		b.Fatal(err)
	}
	b.StartTimer()
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{100, 1 << 10, 16 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			l := benchLog(b)
			batch := bytesOf(b, size-200)
			b.SetBytes(int64(len(batch)))
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				batch.SetBaseOffset(0)
				if _, err := l.Append(batch, 0, nowMs); err != nil {
					b.Fatal(err)
				}
				if n += len(batch); n > 256<<20 {
					keepSmall(b, l)
					n = 0
				}
			}
		})
	}
}

// BenchmarkPwrite is the floor of BenchmarkAppend: the same bytes written to the same kind of file, and their CRC.
func BenchmarkPwrite(b *testing.B) {
	for _, size := range []int{100, 1 << 10, 16 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			l := benchLog(b)
			batch := bytesOf(b, size-200)
			b.SetBytes(int64(len(batch)))
			h, err := l.active().file.acquire()
			if err != nil {
				b.Fatal(err)
			}
			defer h.release()
			pos := int64(0)
			for b.Loop() {
				if err := batch.CheckCRC(); err != nil {
					b.Fatal(err)
				}
				if _, err := h.WriteAt(batch, pos); err != nil {
					b.Fatal(err)
				}
				if pos += int64(len(batch)); pos > 256<<20 {
					b.StopTimer()
					if err := h.Truncate(0); err != nil {
						b.Fatal(err)
					}
					pos = 0
					b.StartTimer()
				}
			}
		})
	}
}

func BenchmarkAppendParallel(b *testing.B) {
	l := benchLog(b)
	b.SetBytes(1 << 10)
	b.ReportAllocs()
	b.SetParallelism(4) // 8 writers on two CPUs
	proto := bytesOf(b, 1<<10-200)
	b.RunParallel(func(p *testing.PB) {
		batch := append(record.Batch(nil), proto...)
		for p.Next() {
			batch.SetBaseOffset(0)
			if _, err := l.Append(batch, 0, nowMs); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	l := benchLog(b)
	for range 20000 {
		mustAppend(b, l, bytesOf(b, 800))
	}
	l.SetHighWatermark(l.EndOffset())
	end := l.EndOffset()
	for _, at := range []struct {
		name   string
		offset int64
	}{{"tail", end - 8}, {"recent", end - 1000}, {"old", end / 3}} {
		b.Run(at.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s, err := l.Read(at.offset, 1<<20, HighWatermark, true)
				if err != nil {
					b.Fatal(err)
				}
				s.Release()
			}
		})
	}
}

func BenchmarkIndexLookup(b *testing.B) {
	s := newSegment(nil, b.TempDir(), 0, nowMs)
	c := DefaultConfig()
	if err := s.create(&c); err != nil {
		b.Fatal(err)
	}
	const n = 200_000
	for i := range int64(n) {
		if err := s.offsets.add(10*i, 4096*i); err != nil {
			b.Fatal(err)
		}
	}
	for _, at := range []int64{n - 10, n / 3} {
		b.Run(fmt.Sprintf("entry=%d", at), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if pos, err := s.offsets.lookup(10*at + 5); err != nil || pos != 4096*at {
					b.Fatal(pos, err)
				}
			}
		})
	}
}

func BenchmarkOpenClean(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "topic-0")
	o := testOptions()
	l := openAt(b, dir, o)
	for range 100 {
		mustAppend(b, l, bytesOf(b, 1000))
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	o.CleanShutdown, o.RecoveryPoint = true, l.RecoveryPoint()
	b.ReportAllocs()
	for b.Loop() {
		l, err := Open(dir, o)
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCompact compacts 64 MiB of records of 1 KiB, half of them superseded, in batches of 16 KiB.
func BenchmarkCompact(b *testing.B) {
	for _, codec := range []record.Codec{record.None, record.Lz4, record.Zstd} {
		b.Run(codec.String(), func(b *testing.B) {
			const records = 64 << 10
			value := make([]byte, 1000)
			rng := rand.New(rand.NewPCG(1, 2))
			for i := range value {
				value[i] = byte(rng.IntN(16))
			}
			b.SetBytes(records * 1024)
			b.ReportAllocs()
			for range b.N {
				b.StopTimer()
				l := openCompacted(b, func(c *Config) { c.SegmentBytes = 16 << 20 })
				for at := 0; at < records; at += 16 {
					mustAppend(b, l, buildBatch(b, codec, func(batch *record.Builder) {
						for i := range 16 {
							batch.Append(nowMs, fmt.Appendf(nil, "key %d", (at+i)*31%(records/2)), value)
						}
					}))
				}
				roll(b, l)
				o := compactOptions(nowMs)
				o.DedupeBytes, o.BufferBytes = 128<<20, 256<<10
				b.StartTimer()
				did, err := l.Compact(o)
				if err != nil {
					b.Fatal(err)
				}
				if did.RecordsKept != records/2 {
					b.Fatalf("%+v", did)
				}
				b.StopTimer()
				if err := l.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
