package broker

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cauce-stream/cauce/services/broker/internal/cleaner"
)

// cleanerSettings are the log.cleaner keys as they are now.
func (s *Service) cleanerSettings() cleaner.Settings {
	v := s.layers(s.parts.Image()).Values()
	return cleaner.Settings{
		Threads:           v.Int("log.cleaner.threads"),
		Backoff:           v.DurationMs("log.cleaner.backoff.ms"),
		DedupeBytes:       v.Long("log.cleaner.dedupe.buffer.size"),
		LoadFactor:        v.Double("log.cleaner.io.buffer.load.factor"),
		BufferBytes:       v.Int("log.cleaner.io.buffer.size"),
		MaxBytesPerSecond: v.Double("log.cleaner.io.max.bytes.per.second"),
	}
}

var (
	recopyPercent     = describe("kafka_log_logcleaner_cleaner_recopy_percent", "Share of what the last compaction read that it kept.")
	bufferUtilization = describe("kafka_log_logcleaner_max_buffer_utilization_percent", "Share of the memory for keys that the last compaction took.")
	cleanSeconds      = describe("kafka_log_logcleaner_max_clean_time_secs", "Seconds that the last compaction took.")
	compactionDelay   = describe("kafka_log_logcleaner_max_compaction_delay_secs", "Seconds by which max.compaction.lag.ms is exceeded most.")
	dirtyPercent      = describe("kafka_log_logcleanermanager_max_dirty_percent", "Greatest share of a compacted log that is not compacted.")
	sinceLastRun      = describe("kafka_log_logcleanermanager_time_since_last_run_ms", "Milliseconds since logs to compact were looked for.")
	uncleanableCount  = describe("kafka_log_logcleanermanager_uncleanable_partitions_count", "Logs that cannot be compacted.", "logDirectory")
	uncleanableBytes  = describe("kafka_log_logcleanermanager_uncleanable_bytes", "Bytes of logs that cannot be compacted.", "logDirectory")
)

// cleanerCollector reads the figures of the cleaner when they are asked for.
type cleanerCollector struct{ *cleaner.Cleaner }

// Describe sends nothing, as that of the collector.
func (c *cleanerCollector) Describe(chan<- *prometheus.Desc) {}

func (c *cleanerCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	f := c.Figures()
	gauge(recopyPercent, f.RecopyPercent)
	gauge(bufferUtilization, f.KeyMemoryPercent)
	gauge(cleanSeconds, f.CleanSeconds)
	gauge(compactionDelay, f.MaxCompactionDelaySecs)
	gauge(dirtyPercent, f.MaxDirtyPercent)
	gauge(sinceLastRun, f.SinceLastRunMs)
	for dir, u := range f.Uncleanable {
		gauge(uncleanableCount, u.Partitions, dir)
		gauge(uncleanableBytes, u.Bytes, dir)
	}
}
