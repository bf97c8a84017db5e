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

// FlushDue tells whether there is something to flush and that was due last flush.ms or longer ago.
func (l *Log) FlushDue(nowMs int64) bool {
	lastMs := l.lastFlushMs.Load()
	if nowMs < lastMs { // the clock was put back: flush.ms counts anew
		lastMs = nowMs
		l.lastFlushMs.Store(nowMs)
	}
	if l.flushed.Load() >= l.end.Load() || nowMs-lastMs < l.config.Load().FlushMs {
		return false
	}
	l.lastFlushMs.Store(nowMs)
	return l.Err() == nil
}

// flushIfDue flushes when flush.messages records up to end are not on the disk. Appends that wait here while a flush is
// under way share the next one.
func (l *Log) flushIfDue(c *Config, end int64) error {
	if end-l.flushed.Load() < c.FlushMessages {
		return nil
	}
	return l.flush(func() int64 {
		if l.flushed.Load() >= end {
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
	upTo := target()
	if upTo <= l.flushed.Load() && !l.rolled {
		l.mu.Unlock()
		return nil
	}
	batch := l.collect(upTo)
	l.mu.Unlock()
	if err := l.sync(batch, false); err != nil {
		return l.fail("flush", err)
	}
	return nil
}

// unsynced is what a flush has to do.
type unsynced struct {
	upTo      int64
	segments  []*segment
	snapshots []int64
	linkDir   bool // the folder has new entries
}

// collect takes stock for a flush up to offset upTo. mu is held.
func (l *Log) collect(upTo int64) unsynced {
	u := unsynced{upTo: upTo, segments: *l.segments.Load(), snapshots: slices.Clone(l.snapshots)}
	l.rolled = false
	for _, s := range u.segments {
		u.linkDir = u.linkDir || !s.linked
		s.linked = true
	}
	return u
}

// sync brings u to the disk, and what recovery from its offset on will rely on. With final that includes the indexes of the
// active segment, which recovery would make anew. flushMu is held.
func (l *Log) sync(u unsynced, final bool) error {
	from := l.flushed.Load()
	sealed := u.upTo
	for i, s := range u.segments {
		active := i == len(u.segments)-1 && !final
		if active {
			sealed = s.base
		}
		if s.durable.Load() || active && s.base >= u.upTo {
			continue
		}
		if err := s.sync(!active); err != nil && stage(s.stage.Load()) != deleted {
			return err
		}
		s.durable.Store(!active)
	}
	for _, offset := range u.snapshots {
		if offset >= from && offset <= u.upTo {
			if err := l.syncSnapshot(offset); err != nil {
				return err
			}
		}
	}
	if err := l.writeEpochs(true); err != nil {
		return err
	}
	if u.linkDir {
		if err := l.syncDir(); err != nil {
			return err
		}
	}
	l.sealed.Store(sealed)
	l.flushed.Store(max(from, u.upTo)) // nobody lowered it meanwhile: truncation takes flushMu
	return nil
}

// syncDir syncs the folder and, the first time, its own entry.
func (l *Log) syncDir() error {
	if err := l.fs.SyncDir(l.dir); err != nil || l.dirLinked {
		return err
	}
	l.dirLinked = true
	return l.fs.SyncDir(filepath.Dir(l.dir))
}

// Rest is what an owner calls now and then: a log that was not appended to since the last call gives up memory, and every
// log the descriptors that nobody has used since. It tells whether such an idle log has records that are not on the disk:
// a Flush then lets it give up the rest, and saves recovery.
func (l *Log) Rest() (unflushed bool, err error) {
	l.mu.Lock()
	if err := l.Err(); err != nil {
		l.mu.Unlock()
		return false, err
	}
	segs, end := *l.segments.Load(), l.end.Load()
	idle := l.restEnd == end
	l.restEnd = end
	if s := segs[len(segs)-1]; idle {
		err = errors.Join(s.offsets.shrink(), s.times.shrink())
	}
	l.mu.Unlock()
	if err != nil {
		return false, l.fail("write index", err)
	}
	flushed := l.flushed.Load()
	for i, s := range segs {
		next := end
		if i+1 < len(segs) {
			next = segs[i+1].base
		}
		if next <= flushed {
			// A descriptor through which unsynced records were written stays: a failed write-back is reported to it.
			s.file.dropIdle()
			s.txns.file.dropIdle()
		}
		s.offsets.file.dropIdle()
		s.times.file.dropIdle()
	}
	return idle && flushed < end, nil
}

// Close flushes and closes the log in order. Slices held stay readable. A log that has failed only lets go of its files.
func (l *Log) Close() error { return l.close((*Log).finish) }

// CloseUnsynced is Close but for waiting for the disk: the caller brings the whole file system there, which is quicker for
// many logs, before it relies on any.
func (l *Log) CloseUnsynced() error { return l.close((*Log).finishUnsynced) }

func (l *Log) close(finish func(*Log) error) error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.Err()
	if err == nil {
		if err = finish(l); err != nil {
			err = l.fail("close", err)
		}
	}
	l.Fence(fmt.Errorf("%s-%d is closed: %w", l.topic, l.partition, kerr.KafkaStorageError))
	l.dropFiles()
	return err
}

// finish brings everything to the disk, so that the log can be opened without recovery. A log that has not changed, or has
// no records to lose, saves the time. mu and flushMu are held.
func (l *Log) finish() error {
	if err := l.active().seal(); err != nil {
		return err
	}
	if err := l.takeSnapshot(); err != nil {
		return err
	}
	end, s := l.end.Load(), l.active()
	if l.rolled || l.flushed.Load() < end || !s.durable.Load() && s.size.Load() > 0 {
		if err := l.sync(l.collect(end), true); err != nil {
			return err
		}
	}
	l.sealed.Store(end)
	return l.writeEpochs(l.SizeBytes() > 0)
}

// finishUnsynced writes what finish writes. mu and flushMu are held.
func (l *Log) finishUnsynced() error {
	if err := l.active().seal(); err != nil {
		return err
	}
	if err := l.takeSnapshot(); err != nil {
		return err
	}
	l.flushed.Store(l.end.Load())
	l.sealed.Store(l.end.Load())
	return l.writeEpochs(false)
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
