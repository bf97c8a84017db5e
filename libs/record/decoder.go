package record

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/pierrec/lz4/v4"
)

var errNoProgress = errors.New("decoder makes no progress")

// Where an lz4 frame says whether its blocks can be read one by one. Java's clients read no other frames, and Kafka refuses
// them: one such batch would stop every Java consumer of the partition.
const (
	lz4FlagsAt           = 4
	lz4IndependentBlocks = 0x20
)

var errDependentBlocks = errors.New("the blocks of the lz4 frame depend on each other")

// decoder decompresses one batch's records piece by piece, so that a batch which decompresses to gigabytes costs no
// more memory than its codec's window.
type decoder struct {
	codec Codec
	err   error // of opening, told by the first read
	src   bytes.Reader

	gzip   *gzip.Reader
	snappy snappyReader
	lz4    *lz4.Reader
	zstd   *zstdReader
}

var decoders [codecCount]sync.Pool

// openDecoder returns a decoder of a known codec other than None. It has to be closed.
func openDecoder(codec Codec, src []byte) *decoder {
	d, _ := decoders[codec].Get().(*decoder)
	if d == nil {
		d = &decoder{codec: codec}
	}
	d.src.Reset(src)
	d.err = nil
	switch codec {
	case Gzip:
		if d.gzip == nil {
			d.gzip = new(gzip.Reader)
		}
		d.err = d.gzip.Reset(&d.src)
	case Snappy:
		d.snappy.reset(src)
	case Lz4:
		if d.lz4 == nil {
			d.lz4 = lz4.NewReader(nil)
			d.err = d.lz4.Apply(lz4.ConcurrencyOption(1))
		}
		d.lz4.Reset(&d.src)
		if len(src) > lz4FlagsAt && src[lz4FlagsAt]&lz4IndependentBlocks == 0 {
			d.err = errDependentBlocks
		}
	case Zstd:
		if d.zstd == nil {
			d.zstd = new(zstdReader)
		}
		d.zstd.reset(src)
	}
	if d.err == io.EOF {
		d.err = io.ErrUnexpectedEOF
	}
	return d
}

// read fills p as far as one step of the codec does; io.EOF comes alone or with the last bytes.
func (d *decoder) read(p []byte) (n int, err error) {
	if d.err != nil {
		return 0, d.err
	}
	for range 100 {
		switch d.codec {
		case Gzip:
			n, err = d.gzip.Read(p)
		case Snappy:
			n, err = d.snappy.Read(p)
		case Lz4:
			n, err = d.lz4.Read(p)
		case Zstd:
			n, err = d.zstd.Read(p)
		}
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
	}
	return 0, errNoProgress
}

// wide says that reading takes a window too great to be allowed to many at once.
func (d *decoder) wide() bool { return d.codec == Zstd && d.zstd.wide }

// close gives the decoder's memory back, without a reference to the caller's bytes.
func (d *decoder) close() {
	d.src.Reset(nil)
	d.snappy.release()
	if d.zstd != nil {
		d.zstd.release()
	}
	decoders[d.codec].Put(d)
}
