package log

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/record"
)

// Config holds the topic configs a log obeys, under Kafka's meanings. Sizes are in bytes, times in milliseconds;
// -1 stands for "no limit" where Kafka says so.
type Config struct {
	SegmentBytes       int   // segment.bytes
	SegmentMs          int64 // segment.ms
	SegmentJitterMs    int64 // segment.jitter.ms
	SegmentIndexBytes  int   // segment.index.bytes
	IndexIntervalBytes int   // index.interval.bytes
	RetentionMs        int64 // retention.ms, -1 keeps for ever
	RetentionBytes     int64 // retention.bytes, below 0 is unlimited
	FileDeleteDelayMs  int64 // file.delete.delay.ms
	MaxMessageBytes    int   // max.message.bytes, for one batch as it is sent and as it is stored
	// MaxDecompressedMessageBytes is max.decompressed.message.bytes, for one record of a compressed batch.
	MaxDecompressedMessageBytes int

	FlushMessages int64 // flush.messages: an append waits for the disk once so many records are not on it
	FlushMs       int64 // flush.ms
	Preallocate   bool  // preallocate

	LogAppendTime        bool  // message.timestamp.type=LogAppendTime
	TimestampBeforeMaxMs int64 // message.timestamp.before.max.ms
	TimestampAfterMaxMs  int64 // message.timestamp.after.max.ms

	CompressionType string // compression.type: producer, uncompressed, gzip, snappy, lz4 or zstd
	GzipLevel       int    // compression.gzip.level, -1 is the codec's default
	LZ4Level        int    // compression.lz4.level
	ZstdLevel       int    // compression.zstd.level

	Delete  bool // cleanup.policy contains delete
	Compact bool // cleanup.policy contains compact

	MinCleanableDirtyRatio float64 // min.cleanable.dirty.ratio
	MinCompactionLagMs     int64   // min.compaction.lag.ms
	MaxCompactionLagMs     int64   // max.compaction.lag.ms
	DeleteRetentionMs      int64   // delete.retention.ms

	ProducerIDExpirationMs int64 // producer.id.expiration.ms (a broker config)
	StrictValidation       bool  // produce.batch.validation=strict: compressed batches are walked record by record

	compression compression // what CompressionType and the levels say, once a log has the config
}

// DefaultConfig returns Kafka's defaults.
func DefaultConfig() Config {
	return Config{
		SegmentBytes: 1 << 30, SegmentMs: 7 * 24 * 3600_000, SegmentIndexBytes: 10 << 20, IndexIntervalBytes: 4096,
		RetentionMs: 7 * 24 * 3600_000, RetentionBytes: -1, FileDeleteDelayMs: 60_000, MaxMessageBytes: 1048588,
		MaxDecompressedMessageBytes: math.MaxInt32 - 8,
		FlushMessages:               math.MaxInt64, FlushMs: math.MaxInt64,
		TimestampBeforeMaxMs: math.MaxInt64, TimestampAfterMaxMs: 3600_000,
		CompressionType: "producer", GzipLevel: -1, LZ4Level: 9, ZstdLevel: 3,
		MinCleanableDirtyRatio: 0.5, MaxCompactionLagMs: math.MaxInt64, DeleteRetentionMs: 24 * 3600_000,
		Delete: true, ProducerIDExpirationMs: 24 * 3600_000, StrictValidation: true,
	}
}

// setters read one config each.
var setters = map[string]func(*Config, string) error{
	"segment.bytes":                   integer(1, math.MaxInt32, func(c *Config) *int { return &c.SegmentBytes }),
	"segment.ms":                      integer(1, math.MaxInt64, func(c *Config) *int64 { return &c.SegmentMs }),
	"segment.jitter.ms":               integer(0, math.MaxInt64, func(c *Config) *int64 { return &c.SegmentJitterMs }),
	"segment.index.bytes":             integer(4, math.MaxInt32, func(c *Config) *int { return &c.SegmentIndexBytes }),
	"index.interval.bytes":            integer(0, math.MaxInt32, func(c *Config) *int { return &c.IndexIntervalBytes }),
	"retention.ms":                    integer(-1, math.MaxInt64, func(c *Config) *int64 { return &c.RetentionMs }),
	"retention.bytes":                 integer(math.MinInt64, math.MaxInt64, func(c *Config) *int64 { return &c.RetentionBytes }),
	"file.delete.delay.ms":            integer(0, math.MaxInt64, func(c *Config) *int64 { return &c.FileDeleteDelayMs }),
	"max.decompressed.message.bytes":  integer(1, math.MaxInt32, func(c *Config) *int { return &c.MaxDecompressedMessageBytes }),
	"max.message.bytes":               integer(0, math.MaxInt32, func(c *Config) *int { return &c.MaxMessageBytes }),
	"flush.messages":                  integer(1, math.MaxInt64, func(c *Config) *int64 { return &c.FlushMessages }),
	"flush.ms":                        integer(0, math.MaxInt64, func(c *Config) *int64 { return &c.FlushMs }),
	"preallocate":                     boolean(func(c *Config) *bool { return &c.Preallocate }),
	"message.timestamp.type":          choice(func(c *Config, v int) { c.LogAppendTime = v == 1 }, "CreateTime", "LogAppendTime"),
	"message.timestamp.before.max.ms": integer(0, math.MaxInt64, func(c *Config) *int64 { return &c.TimestampBeforeMaxMs }),
	"message.timestamp.after.max.ms":  integer(0, math.MaxInt64, func(c *Config) *int64 { return &c.TimestampAfterMaxMs }),
	"compression.type":                setCompression,
	"compression.gzip.level":          integer(math.MinInt32, math.MaxInt32, func(c *Config) *int { return &c.GzipLevel }),
	"compression.lz4.level":           integer(math.MinInt32, math.MaxInt32, func(c *Config) *int { return &c.LZ4Level }),
	"compression.zstd.level":          integer(math.MinInt32, math.MaxInt32, func(c *Config) *int { return &c.ZstdLevel }),
	"cleanup.policy":                  setPolicy,
	"min.cleanable.dirty.ratio":       ratio(func(c *Config) *float64 { return &c.MinCleanableDirtyRatio }),
	"min.compaction.lag.ms":           integer(0, math.MaxInt64, func(c *Config) *int64 { return &c.MinCompactionLagMs }),
	"max.compaction.lag.ms":           integer(1, math.MaxInt64, func(c *Config) *int64 { return &c.MaxCompactionLagMs }),
	"delete.retention.ms":             integer(0, math.MaxInt64, func(c *Config) *int64 { return &c.DeleteRetentionMs }),
	"producer.id.expiration.ms":       integer(1, math.MaxInt64, func(c *Config) *int64 { return &c.ProducerIDExpirationMs }),
	"produce.batch.validation":        choice(func(c *Config, v int) { c.StrictValidation = v == 0 }, "strict", "relaxed"),
}

// ParseConfig reads a config from Kafka's topic config names; names left out keep their default and names that do not
// concern the log are ignored. producer.id.expiration.ms and produce.batch.validation are read too when present. The
// error names the key whose value is malformed.
func ParseConfig(values map[string]string) (Config, error) {
	c := DefaultConfig()
	for name, value := range values {
		if set, ok := setters[name]; ok {
			if err := set(&c, strings.TrimSpace(value)); err != nil {
				return Config{}, fmt.Errorf("config %s=%s: %w", name, value, err)
			}
		}
	}
	return c, nil
}

func integer[T int | int64](low, high int64, field func(*Config) *T) func(*Config, string) error {
	return func(c *Config, s string) error {
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil || v < low || v > high {
			return fmt.Errorf("not a whole number from %d to %d", low, high)
		}
		*field(c) = T(v)
		return nil
	}
}

func ratio(field func(*Config) *float64) func(*Config, string) error {
	return func(c *Config, s string) error {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || !(v >= 0 && v <= 1) {
			return fmt.Errorf("not a number from 0 to 1")
		}
		*field(c) = v
		return nil
	}
}

func boolean(field func(*Config) *bool) func(*Config, string) error {
	return func(c *Config, s string) error {
		if s = strings.ToLower(s); s != "true" && s != "false" {
			return fmt.Errorf("neither true nor false")
		}
		*field(c) = s == "true"
		return nil
	}
}

func choice(set func(*Config, int), names ...string) func(*Config, string) error {
	return func(c *Config, s string) error {
		i := slices.Index(names, s)
		if i < 0 {
			return fmt.Errorf("none of %s", strings.Join(names, ", "))
		}
		set(c, i)
		return nil
	}
}

func setCompression(c *Config, s string) error {
	c.CompressionType = strings.ToLower(s)
	_, err := c.resolved()
	return err
}

func setPolicy(c *Config, s string) error {
	c.Delete, c.Compact = false, false
	for policy := range strings.SplitSeq(s, ",") {
		switch strings.ToLower(strings.TrimSpace(policy)) {
		case "delete":
			c.Delete = true
		case "compact":
			c.Compact = true
		case "":
		default:
			return fmt.Errorf("policy %q is neither delete nor compact", policy)
		}
	}
	return nil
}

// longestDelayMs is as good as for ever, and may be added to a time.
const longestDelayMs = math.MaxInt64 / 2

// leastIndexBytes holds an entry of each index, and that of the time index which a roll adds.
const leastIndexBytes = 24

// resolved is c with its compression worked out, with segments that are complete in time to be compacted, and with what has no meaning brought to
// the nearest that has.
func (c Config) resolved() (*Config, error) {
	c.FileDeleteDelayMs = min(c.FileDeleteDelayMs, longestDelayMs)
	c.SegmentIndexBytes = max(c.SegmentIndexBytes, leastIndexBytes)
	if c.Compact && c.MaxCompactionLagMs > 0 {
		c.SegmentMs = min(c.SegmentMs, c.MaxCompactionLagMs)
	}
	c.compression = compression{asSent: true}
	switch c.CompressionType {
	case "producer", "":
		return &c, nil
	case "uncompressed", "none":
		c.compression = compression{codec: record.None}
		return &c, nil
	}
	codec, err := record.ParseCodec(c.CompressionType)
	if err != nil {
		return &c, err
	}
	level := map[record.Codec]int{record.Gzip: max(c.GzipLevel, 0), record.Lz4: c.LZ4Level, record.Zstd: c.ZstdLevel}[codec]
	c.compression = compression{codec: codec, level: level}
	return &c, nil
}

// compression is what compression.type and the level of its codec ask for.
type compression struct {
	asSent bool // compression.type=producer
	codec  record.Codec
	level  int
}

// convert gives the batch the codec that the topic wants. It returns b itself, or a new batch that is checked against
// max.message.bytes again.
func convert(b record.Batch, c *Config) (record.Batch, error) {
	if c.compression.asSent || b.IsControl() {
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
