package record

import (
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

const (
	gzipMaxLevel = 9
	lz4MaxLevel  = 9
	// lz4FastLevel is the level at which Kafka takes the fast compressor; at every other it takes the high-compression one.
	lz4FastLevel = 9
)

var (
	gzipEncoders [gzipMaxLevel + 1]sync.Pool
	lz4Encoders  [lz4MaxLevel + 1]sync.Pool
	zstdEncoders = newZstdEncoders()
)

// Compress appends src to dst, compressed. The level is that of Kafka's config compression.<codec>.level: gzip 1 to 9, lz4
// 1 to 17, zstd -131072 to 22, and 0 for the codec's default; one out of range counts as the nearest. Snappy has none
// and is written in Java's framed form. The error is that of an unknown codec.
func Compress(dst, src []byte, codec Codec, level int) ([]byte, error) {
	if err := codec.check(); err != nil {
		return dst, err
	}
	switch codec {
	case Gzip:
		level = min(max(level, 0), gzipMaxLevel)
		return appendEncoded(dst, src, &gzipEncoders[level], func() (encoderWriter, error) { return newGzip(level) })
	case Snappy:
		return appendSnappy(dst, src), nil
	case Lz4:
		if level == lz4FastLevel {
			level = 0
		}
		level = min(max(level, 0), lz4MaxLevel)
		return appendEncoded(dst, src, &lz4Encoders[level], func() (encoderWriter, error) { return newLz4(level) })
	case Zstd:
		return appendZstd(dst, src, level)
	}
	return append(dst, src...), nil
}

type encoderWriter interface {
	io.WriteCloser
	Reset(io.Writer)
}

// encoder is a compressor and the slice that it appends to.
type encoder struct {
	out []byte
	w   encoderWriter
}

func (e *encoder) Write(p []byte) (int, error) {
	e.out = append(e.out, p...)
	return len(p), nil
}

func appendEncoded(dst, src []byte, pool *sync.Pool, make func() (encoderWriter, error)) ([]byte, error) {
	e, _ := pool.Get().(*encoder)
	if e == nil {
		w, err := make()
		if err != nil {
			return dst, err
		}
		e = &encoder{w: w}
	}
	e.out = dst
	e.w.Reset(e)
	if _, err := e.w.Write(src); err != nil {
		return dst, err
	}
	if err := e.w.Close(); err != nil {
		return dst, err
	}
	dst, e.out = e.out, nil
	pool.Put(e)
	return dst, nil
}

func newGzip(level int) (encoderWriter, error) {
	if level == 0 {
		level = gzip.DefaultCompression
	}
	return gzip.NewWriterLevel(nil, level)
}

// newLz4 writes frames as Java does: independent blocks of 64 KiB, no checksum but the header's.
func newLz4(level int) (encoderWriter, error) {
	effort := lz4.Fast
	if level > 0 {
		effort = lz4.Level1 << (level - 1)
	}
	w := lz4.NewWriter(nil)
	return w, w.Apply(lz4.CompressionLevelOption(effort), lz4.BlockSizeOption(lz4.Block64Kb),
		lz4.ChecksumOption(false), lz4.ConcurrencyOption(1))
}

// newZstdEncoders returns an encoder for each effort, made at its first use: they are great, and shared by all.
func newZstdEncoders() (encoders [zstd.SpeedBestCompression + 1]func() (*zstd.Encoder, error)) {
	for effort := range encoders {
		encoders[effort] = sync.OnceValues(func() (*zstd.Encoder, error) {
			return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.EncoderLevel(effort)), zstd.WithEncoderCRC(false),
				zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
		})
	}
	return encoders
}

func appendZstd(dst, src []byte, level int) ([]byte, error) {
	effort := zstd.SpeedDefault
	if level != 0 {
		effort = zstd.EncoderLevelFromZstd(level)
	}
	enc, err := zstdEncoders[effort]()
	if err != nil {
		return dst, err
	}
	return enc.EncodeAll(src, dst), nil
}
