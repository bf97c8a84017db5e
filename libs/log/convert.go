package log

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/record"
)

// compression is what compression.type and the level of its codec ask for.
type compression struct {
	asSent bool // compression.type=producer
	codec  record.Codec
	level  int
}

// convert gives the batch the codec that the topic wants. It returns b itself, or a new batch that is checked against
// max.message.bytes again.
func convert(b record.Batch, c *Config) (record.Batch, error) {
	if c.compression.asSent {
		return b, nil
	}
	out, err := record.Recompress(b, c.compression.codec, c.compression.level)
	if err != nil {
		return nil, err
	}
	if len(out) > c.MaxMessageBytes {
		return nil, fmt.Errorf("batch of %d bytes exceeds %d once compressed by %v: %w", len(out), c.MaxMessageBytes, c.compression.codec, kerr.MessageTooLarge)
	}
	return out, nil
}
