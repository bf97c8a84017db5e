package record

import "fmt"

// Codec is how a batch's records are compressed, numbered as in the batch attributes.
type Codec int8

// The codecs of Kafka (config compression.type).
const (
	None Codec = iota
	Gzip
	Snappy
	Lz4
	Zstd
)

var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// String returns Kafka's name of the codec.
func (c Codec) String() string {
	if c < 0 || int(c) >= len(codecNames) {
		return fmt.Sprintf("codec(%d)", int8(c))
	}
	return codecNames[c]
}

// ParseCodec is the codec of that name: none, gzip, snappy, lz4 or zstd.
func ParseCodec(name string) (Codec, error) {
	for c, n := range codecNames {
		if n == name {
			return Codec(c), nil
		}
	}
	return None, fmt.Errorf("unknown compression type %q", name)
}
