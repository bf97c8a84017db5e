package log

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Flush writes everything appended so far to the disk and moves the recovery point.
func (l *Log) Flush() error { return l.flush(func() int64 { return l.end.Load() }) }

// FlushRolled writes the segments that take no more records to the disk, as is due after OnRoll.
func (l *Log) FlushRolled() error { return l.flush(func() int64 { return l.active().base }) }

// FlushIfOlder flushes when the last flush is flush.ms or longer ago.
func (l *Log) FlushIfOlder(nowMs int64) error {
	if l.recoveryPoint.Load() >= l.end.Load() || nowMs-l.lastFlushMs.Load() < l.config.Load().FlushMs {
		return nil
	}
	l.lastFlushMs.Store(nowMs)
	return l.Flush()
}

// flushIfDue flushes when flush.messages records up to end are not on the disk. Appends that wait here while a flush is
// under way share the next one.
func (l *Log) flushIfDue(c *Config, end int64) error {
	if end-l.recoveryPoint.Load() < c.FlushMessages {
		return nil
	}
	return l.flush(func() int64 {
		if l.recoveryPoint.Load() >= end {
			return 0
		}
		return l.end.Load()
	})
}

// flush brings everything below target(), and the segments that are complete, to the disk. target is asked once no other
// flush is under way.
func (l *Log) flush(target func() int64) error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	l.mu.Lock()
	if err := l.Err(); err != nil {
		l.mu.Unlock()
		return err
	}
	upTo, from := target(), l.recoveryPoint.Load()
	if upTo <= from && !l.rolled {
		l.mu.Unlock()
		return nil
	}
	l.rolled = false
	segs := *l.segments.Load()
	snapshots := slices.Clone(l.snapshots)
	linkDir := false
	for _, s := range segs {
		linkDir = linkDir || !s.linked
		s.linked = true
	}
	l.mu.Unlock()

	err := l.syncFiles(segs, snapshots, from, upTo)
	if err == nil && linkDir {
		err = l.syncDir()
	}
	if err != nil {
		return l.fail("flush", err)
	}
	if upTo > from {
		l.recoveryPoint.Store(upTo) // nobody lowered it meanwhile: truncation takes flushMu
	}
	return nil
}

// syncFiles syncs what holds the records of [from, upTo) and what recovery from upTo will rely on. flushMu is held.
func (l *Log) syncFiles(segs []*segment, snapshots []int64, from, upTo int64) error {
	for i, s := range segs {
		active := i == len(segs)-1
		if s.durable || active && s.base >= upTo {
			continue
		}
		// The indexes of the active segment can wait: recovery makes them anew.
		if err := s.sync(!active); err != nil && !s.deleted.Load() {
			return err
		}
		s.durable = !active
	}
	for _, offset := range snapshots {
		if offset >= from && offset <= upTo {
			if err := l.syncSnapshot(offset); err != nil {
				return err
			}
		}
	}
	return l.writeEpochs(true)
}

// syncDir syncs the folder and, the first time, its own entry.
func (l *Log) syncDir() error {
	if err := l.fs.SyncDir(l.dir); err != nil || l.dirLinked {
		return err
	}
	l.dirLinked = true
	if err := l.syncMetadata(); err != nil {
		return err
	}
	return l.fs.SyncDir(filepath.Dir(l.dir))
}

// Rest is what an owner calls now and then: a log that has had no append since sinceMs is flushed, and gives up memory and
// the descriptors that nobody has used since the last call.
func (l *Log) Rest(sinceMs int64) error {
	l.mu.Lock()
	if l.Err() != nil {
		l.mu.Unlock()
		return nil
	}
	idle := l.lastMs < sinceMs
	segs := *l.segments.Load()
	var err error
	if s := segs[len(segs)-1]; idle {
		if err = s.offsets.shrink(); err == nil {
			err = s.times.shrink()
		}
	}
	l.mu.Unlock()
	if err != nil {
		return l.fail("write index", err)
	}
	if idle {
		if err := l.Flush(); err != nil {
			return err
		}
	}
	for i, s := range segs {
		// A descriptor through which unsynced records were written stays: a failed write-back is reported to it.
		if next := l.end.Load(); i+1 < len(segs) && segs[i+1].base <= l.recoveryPoint.Load() || l.recoveryPoint.Load() >= next {
			s.file.dropIdle()
			s.txns.file.dropIdle()
		}
		s.offsets.file.dropIdle()
		s.times.file.dropIdle()
	}
	return nil
}

// Close flushes and closes the log in order. Slices held stay readable. A log that has failed only lets go of its files.
func (l *Log) Close() error {
	err := l.finish()
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Fence(fmt.Errorf("%s-%d is closed: %w", l.topic, l.partition, kerr.KafkaStorageError))
	l.dropFiles()
	return err
}

func (l *Log) finish() error {
	l.mu.Lock()
	if err := l.Err(); err != nil {
		l.mu.Unlock()
		return err
	}
	err := l.active().seal()
	if err == nil {
		err = l.takeSnapshot()
	}
	l.mu.Unlock()
	if err != nil {
		return l.fail("close", err)
	}
	if err := l.Flush(); err != nil {
		return err
	}
	// A log without records that it could lose saves the time of syncing.
	if err := l.writeEpochs(l.SizeBytes() > 0); err != nil {
		return l.fail("close", err)
	}
	return nil
}

// takeSnapshot writes the producer state as of its end, unless a snapshot of that offset is there. mu is held.
func (l *Log) takeSnapshot() error {
	end := l.producers.end
	if len(l.producers.byID) == 0 && end <= (*l.segments.Load())[0].base {
		return nil
	}
	i, found := slices.BinarySearch(l.snapshots, end)
	if found {
		return nil
	}
	f, err := l.fs.Create(l.snapshotPath(end))
	if err != nil {
		return err
	}
	_, err = l.fs.WriteAt(f, l.producers.encode(), 0)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	l.snapshots = slices.Insert(l.snapshots, i, end)
	l.rolled = true // so that the next flush syncs it
	return nil
}

func (l *Log) syncSnapshot(offset int64) error {
	f, err := os.OpenFile(l.snapshotPath(offset), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed meanwhile
	}
	if err != nil {
		return err
	}
	return errors.Join(l.fs.Sync(f), f.Close())
}

func (l *Log) snapshotPath(offset int64) string {
	return filepath.Join(l.dir, fileName(offset, snapshotSuffix))
}
