package record

import (
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

const (
	// zstdWindow is the greatest window of compression levels 1 to 19, and what RFC 8878 asks every decoder to support.
	zstdWindow = 8 << 20
	// zstdWideWindow is that of level 22, the greatest that Kafka's Java clients read.
	zstdWideWindow = 128 << 20
	// zstdWholeBytes is the compressed size up to which decoding at once is tried.
	zstdWholeBytes = 32 << 10
)

// zstdReader decodes small inputs at once into its caller's memory and others as a stream. Only a stream takes the
// window that a frame declares, which Java's compressor makes 2 MiB for the smallest batch.
type zstdReader struct {
	narrow, broad *zstd.Decoder // of zstdWindow and zstdWideWindow, made when needed
	src           bytes.Reader
	input         []byte // what no decoder has been given yet
	wide          bool   // the first frame's window is greater than zstdWindow
	streaming     bool
	done          bool
}

func (z *zstdReader) reset(src []byte) {
	var h zstd.Header
	*z = zstdReader{narrow: z.narrow, broad: z.broad, input: src}
	if h.Decode(src) == nil {
		z.wide = h.WindowSize > zstdWindow || h.SingleSegment && h.FrameContentSize > zstdWindow
	}
}

func (z *zstdReader) Read(p []byte) (int, error) {
	if z.done {
		return 0, io.EOF
	}
	dec, err := z.decoder()
	if err != nil {
		return 0, err
	}
	if z.streaming {
		return dec.Read(p)
	}
	if len(z.input) <= zstdWholeBytes {
		out, err := dec.DecodeAll(z.input, p[:0:len(p)])
		if err == nil {
			z.done = true
			return len(out), io.EOF
		}
		if !errors.Is(err, zstd.ErrDecoderSizeExceeded) {
			return 0, err
		}
	}
	z.src.Reset(z.input)
	z.streaming = true
	if err := dec.Reset(&z.src); err != nil {
		return 0, err
	}
	return dec.Read(p)
}

func (z *zstdReader) decoder() (*zstd.Decoder, error) {
	d, window := &z.narrow, uint64(zstdWindow)
	if z.wide {
		d, window = &z.broad, zstdWideWindow
	}
	if *d != nil {
		return *d, nil
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecodeBuffersBelow(0), zstd.WithDecoderMaxWindow(window))
	*d = dec
	return dec, err
}

// release lets go of the input and of a window too great to be kept.
func (z *zstdReader) release() {
	if z.streaming && z.wide {
		z.broad = nil
	}
	if z.streaming && z.narrow != nil {
		_ = z.narrow.Reset(nil)
	}
	*z = zstdReader{narrow: z.narrow, broad: z.broad}
}
