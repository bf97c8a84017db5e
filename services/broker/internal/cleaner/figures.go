package cleaner

import (
	"maps"
	"path/filepath"
	"time"

	"github.com/cauce-stream/cauce/libs/log"
)

// Figures are what Kafka tells of its log cleaner (kafka.log:type=LogCleaner and LogCleanerManager). Percentages are whole, and
// those of a compaction are the last one's.
type Figures struct {
	RecopyPercent          int64 // of what was read, what was kept
	KeyMemoryPercent       int64 // of log.cleaner.dedupe.buffer.size, what was taken
	CleanSeconds           int64
	MaxCompactionDelaySecs int64 // by which max.compaction.lag.ms is exceeded
	MaxDirtyPercent        int64
	SinceLastRunMs         int64 // since logs to compact were looked for
	// Uncleanable are the logs that cannot be compacted, by log directory.
	Uncleanable map[string]Uncleanable
}

// Uncleanable counts the logs that cannot be compacted.
type Uncleanable struct{ Partitions, Bytes int64 }

// noteRun takes over what a look at the logs has found.
func (c *Cleaner) noteRun(now time.Time, present map[*log.Log]bool, dirtiest float64, overdueMs int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.logOf, func(l *log.Log, s *state) bool { return !present[l] && !s.busy })
	c.lastRun = now
	c.figures.MaxDirtyPercent = int64(100 * dirtiest)
	c.figures.MaxCompactionDelaySecs = overdueMs / 1000
}

func (c *Cleaner) noteCompacted(did log.Compacted, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.figures.RecopyPercent = 100 * did.BytesWritten / max(did.BytesRead, 1)
	c.figures.KeyMemoryPercent = int64(100 * did.KeyFill)
	c.figures.CleanSeconds = int64(took / time.Second)
}

// Figures returns the figures of now.
func (c *Cleaner) Figures() Figures {
	uncleanable := map[string]Uncleanable{}
	for _, dir := range c.logs.Describe() {
		uncleanable[dir.Path] = Uncleanable{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for l, s := range c.logOf {
		if s.uncleanable {
			dir := filepath.Dir(l.Dir())
			u := uncleanable[dir]
			uncleanable[dir] = Uncleanable{u.Partitions + 1, u.Bytes + l.SizeBytes()}
		}
	}
	f := c.figures
	f.Uncleanable = uncleanable
	if !c.lastRun.IsZero() {
		f.SinceLastRunMs = time.Since(c.lastRun).Milliseconds()
	}
	return f
}
