package produce

import (
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
)

// Tuning is how a producer sends: the flags that `produce` and `bench produce` share.
type Tuning struct {
	acks        string
	compression string
	level       int
	linger      time.Duration
	batchBytes  int32
}

// Bind adds the flags.
func (t *Tuning) Bind(flags *pflag.FlagSet) {
	flags.StringVar(&t.acks, "acks", "all", "who must have a record before it counts as written: `all|1|0`")
	flags.StringVarP(&t.compression, "compression", "z", "none", "codec of the batches: `none|gzip|snappy|lz4|zstd`")
	flags.IntVar(&t.level, "compression-level", 0, "level `N` of gzip, lz4 and zstd (0: the codec's default)")
	flags.DurationVar(&t.linger, "linger", 5*time.Millisecond, "how long a batch waits for more records")
	flags.Int32Var(&t.batchBytes, "batch-bytes", 1_000_000, "largest batch in `BYTES`")
}

// Options returns the client options, or an error that names the flag at fault.
func (t *Tuning) Options() ([]kgo.Opt, error) {
	codec, ok := codecs[t.compression]
	if !ok {
		return nil, exit.Usagef("--compression %q: must be none, gzip, snappy, lz4 or zstd", t.compression)
	}
	if t.level != 0 {
		codec = codec.WithLevel(t.level)
	}
	if t.linger < 0 {
		return nil, exit.Usagef("--linger %v: must not be negative", t.linger)
	}
	if t.batchBytes < 1024 {
		return nil, exit.Usagef("--batch-bytes %d: must be at least 1024", t.batchBytes)
	}
	options := []kgo.Opt{kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(t.linger), kgo.ProducerBatchMaxBytes(t.batchBytes)}
	switch strings.ToLower(t.acks) {
	case "all", "-1":
		return append(options, kgo.RequiredAcks(kgo.AllISRAcks())), nil
	case "1":
		return append(options, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()), nil
	case "0":
		return append(options, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite()), nil
	}
	return nil, exit.Usagef("--acks %q: must be all, 1 or 0", t.acks)
}

// acknowledged says whether servers tell the offsets of what they wrote.
func (t *Tuning) acknowledged() bool { return t.acks != "0" }

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}
