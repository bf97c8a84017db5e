package log

import "math"

// Config holds the topic configs a log obeys, under Kafka's meanings. Sizes are in bytes, times in milliseconds;
// -1 stands for "no limit" where Kafka says so.
type Config struct {
	SegmentBytes       int   // segment.bytes
	SegmentMs          int64 // segment.ms
	SegmentJitterMs    int64 // segment.jitter.ms
	SegmentIndexBytes  int   // segment.index.bytes
	IndexIntervalBytes int   // index.interval.bytes
	RetentionMs        int64 // retention.ms, -1 keeps for ever
	RetentionBytes     int64 // retention.bytes, -1 is unlimited
	FileDeleteDelayMs  int64 // file.delete.delay.ms
	MaxMessageBytes    int   // max.message.bytes, for one batch as it will be stored
	FlushMessages      int64 // flush.messages: append waits for the disk once so many records are unflushed
	FlushMs            int64 // flush.ms
	Preallocate        bool  // preallocate

	LogAppendTime        bool  // message.timestamp.type=LogAppendTime
	TimestampBeforeMaxMs int64 // message.timestamp.before.max.ms
	TimestampAfterMaxMs  int64 // message.timestamp.after.max.ms

	CompressionType string // compression.type: producer, uncompressed, gzip, snappy, lz4 or zstd
	GzipLevel       int    // compression.gzip.level, -1 is the codec's default
	LZ4Level        int    // compression.lz4.level
	ZstdLevel       int    // compression.zstd.level

	Delete  bool // cleanup.policy contains delete
	Compact bool // cleanup.policy contains compact

	ProducerIDExpirationMs int64 // producer.id.expiration.ms (a broker config)
	StrictValidation       bool  // produce.batch.validation=strict: compressed batches are walked record by record
}

// DefaultConfig returns Kafka's defaults.
func DefaultConfig() Config {
	return Config{
		SegmentBytes: 1 << 30, SegmentMs: 7 * 24 * 3600_000, SegmentIndexBytes: 10 << 20, IndexIntervalBytes: 4096,
		RetentionMs: 7 * 24 * 3600_000, RetentionBytes: -1, FileDeleteDelayMs: 60_000, MaxMessageBytes: 1048588,
		FlushMessages: math.MaxInt64, FlushMs: math.MaxInt64,
		TimestampBeforeMaxMs: math.MaxInt64, TimestampAfterMaxMs: 3600_000,
		CompressionType: "producer", GzipLevel: -1, LZ4Level: 9, ZstdLevel: 3,
		Delete: true, ProducerIDExpirationMs: 24 * 3600_000, StrictValidation: true,
	}
}

// ParseConfig reads a config from Kafka's topic config names; names left out keep their default and names that do not
// concern the log are ignored. producer.id.expiration.ms and produce.batch.validation are read too when present. The
// error names the key whose value is malformed.
func ParseConfig(values map[string]string) (Config, error) {
	return DefaultConfig(), nil
}
