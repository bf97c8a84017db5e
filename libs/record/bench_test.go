package record

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"
	"time"
)

// benchBatch is 64 KiB of JSON-like records of a size, as a producer of batch.size=65536 sends them.
func benchBatch(b *testing.B, codec Codec, size int, headers ...Header) Batch {
	r := rand.New(rand.NewPCG(7, uint64(size)))
	builder := NewBuilder()
	for builder.Size() < 64<<10 {
		value := fmt.Appendf(nil, `{"id":%d,"name":"customer-%d","note":"`, builder.Len(), r.IntN(1000))
		for len(value) < size {
			value = fmt.Appendf(value, "%x ", r.IntN(1<<16))
		}
		builder.Append(1700000000000+int64(builder.Len()/4), nil, value[:size], headers...)
	}
	batch, err := builder.Build(codec, 0)
	if err != nil {
		b.Fatal(err)
	}
	return batch
}

// reportFloor says how many times the cost of a CRC over the same bytes an operation took.
func reportFloor(b *testing.B, batch Batch) {
	perOp := float64(b.Elapsed()) / float64(b.N)
	best := time.Duration(1 << 62)
	for range 50 {
		start := time.Now()
		for range 20 {
			crc32.Checksum(batch[AttributesAt:], castagnoli)
		}
		best = min(best, time.Since(start)/20)
	}
	b.ReportMetric(perOp/float64(best), "×CRC")
}

func BenchmarkValidate(b *testing.B) {
	for _, size := range []int{100, 1024} {
		for _, codec := range codecs {
			b.Run(fmt.Sprintf("%v/%dB", codec, size), func(b *testing.B) {
				batch, plain := benchBatch(b, codec, size), benchBatch(b, None, size)
				b.ReportAllocs()
				b.SetBytes(int64(len(plain)))
				for b.Loop() {
					if _, err := Validate(batch, strict); err != nil {
						b.Fatal(err)
					}
				}
				reportFloor(b, plain)
			})
		}
	}
}

// With headers no record takes the short way.
func BenchmarkValidateHeaders(b *testing.B) {
	batch := benchBatch(b, None, 100, Header{[]byte("traceparent"), make([]byte, 55)})
	b.ReportAllocs()
	b.SetBytes(int64(len(batch)))
	for b.Loop() {
		if _, err := Validate(batch, strict); err != nil {
			b.Fatal(err)
		}
	}
	reportFloor(b, batch)
}

func BenchmarkRecords(b *testing.B) {
	for _, codec := range []Codec{None, Lz4} {
		b.Run(codec.String(), func(b *testing.B) {
			batch, plain := benchBatch(b, codec, 100), benchBatch(b, None, 100)
			b.ReportAllocs()
			b.SetBytes(int64(len(plain)))
			for b.Loop() {
				for _, err := range batch.Records(0) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			reportFloor(b, plain)
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, codec := range codecs {
		b.Run(codec.String(), func(b *testing.B) {
			builder := NewBuilder()
			var dst []byte
			source := benchBatch(b, None, 100)
			b.ReportAllocs()
			b.SetBytes(int64(len(source)))
			for b.Loop() {
				builder.Reset()
				for r := range source.Records(0) {
					builder.Append(source.Timestamp(r), r.Key, r.Value)
				}
				var err error
				if dst, err = builder.AppendTo(dst[:0], codec, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
