package record

import (
	"fmt"
	"io"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Codec is how a batch's records are compressed, numbered as in the batch attributes.
type Codec int8

// The codecs of Kafka (config compression.type).
const (
	None Codec = iota
	Gzip
	Snappy
	Lz4
	Zstd
	codecCount
)

var codecNames = [codecCount]string{"none", "gzip", "snappy", "lz4", "zstd"}

// String returns Kafka's name of the codec.
func (c Codec) String() string {
	if c < None || c >= codecCount {
		return fmt.Sprintf("codec(%d)", int8(c))
	}
	return codecNames[c]
}

// ParseCodec is the codec of that name: none, gzip, snappy, lz4 or zstd.
func ParseCodec(name string) (Codec, error) {
	i := slices.Index(codecNames[:], name)
	if i < 0 {
		return None, fmt.Errorf("unknown compression type %q", name)
	}
	return Codec(i), nil
}

func (c Codec) check() error {
	if c < None || c >= codecCount {
		return fmt.Errorf("codec %d: %w", int8(c), kerr.UnsupportedCompressionType)
	}
	return nil
}

// Decompress appends to dst what src decompresses to. Snappy may be one raw block or Java's framed form.
// The error wraps kerr.MessageTooLarge when that is more than maxBytes, kerr.InvalidRecord when src is broken and
// kerr.UnsupportedCompressionType for an unknown codec; dst then keeps what it had.
func Decompress(dst, src []byte, codec Codec, maxBytes int) ([]byte, error) {
	if err := codec.check(); err != nil {
		return dst, err
	}
	if codec == None {
		if len(src) > maxBytes {
			return dst, tooLarge(maxBytes)
		}
		return append(dst, src...), nil
	}
	d := openDecoder(codec, src)
	defer d.close()
	out := dst
	for {
		// One byte beyond the bound is enough to know that it is exceeded.
		room := maxBytes + 1 - (len(out) - len(dst))
		if room <= 0 {
			return dst, tooLarge(maxBytes)
		}
		if len(out) == cap(out) {
			out = slices.Grow(out, min(room, max(len(out), minWindow)))
		}
		n, err := d.read(out[len(out):min(cap(out), len(out)+room)])
		out = out[:len(out)+n]
		if err == io.EOF && len(out)-len(dst) <= maxBytes {
			return out, nil
		}
		if err != nil && err != io.EOF {
			return dst, undecodable(codec, err)
		}
	}
}

func tooLarge(maxBytes int) error {
	return fmt.Errorf("records decompress to more than %d bytes: %w", maxBytes, kerr.MessageTooLarge)
}

// undecodable is kerr.InvalidRecord rather than CorruptMessage, which clients retry: the CRC has shown that the bytes
// are those that were sent, so the same would come again.
func undecodable(codec Codec, err error) error {
	return fmt.Errorf("records do not decompress as %v (%v): %w", codec, err, kerr.InvalidRecord)
}
