package log

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/cauce-stream/cauce/libs/log/internal/compact"
	"github.com/cauce-stream/cauce/libs/record"
)

// trash is a file that waits to be unlinked.
type trash struct {
	path  string
	dueMs int64 // notYetDue: the next Purge says when
}

// notYetDue has file.delete.delay.ms count from the next Purge on, where the time is not known.
const notYetDue = math.MaxInt64

// Retain removes the segments that retention.ms, retention.bytes or the log start offset no longer need. Their files are
// renamed to .deleted and unlinked by Purge after file.delete.delay.ms. With cleanup.policy=compact alone only the log
// start offset removes segments, and nothing above the high watermark is ever removed.
func (l *Log) Retain(nowMs int64) (removedSegments int, err error) {
	base, err := l.prepareRetain(nowMs)
	if base < 0 || err != nil {
		return 0, err
	}
	// The producers' state must outlive the records it came from.
	if err := errors.Join(l.syncSnapshot(base), l.fs.SyncDir(l.dir)); err != nil && l.Err() == nil {
		return 0, l.fail("retention", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.Err(); err != nil {
		return 0, err
	}
	n, err := l.removable(l.config.Load(), nowMs)
	if err != nil {
		return 0, l.fail("retention", err)
	}
	segs := *l.segments.Load()
	n = min(n, floor(segs, base))
	if n <= 0 {
		return 0, nil
	}
	// The start moves before the segments go, so that a reader finds them or is out of range.
	l.raiseStart(segs[n].base)
	l.setSegments(slices.Clone(segs[n:]))
	dueMs := nowMs + l.config.Load().FileDeleteDelayMs
	for _, s := range segs[:n] {
		if err := l.throwAway(s, dueMs); err != nil {
			return 0, l.fail("retention", err)
		}
	}
	return n, nil
}

// prepareRetain returns the base of the segment that the log can begin with, -1 when nothing is to be removed.
func (l *Log) prepareRetain(nowMs int64) (base int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.Err(); err != nil {
		return -1, err
	}
	n, err := l.removable(l.config.Load(), nowMs)
	if err != nil {
		return -1, l.fail("retention", err)
	}
	if n == 0 {
		return -1, nil
	}
	segs := *l.segments.Load()
	if n < len(segs) {
		return segs[n].base, nil
	}
	// The active segment goes too: an empty one takes its place.
	base = l.end.Load()
	return base, l.roll(base, nowMs)
}

// removable is how many of the oldest segments may go.
func (l *Log) removable(c *Config, nowMs int64) (int, error) {
	segs := *l.segments.Load()
	start, hw := l.start.Load(), l.highWatermark.Load()
	excess := int64(-1)
	if c.Delete && c.RetentionBytes >= 0 {
		excess = l.SizeBytes() - c.RetentionBytes
	}
	for i, s := range segs {
		next := l.end.Load()
		if i+1 < len(segs) {
			next = segs[i+1].base
		} else if s.size.Load() == 0 {
			return i, nil
		}
		if next > hw {
			return i, nil
		}
		excess -= s.size.Load()
		switch {
		case i+1 < len(segs) && next <= start:
		case excess >= 0:
		case c.Delete && c.RetentionMs >= 0:
			ms, err := s.largestMs()
			if err != nil {
				return 0, err
			}
			if nowMs-ms <= c.RetentionMs {
				return i, nil
			}
		default:
			return i, nil
		}
	}
	return len(segs), nil
}

// largestMs is the largest timestamp in the segment or, when its records have none, when the file last changed.
func (s *segment) largestMs() (int64, error) {
	ms, _, err := s.times.max()
	if err != nil || ms >= 0 {
		return ms, err
	}
	info, err := os.Stat(s.path(logSuffix))
	if err != nil {
		return 0, err
	}
	return info.ModTime().UnixMilli(), nil
}

// throwAway renames the files of a segment that is no longer among the log's, and its producer snapshot, to .deleted.
func (l *Log) throwAway(s *segment, dueMs int64) error {
	if i, ok := slices.BinarySearch(l.snapshots, s.base); ok {
		l.snapshots = slices.Delete(l.snapshots, i, i+1)
	}
	s.stage.Store(int32(deleted)) // a reader that opens it from here on looks for the new name
	return l.throwAwayFiles(s, dueMs, logSuffix, indexSuffix, timeSuffix, txnSuffix, snapshotSuffix)
}

// throwAwayFiles renames files of a segment that is no longer among the log's. Readers keep those they hold open.
func (l *Log) throwAwayFiles(s *segment, dueMs int64, suffixes ...string) error {
	// The .log goes first: index files without one are swept up at the next start.
	for _, suffix := range suffixes {
		path := filepath.Join(l.dir, fileName(s.base, suffix))
		err := l.fs.Rename(path, path+deletedSuffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		l.trash = append(l.trash, trash{path + deletedSuffix, dueMs})
	}
	s.drop()
	return nil
}

// Purge unlinks the files of removed segments whose delay is over. It holds nobody up meanwhile: that of a large file takes long.
func (l *Log) Purge(nowMs int64) error {
	for _, path := range l.dueTrash(nowMs) {
		if err := l.fs.Remove(path); err != nil {
			return l.fail("unlink", err)
		}
	}
	return nil
}

// dueTrash takes what is due out of the trash.
func (l *Log) dueTrash(nowMs int64) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.trash) == 0 || l.Err() != nil {
		return nil
	}
	var due []string
	kept := l.trash[:0]
	latestMs := nowMs + l.config.Load().FileDeleteDelayMs
	for _, t := range l.trash {
		t.dueMs = min(t.dueMs, latestMs) // also where the clock was put back since
		if t.dueMs > nowMs {
			kept = append(kept, t)
		} else {
			due = append(due, t.path)
		}
	}
	if l.trash = kept; len(kept) == 0 {
		l.trash = nil
	}
	return due
}

// FindHorizon looks through what was compacted for when some of it may go, which is not known after a start. spend is told of bytes
// before they are read, and ends it by an error.
func (l *Log) FindHorizon(spend func(bytes int) error) error {
	l.compacting.Lock()
	defer l.compacting.Unlock()
	truncations := l.truncations.Load()
	first := int64(math.MaxInt64)
	for _, s := range *l.segments.Load() {
		if s.base >= l.cleanedTo.Load() {
			break
		}
		ms, err := s.horizon(first, func(bytes int) error { return errors.Join(spend(bytes), l.Err()) })
		if err != nil {
			return fmt.Errorf("look through %s-%d: %w", l.topic, l.partition, err)
		}
		first = min(first, ms)
	}
	return l.noteCleaned(0, first, truncations)
}

// horizon is the least delete horizon below ms of a batch that has something to go, or ms.
func (s *segment) horizon(ms int64, spend func(bytes int) error) (int64, error) {
	size := s.size.Load()
	r, err := s.openHeaders(size)
	if err != nil {
		return ms, err
	}
	defer r.close()
	for pos := int64(0); pos < size; {
		if err := spend(record.HeaderSize); err != nil {
			return ms, err
		}
		b, n, err := r.at(pos)
		if err != nil {
			return ms, fmt.Errorf("%s at byte %d: %w", s.path(logSuffix), pos, err)
		}
		if b.HasDeleteHorizon() && b.BaseTimestamp() < ms {
			whole, err := r.whole(pos, n)
			if err != nil {
				return ms, err
			}
			mortal, err := compact.IsMortal(whole)
			if err != nil {
				return ms, fmt.Errorf("%s at byte %d: %w", s.path(logSuffix), pos, err)
			}
			if mortal {
				ms = whole.BaseTimestamp()
			}
		}
		pos += n
	}
	return ms, nil
}
