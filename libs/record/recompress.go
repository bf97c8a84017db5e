package record

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
)

var decompressed = sync.Pool{New: func() any { return new([]byte) }}

// Recompress is b with its records compressed otherwise (Kafka config compression.type), at a level as [Compress] takes it,
// in memory of its own. A batch that has the codec already, or a control batch, which stays as it was written, is
// returned itself. The errors are those of [Decompress] and of [Builder.AppendTo]; b has been validated before.
func Recompress(b Batch, codec Codec, level int) (Batch, error) {
	if b.Codec() == codec || b.IsControl() {
		return b, nil
	}
	records := b.records()
	if b.Codec() != None {
		buf := decompressed.Get().(*[]byte)
		defer func() {
			if cap(*buf) <= maxKeptBuffer {
				decompressed.Put(buf)
			}
		}()
		var err error
		if *buf, err = Decompress((*buf)[:0], records, b.Codec(), DefaultMaxDecompressedBytes); err != nil {
			return nil, err
		}
		records = *buf
	}
	out := make(Batch, HeaderSize, HeaderSize+len(b))
	copy(out, b)
	out, err := Compress(out, records, codec, level)
	if err != nil {
		return nil, err
	}
	if len(out) > math.MaxInt32 {
		return nil, fmt.Errorf("batch becomes %d bytes: %w", len(out), kerr.MessageTooLarge)
	}
	binary.BigEndian.PutUint32(out[LengthAt:], uint32(len(out)-LengthOverhead))
	out[AttributesAt+1] = out[AttributesAt+1]&^codecMask | byte(codec)
	out.updateCRC()
	return out, nil
}
