package configkeys

import (
	"fmt"
	"regexp"

	"github.com/cauce-stream/cauce/libs/config"
)

// topicKeys can be set for a single topic.
var topicKeys = []config.Key{
	{Name: "cleanup.policy", Type: config.List, Default: "delete", Valid: config.ListOf(true, "compact", "delete"),
		Doc: "What becomes of old segments: delete removes them by age and size, compact keeps the newest record of each key; both may be given."},
	{Name: "compression.type", Type: config.String, Default: "producer", Valid: config.OneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
		Doc: "Codec in which batches are stored; producer keeps the one they came in."},
	{Name: "compression.gzip.level", Type: config.Int, Default: "-1", Valid: config.Or(config.Between(1, 9), "-1"),
		Doc: "Level for batches that the broker compresses with gzip; -1 is the codec's own default."},
	{Name: "compression.lz4.level", Type: config.Int, Default: "9", Valid: config.Between(1, 17),
		Doc: "Level for batches that the broker compresses with lz4."},
	{Name: "compression.zstd.level", Type: config.Int, Default: "3", Valid: config.Between(-131072, 22),
		Doc: "Level for batches that the broker compresses with zstd."},
	{Name: "delete.retention.ms", Type: config.Long, Default: "86400000", Valid: config.AtLeast(0),
		Doc: "Milliseconds that the mark of a deleted key outlives the compaction of its segment."},
	{Name: "errors.deadletterqueue.group.enable", Type: config.Boolean, Default: "false",
		Doc: "Whether share groups may use the topic as their dead letter queue (KIP-1191)."},
	{Name: "file.delete.delay.ms", Type: config.Long, Default: "60000", Valid: config.AtLeast(0),
		Doc: "Milliseconds that a deleted segment's files stay on disk under another name."},
	{Name: "flush.messages", Type: config.Long, Default: "9223372036854775807", Valid: config.AtLeast(1),
		Doc: "Records after which a log is flushed to disk."},
	{Name: "flush.ms", Type: config.Long, Default: "9223372036854775807", Valid: config.AtLeast(0),
		Doc: "Milliseconds a record may stay in memory before its log is flushed."},
	{Name: "follower.replication.throttled.replicas", Type: config.List, Valid: throttledReplicas,
		Doc: "Replicas whose fetching is throttled, as partition:node pairs, or * for all."},
	{Name: "leader.replication.throttled.replicas", Type: config.List, Valid: throttledReplicas,
		Doc: "Replicas whose sending is throttled, as partition:node pairs, or * for all."},
	{Name: "index.interval.bytes", Type: config.Int, Default: "4096", Valid: config.AtLeast(0),
		Doc: "Bytes of records between two entries of the offset index."},
	{Name: "local.retention.bytes", Type: config.Long, Default: "-2", Valid: config.AtLeast(-2),
		Doc: "Bytes that a tiered partition keeps on the broker's disk; -2 means as many as it keeps at all."},
	{Name: "local.retention.ms", Type: config.Long, Default: "-2", Valid: config.AtLeast(-2),
		Doc: "Milliseconds that a tiered partition keeps records on the broker's disk; -2 means as long as it keeps them at all."},
	{Name: "max.compaction.lag.ms", Type: config.Long, Default: "9223372036854775807", Valid: config.AtLeast(1),
		Doc: "Milliseconds after which a record is compacted at the latest."},
	{Name: "max.decompressed.message.bytes", Type: config.Int, Default: "2147483639", Valid: config.Between(1, 2147483639),
		Doc: "Greatest record in bytes, once decompressed, that the topic accepts in a compressed batch."},
	{Name: "max.message.bytes", Type: config.Int, Default: "1048588", Valid: config.AtLeast(0),
		Doc: "Greatest record batch in bytes, as compressed, that the topic accepts."},
	{Name: "message.timestamp.after.max.ms", Type: config.Long, Default: "3600000", Valid: config.AtLeast(0),
		Doc: "Milliseconds by which a record's time may lie ahead of the broker's."},
	{Name: "message.timestamp.before.max.ms", Type: config.Long, Default: "9223372036854775807", Valid: config.AtLeast(0),
		Doc: "Milliseconds by which a record's time may lie behind the broker's."},
	{Name: "message.timestamp.type", Type: config.String, Default: "CreateTime", Valid: config.OneOf("CreateTime", "LogAppendTime"),
		Doc: "Whether records keep the time they were made (CreateTime) or get the time they are appended (LogAppendTime)."},
	{Name: "min.cleanable.dirty.ratio", Type: config.Double, Default: "0.5", Valid: config.Between(0, 1),
		Doc: "Share of a log that must be uncompacted before it is compacted."},
	{Name: "min.compaction.lag.ms", Type: config.Long, Default: "0", Valid: config.AtLeast(0),
		Doc: "Milliseconds that a record stays uncompacted."},
	{Name: "min.insync.replicas", Type: config.Int, Default: "1", Valid: config.AtLeast(1),
		Doc: "In-sync replicas without which a write with acks=all is refused."},
	{Name: "preallocate", Type: config.Boolean, Default: "false",
		Doc: "Whether the file of a new segment is allocated in full when it is made."},
	{Name: "remote.copy.lag.bytes", Type: config.Long, Default: "-1", Valid: config.AtLeast(-1),
		Doc: "Bytes behind the end of a tiered log after which a segment is copied at the latest; -1 means local.retention.bytes, 0 at once (KIP-1241)."},
	{Name: "remote.copy.lag.ms", Type: config.Long, Default: "0", Valid: config.AtLeast(-1),
		Doc: "Milliseconds after which a segment of a tiered log is copied at the latest; -1 means local.retention.ms, 0 at once (KIP-1241)."},
	{Name: "remote.log.copy.disable", Type: config.Boolean, Default: "false",
		Doc: "Whether a tiered topic stops copying further segments and reads what was copied."},
	{Name: "remote.log.delete.on.disable", Type: config.Boolean, Default: "false",
		Doc: "Whether remote segments are deleted when the topic stops being tiered."},
	{Name: "remote.storage.enable", Type: config.Boolean, Default: "false",
		Doc: "Whether the topic is tiered."},
	{Name: "retention.bytes", Type: config.Long, Default: "-1",
		Doc: "Bytes that a partition keeps before its oldest segments go; -1 means without limit."},
	{Name: "retention.ms", Type: config.Long, Default: "604800000", Valid: config.AtLeast(-1),
		Doc: "Milliseconds that records are kept; -1 means for ever."},
	{Name: "segment.bytes", Type: config.Int, Default: "1073741824", Valid: config.AtLeast(1048576),
		Doc: "Greatest size of a segment in bytes."},
	{Name: "segment.index.bytes", Type: config.Int, Default: "10485760", Valid: config.AtLeast(4),
		Doc: "Greatest size of an index file in bytes."},
	{Name: "segment.jitter.ms", Type: config.Long, Default: "0", Valid: config.AtLeast(0),
		Doc: "Greatest random time in milliseconds by which a segment is begun early."},
	{Name: "segment.ms", Type: config.Long, Default: "604800000", Valid: config.AtLeast(1),
		Doc: "Milliseconds after which a new segment is begun."},
	{Name: "unclean.leader.election.enable", Type: config.Boolean, Default: "false",
		Doc: "Whether a replica that is not in sync may become leader when no other is left, at the price of losing records."},
}

var throttledReplica = regexp.MustCompile(`^[0-9]+:[0-9]+$`)

// throttledReplicas accepts "*", nothing, or partition:node pairs (KIP-73).
var throttledReplicas = config.Validator{Text: "* or partition:node,...", Check: func(value string) error {
	if value == "*" {
		return nil
	}
	for _, e := range config.Elements(value) {
		if !throttledReplica.MatchString(e) {
			return fmt.Errorf("%q is not of the form partition:node", e)
		}
	}
	return nil
}}
