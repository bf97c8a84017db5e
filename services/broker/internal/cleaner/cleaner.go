// Package cleaner compacts the broker's logs in the background, the dirtiest first (log.cleaner.*).
package cleaner

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/libs/log/logdir"
)

// Settings are the broker's keys, which may change while it runs.
type Settings struct {
	Threads           int           // log.cleaner.threads: logs that are compacted at once
	Backoff           time.Duration // log.cleaner.backoff.ms
	DedupeBytes       int64         // log.cleaner.dedupe.buffer.size, for all threads
	LoadFactor        float64       // log.cleaner.io.buffer.load.factor
	BufferBytes       int           // log.cleaner.io.buffer.size, for all threads
	MaxBytesPerSecond float64       // log.cleaner.io.max.bytes.per.second, for all threads
}

// maxThreads bounds what is compacted at once whatever log.cleaner.threads is: more would not be done sooner, and have little memory each.
const maxThreads = 256

// minBackoff keeps a cleaner whose backoff is 0 from looking without end.
const minBackoff = 100 * time.Millisecond

func (s Settings) threads() int { return min(s.Threads, maxThreads) }

// Cleaner compacts logs.
type Cleaner struct {
	logs     *logdir.Set
	settings func() Settings
	log      *zap.Logger
	limit    limiter

	picking sync.Mutex // one look for the dirtiest log at a time
	mu      sync.Mutex
	running int
	logOf   map[*log.Log]*state // of logs that were compacted, or are
	figures Figures
	lastRun time.Time
}

// state is what the cleaner knows of a log.
type state struct {
	busy        bool
	uncleanable bool      // for as long as the process runs
	notBefore   time.Time // after a failure that may pass
}

// New makes a cleaner of the logs.
func New(logs *logdir.Set, settings func() Settings, logger *zap.Logger) *Cleaner {
	return &Cleaner{logs: logs, settings: settings, log: logger, logOf: map[*log.Log]*state{}}
}

// Run compacts until ctx ends: whenever the backoff is over, as many goroutines as there may be look for logs to compact, and
// end when they find none.
func (c *Cleaner) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		s := c.settings()
		for c.begin(s.threads()) {
			wg.Go(func() {
				defer c.end()
				c.work(ctx)
			})
		}
		pause := time.NewTimer(max(s.Backoff, minBackoff))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
	}
}

// begin tells whether another goroutine may start, and counts it.
func (c *Cleaner) begin(threads int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running >= threads {
		return false
	}
	c.running++
	return true
}

func (c *Cleaner) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
}

// work compacts one log after the other until there is none.
func (c *Cleaner) work(ctx context.Context) {
	for ctx.Err() == nil {
		l, do := c.pick()
		if l == nil {
			return
		}
		do(ctx, l)
		c.setState(l, func(s *state) { s.busy = false })
	}
}

// pick takes the log that is to be compacted next: of those whose share of dirty records is above min.cleanable.dirty.ratio, whose
// max.compaction.lag.ms is exceeded or whose marks of deleted keys may go, the dirtiest. When there is none it takes one, if there is,
// that has yet to be asked when its marks may go.
func (c *Cleaner) pick() (*log.Log, func(context.Context, *log.Log)) {
	c.picking.Lock()
	defer c.picking.Unlock()
	var best, unknown *log.Log
	var bestRatio, dirtiest float64
	var overdueMs int64
	present := map[*log.Log]bool{}
	now := time.Now()
	for l := range c.logs.All() {
		present[l] = true
		config := l.Config()
		if !config.Compact || l.Err() != nil || !c.free(l, now) {
			continue
		}
		found, err := look(l, now.UnixMilli())
		if err != nil {
			c.failed(l, err)
			continue
		}
		ratio := found.DirtyRatio()
		dirtiest, overdueMs = max(dirtiest, ratio), max(overdueMs, found.OverdueMs)
		due := ratio > config.MinCleanableDirtyRatio || found.OverdueMs > 0 && found.DirtyBytes > 0 || found.HorizonDue
		if due && (best == nil || ratio > bestRatio) {
			best, bestRatio = l, ratio
		}
		if found.HorizonUnknown {
			unknown = l
		}
	}
	c.noteRun(now, present, dirtiest, overdueMs)
	do := c.compact
	if best == nil {
		best, do = unknown, c.findHorizon
	}
	if best != nil {
		c.setState(best, func(s *state) { s.busy = true })
	}
	return best, do
}

func (c *Cleaner) findHorizon(ctx context.Context, l *log.Log) {
	rate := c.settings().MaxBytesPerSecond
	if err := l.FindHorizon(func(bytes int) error { return c.limit.spend(ctx, bytes, rate, l.Err) }); err != nil && ctx.Err() == nil {
		c.failed(l, err)
	}
}

func look(l *log.Log, nowMs int64) (log.Cleanable, error) {
	if err := l.RollIdle(nowMs); err != nil {
		return log.Cleanable{}, err
	}
	return l.Cleanable(nowMs)
}

// free tells whether nothing keeps the log from being compacted.
func (c *Cleaner) free(l *log.Log, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.logOf[l]
	return s == nil || !s.busy && !s.uncleanable && !now.Before(s.notBefore)
}

func (c *Cleaner) setState(l *log.Log, change func(*state)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.logOf[l]
	if s == nil {
		s = &state{}
		c.logOf[l] = s
	}
	change(s)
}

func (c *Cleaner) compact(ctx context.Context, l *log.Log) {
	s := c.settings()
	began := time.Now()
	threads := max(s.threads(), 1)
	did, err := l.Compact(log.CompactOptions{
		NowMs: began.UnixMilli(), DedupeBytes: s.DedupeBytes / int64(threads), LoadFactor: s.LoadFactor,
		BufferBytes: max(s.BufferBytes/threads/2, 4<<10),
		Spend:       func(bytes int) error { return c.limit.spend(ctx, bytes, s.MaxBytesPerSecond, l.Err) },
	})
	if err == nil {
		err = c.logs.CheckpointCleaned(l)
	}
	if err != nil {
		if ctx.Err() == nil {
			c.failed(l, err)
		}
		return
	}
	took := time.Since(began)
	c.log.Info("log compacted", zap.String("topic", l.Topic()), zap.Int32("partition", l.Partition()), zap.Int64("upTo", did.EndOffset),
		zap.Int64("bytesRead", did.BytesRead), zap.Int64("bytesWritten", did.BytesWritten),
		zap.Int64("recordsRead", did.RecordsRead), zap.Int64("recordsKept", did.RecordsKept), zap.Duration("took", took))
	c.noteCompacted(did, took)
}

// failed notes that a log could not be compacted. A log that has failed altogether has said so itself.
func (c *Cleaner) failed(l *log.Log, err error) {
	if l.Err() != nil {
		return
	}
	fields := []zap.Field{zap.String("topic", l.Topic()), zap.Int32("partition", l.Partition()), zap.Error(err)}
	if broken(err) {
		c.log.Error("log cannot be compacted, and is left as it is", fields...)
		c.setState(l, func(s *state) { s.uncleanable = true })
		return
	}
	c.log.Warn("log was not compacted; it is tried again", fields...)
	c.setState(l, func(s *state) { s.notBefore = time.Now().Add(max(c.settings().Backoff, time.Second)) })
}

// broken tells whether the log itself is at fault, so that trying again is of no use.
func broken(err error) bool {
	for _, fault := range []error{kerr.CorruptMessage, kerr.InvalidRecord, kerr.UnsupportedCompressionType, kerr.MessageTooLarge, log.ErrTooManyKeys} {
		if errors.Is(err, fault) {
			return true
		}
	}
	return false
}
