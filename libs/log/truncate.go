package log

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// TruncateTo removes every record at or above offset. A batch that holds offset goes as a whole, and the end is then where
// it began.
func (l *Log) TruncateTo(offset int64) error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.Err(); err != nil {
		return err
	}
	if offset < 0 {
		return fmt.Errorf("truncate to offset %d: %w", offset, kerr.OffsetOutOfRange)
	}
	if offset >= l.end.Load() {
		l.epochs.cutFrom(offset) // one that begins at the end may be in conflict with the leader's
		return nil
	}
	segs := *l.segments.Load()
	keep := floor(segs, offset) + 1
	if keep == 0 {
		return l.restartAt(offset, offset, l.lastMs)
	}
	s := segs[keep-1]
	size := s.size.Load()
	p, found, err := s.locate(offset, size)
	if err != nil {
		return l.fail("truncate", err)
	}
	if found {
		offset, size = min(offset, p.base), p.pos
	}
	l.lowerBounds(offset)
	l.setSegments(segs[:keep:keep])
	if err := l.discard(segs[keep:]); err != nil {
		return l.fail("truncate", err)
	}
	if err := s.truncate(offset, size); err != nil {
		return l.fail("truncate", err)
	}
	l.sealed.Store(min(l.sealed.Load(), s.base))
	l.epochs.cutFrom(offset)
	l.tail.reset(mark{offset, s, s.size.Load()})
	if err := l.rebuildProducers(offset); err != nil {
		return l.fail("rebuild producer state", err)
	}
	l.settle()
	if l.onTruncate != nil {
		l.onTruncate(l)
	}
	return nil
}

// lowerBounds brings every published offset down to offset where it is above. mu and flushMu are held.
func (l *Log) lowerBounds(offset int64) {
	l.tail.mu.Lock()
	l.end.Store(offset)
	l.highWatermark.Store(min(l.highWatermark.Load(), offset))
	l.start.Store(min(l.start.Load(), offset))
	l.tail.mu.Unlock()
	l.truncations.Add(1)
	l.cleanedTo.Store(min(l.cleanedTo.Load(), offset))
	l.flushed.Store(min(l.flushed.Load(), offset))
	l.sealed.Store(min(l.sealed.Load(), offset))
}

// truncate removes the batches that hold offset or more, which begin at size.
func (s *segment) truncate(offset, size int64) error {
	if err := s.offsets.cutFrom(offset); err != nil {
		return err
	}
	if err := s.times.cutFrom(offset); err != nil {
		return err
	}
	if err := s.txns.cutFrom(offset); err != nil {
		return err
	}
	s.size.Store(size)
	h, err := s.file.acquire()
	if err != nil {
		return err
	}
	defer h.release()
	// What was cut off must not come back after a crash, in front of what follows in a later segment.
	if err := errors.Join(s.fs.Truncate(h.File, size), s.fs.Sync(h.File)); err != nil {
		return err
	}
	if size == 0 {
		s.firstMs = unknownMs
	}
	s.durable.Store(false) // it takes batches again
	_, err = s.resume()
	return err
}

// resume finds out what appending needs to know of a segment that has its indexes: the bytes since the last index entry,
// the largest timestamp and the offset after the last batch.
func (s *segment) resume() (end int64, err error) {
	size := s.size.Load()
	_, pos, err := s.offsets.last()
	if err != nil {
		return 0, err
	}
	if pos > 0 && pos >= size {
		return 0, fmt.Errorf("%s: the index goes beyond it: %w", s.path(logSuffix), errBadHeader)
	}
	s.sinceIndex = int(size - pos)
	ms, offset, err := s.times.last()
	if err != nil {
		return 0, err
	}
	end = s.base
	if size > 0 {
		// A time index entry comes with an offset index entry or at the very end, so that the batches after the last of
		// both are all that the time index may not know.
		r, err := s.openHeaders(size)
		if err != nil {
			return 0, err
		}
		defer r.close()
		for pos < size {
			b, n, err := r.at(pos)
			if err == nil && b.BaseOffset() < end {
				err = errBadHeader
			}
			if err != nil {
				return 0, fmt.Errorf("%s at byte %d: %w", s.path(logSuffix), pos, err)
			}
			if largest := largestMsOf(b); largest > ms {
				ms, offset = largest, b.LastOffset()
			}
			end = b.LastOffset() + 1
			pos += n
		}
	}
	s.times.setMax(ms, offset)
	return end, nil
}

// TruncateFullyAndStartAt empties the log and makes offset its start and end.
func (l *Log) TruncateFullyAndStartAt(offset int64) error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.Err(); err != nil {
		return err
	}
	return l.restartAt(offset, offset, l.lastMs)
}

// restartBelow lets an empty log begin at base, below its start offset.
func (l *Log) restartBelow(base int64) error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.Err(); err != nil {
		return err
	}
	start := l.start.Load()
	if start != l.end.Load() {
		return fmt.Errorf("the log begins at %d and has records: %w", start, ErrUnexpectedOffset)
	}
	return l.restartAt(base, start, l.lastMs)
}

// restartAt empties the log, whose first segment then begins at base and whose start, end and high watermark are start.
// mu and flushMu are held.
func (l *Log) restartAt(base, start, nowMs int64) error {
	old := *l.segments.Load()
	s := newSegment(l.fs, l.dir, base, nowMs)
	s.times.forget()
	l.lowerBounds(min(base, l.end.Load()))
	l.setSegments([]*segment{s})
	if err := l.discard(old); err != nil {
		return l.fail("truncate", err)
	}
	if err := s.create(l.config.Load()); err != nil {
		return l.fail("new segment", err)
	}
	for _, offset := range l.snapshots {
		if err := l.fs.Remove(filepath.Join(l.dir, fileName(offset, snapshotSuffix))); err != nil {
			return l.fail("truncate", err)
		}
	}
	l.snapshots = nil
	l.producers = producers{end: base}
	l.epochs.cutFrom(0)
	l.tail.reset(mark{start, s, 0})
	l.tail.mu.Lock()
	l.end.Store(start)
	l.highWatermark.Store(start)
	l.start.Store(start)
	l.tail.mu.Unlock()
	l.settle()
	if l.onTruncate != nil {
		l.onTruncate(l)
	}
	return nil
}

// discard takes segments out of use, the newest first, and makes sure that they stay away after a crash: records of the
// same offsets may follow in other files.
func (l *Log) discard(segs []*segment) error {
	for _, s := range slices.Backward(segs) {
		if err := l.throwAway(s, notYetDue); err != nil {
			return err
		}
	}
	if len(segs) == 0 {
		return nil
	}
	return l.fs.SyncDir(l.dir)
}

// DeleteRecords moves the log start offset up to offset (-1: the high watermark) and returns the new low watermark.
// An offset at or below the start changes nothing; one above the high watermark is kerr.OffsetOutOfRange.
func (l *Log) DeleteRecords(offset int64) (lowWatermark int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.Err(); err != nil {
		return -1, err
	}
	hw := l.highWatermark.Load()
	if offset == -1 {
		offset = hw
	}
	if offset < 0 || offset > hw {
		return -1, fmt.Errorf("delete records up to offset %d above the high watermark %d: %w", offset, hw, kerr.OffsetOutOfRange)
	}
	l.raiseStart(offset)
	return l.start.Load(), nil
}

// SetStartOffset follows the leader's log start offset: it raises the start to offset, clamped to the high watermark.
func (l *Log) SetStartOffset(offset int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.Err(); err != nil {
		return err
	}
	l.raiseStart(min(offset, l.highWatermark.Load()))
	return nil
}

// raiseStart moves the start up to offset, which is not above the high watermark. mu is held.
func (l *Log) raiseStart(offset int64) {
	if offset <= l.start.Load() {
		return
	}
	l.start.Store(offset)
	l.epochs.cutBefore(offset)
	l.settle()
}
