package logdir

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cauce-stream/cauce/libs/log"
)

// Run drives the periodic duties until ctx ends: retention, flush.ms, checkpoints, expiry of producers, removal of deleted
// files, and one flusher per directory for segments that are complete. Close still has to be called.
func (s *Set) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, d := range s.dirs {
		wg.Go(func() { s.flusher(ctx, d) })
	}
	s.duties(ctx)
	wg.Wait()
	return nil
}

// maxTidyMs bounds how late what is due is flushed and removed, whatever log.flush.scheduler.interval.ms is (Kafka's default is never, which has a topic's
// flush.ms mean nothing).
const maxTidyMs = 1000

// maxProbeMs bounds how late a directory that nobody writes to is found to have failed.
const maxProbeMs = 5000

// duty is something to do every so often.
type duty struct {
	everyMs int64
	do      func(nowMs int64)
	doneMs  int64
}

func (s *Set) duties(ctx context.Context) {
	list := []*duty{
		{everyMs: min(s.o.FlushSchedulerMs, maxTidyMs), do: s.tidy},
		{everyMs: s.o.HighWatermarkCheckpointMs, do: func(int64) { _ = s.CheckpointHighWatermarks() }},
		{everyMs: min(s.o.HighWatermarkCheckpointMs, maxProbeMs), do: s.probe},
		{everyMs: s.o.RecoveryPointCheckpointMs, do: s.rest},
		{everyMs: s.o.StartOffsetCheckpointMs, do: func(int64) { _ = s.CheckpointStartOffsets() }},
		{everyMs: s.o.RetentionCheckMs, do: s.Retain},
		{everyMs: s.o.ProducerExpirationCheckMs, do: func(nowMs int64) {
			for l := range s.All() {
				l.ExpireProducers(nowMs)
			}
		}},
	}
	now := s.o.NowMs()
	shortest := list[0].everyMs
	for _, d := range list {
		d.doneMs = now
		shortest = min(shortest, d.everyMs)
	}
	tick := time.NewTicker(time.Duration(shortest) * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, d := range list {
			now := s.o.NowMs()
			// A tick comes a little sooner after the last one if that was handled late: it is this duty's none the less.
			since := now - d.doneMs + shortest/2
			if wasPutBack := now < d.doneMs; (wasPutBack || since >= d.everyMs) && ctx.Err() == nil {
				d.do(now)
				d.doneMs = now
			}
		}
	}
}

// tidy does what is due now: has the flushers flush by flush.ms, which would hold up the other duties, and removes what was deleted long enough ago. Failures take
// the directory offline by themselves.
func (s *Set) tidy(nowMs int64) {
	s.mu.RLock()
	logs := slices.AppendSeq(make([]placed, 0, len(s.logs)), maps.Values(s.logs))
	s.mu.RUnlock()
	for _, l := range logs {
		if l.FlushDue(nowMs) {
			l.dir.enqueue(l.Log, flushAll)
		}
		_ = l.Purge(nowMs)
	}
	for _, d := range s.online() {
		if err := d.sweep(nowMs); err != nil {
			s.takeOffline(d, err)
		}
	}
}

// probe finds directories that have failed while nobody wrote to them.
func (s *Set) probe(int64) {
	for _, d := range s.online() {
		if err := d.probe(); err != nil {
			s.takeOffline(d, err)
		}
	}
}

// restingFlushes bounds how many idle logs are flushed at a time, so that ten thousand of them do not keep the disk busy.
const restingFlushes = 256

// rest lets idle logs rest and writes the recovery points.
func (s *Set) rest(nowMs int64) {
	for _, d := range s.online() {
		resting := 0
		for _, l := range s.snapshot(d) {
			if unflushed, _ := l.Rest(); unflushed && resting < restingFlushes {
				d.enqueue(l, flushAll)
				resting++
			}
		}
		_ = s.checkpoint(d, recoveryPointFile)
	}
}

// Retain applies retention to every log, as Run does every log.retention.check.interval.ms.
func (s *Set) Retain(nowMs int64) {
	for l := range s.All() {
		if removedSegments, _ := l.Retain(nowMs); removedSegments > 0 {
			s.o.OnStartMoved(l)
		}
	}
}

// flusher flushes what the directory's logs ask for.
func (s *Set) flusher(ctx context.Context, d *dir) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
			s.flushQueued(ctx, d)
		}
	}
}

// flushQueued empties the directory's queue, unless ctx ends before: Close flushes what is left.
func (s *Set) flushQueued(ctx context.Context, d *dir) {
	logs, truncated := d.drain()
	if truncated && d.err() == nil {
		_ = s.checkpoint(d, recoveryPointFile, cleanedFile)
	}
	for l, all := range logs {
		if ctx.Err() != nil {
			return
		}
		if all {
			_ = l.Flush()
		} else {
			_ = l.FlushRolled()
		}
	}
}

// CheckpointHighWatermarks writes replication-offset-checkpoint, as Run does every 5 s.
func (s *Set) CheckpointHighWatermarks() error { return s.checkpointAll(highWatermarkFile) }

// CheckpointStartOffsets writes log-start-offset-checkpoint, so that a DeleteRecords outlives a crash.
func (s *Set) CheckpointStartOffsets() error { return s.checkpointAll(startOffsetFile) }

// CheckpointCleaned writes cleaner-offset-checkpoint of the directory that l lies in, so that what was compacted is known
// after a restart.
func (s *Set) CheckpointCleaned(l *log.Log) error {
	s.mu.RLock()
	p, ok := s.logs[key{l.Topic(), l.Partition()}]
	s.mu.RUnlock()
	if !ok || p.Log != l {
		return nil // it was deleted meanwhile
	}
	return s.checkpoint(p.dir, cleanedFile)
}

func (s *Set) checkpointAll(name string) error {
	var failed error
	for _, d := range s.online() {
		failed = errors.Join(failed, s.checkpoint(d, name))
	}
	return failed
}

// checkpoint writes checkpoint files of one directory; a failure takes it offline.
func (s *Set) checkpoint(d *dir, names ...string) error {
	if err := d.checkpoints(s.snapshot(d), names...); err != nil {
		s.takeOffline(d, err)
		return d.err()
	}
	return nil
}
