package log

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/record"
)

// corruptSuffix marks what recovery had to take out of a log although it may hold records. Nothing ever removes it.
const corruptSuffix = ".corrupt"

// recover brings segments, indexes, producer state and epochs into agreement and returns the end offset.
func (l *Log) recover(o Options, epochsKnown bool) (end int64, err error) {
	segs := *l.segments.Load()
	if len(segs) == 0 {
		return o.LogStartOffset, l.loadProducers(-1)
	}
	first := len(segs) // of the segments to scan
	if !o.CleanShutdown {
		first = max(floor(segs, o.RecoveryPoint), 0)
	} else if end, err = l.resumeActive(segs); err != nil {
		l.logger.Warn("recovering a segment that was closed in order", zap.String("dir", l.dir), zap.Error(err))
		first--
	}
	for _, s := range segs[:first] {
		s.durable.Store(true)
		if s.needsIndexes {
			if err := l.rebuildIndexes(s); err != nil {
				return 0, err
			}
		}
		if !epochsKnown {
			if err := l.collectEpochs(s); err != nil {
				return 0, err
			}
		}
	}
	if first == len(segs) {
		// The active segment counts as durable until it is written to.
		if err := l.loadProducers(end); err != nil {
			return 0, err
		}
		if err := l.recallBatches(o.NowMs); err != nil {
			return 0, err
		}
		return end, l.replay(end)
	}
	// Snapshots above what is certain may describe records that did not survive.
	base := segs[first].base
	if err := l.loadProducers(base); err != nil {
		return 0, err
	}
	if err := l.recallBatches(o.NowMs); err != nil {
		return 0, err
	}
	if err := l.replay(base); err != nil {
		return 0, err
	}
	return l.recoverFrom(first, o.RecoveryPoint)
}

// resumeActive takes up the last segment of a log that was closed in order, and returns the end offset.
func (l *Log) resumeActive(segs []*segment) (end int64, err error) {
	s := segs[len(segs)-1]
	if s.needsIndexes {
		return 0, fmt.Errorf("%s: index files are missing or damaged", s.path(logSuffix))
	}
	return s.resume()
}

// recoverFrom scans the segments from number first on. What follows the first fault goes.
func (l *Log) recoverFrom(first int, recoveryPoint int64) (end int64, err error) {
	segs := *l.segments.Load()
	end = segs[first].base
	for i := first; i < len(segs); i++ {
		s := segs[i]
		if gap := s.base - end; i > first && (gap < 0 || gap > 0 && gap <= math.MaxInt32 && s.base > l.cleanedTo.Load()) {
			// The one before lost its end, or should no longer be there. (Apache Kafka's compaction makes gaps too; ours leaves
			// the last batch of a segment, empty if need be.)
			l.logger.Error("segment does not continue the one before", zap.String("segment", s.path(logSuffix)), zap.Int64("end", end))
			return end, l.setAside(i)
		}
		end = s.base
		if i > first {
			l.producers.end = end
			if err := l.takeSnapshot(); err != nil {
				return 0, err
			}
		}
		next, fault, err := l.recoverSegment(s, i+1 < len(segs))
		if err != nil {
			return 0, err
		}
		end = max(end, next)
		if fault != nil {
			level := l.logger.Warn
			if end < recoveryPoint {
				level = l.logger.Error // the disk lost what it had promised to keep
			}
			level("log is cut off at a fault", zap.String("segment", s.path(logSuffix)), zap.Int64("end", end),
				zap.Int64("recoveryPoint", recoveryPoint), zap.Error(fault))
			return end, l.setAside(i + 1)
		}
		if i+1 < len(segs) {
			if err := s.seal(); err != nil {
				return 0, err
			}
		}
	}
	return end, nil
}

// recoverSegment reads a segment batch by batch, makes its indexes anew, applies the batches to producers and epochs, and
// cuts the file off after the last valid one. fault says why it was cut, and is nil when it was whole.
func (l *Log) recoverSegment(s *segment, hasNext bool) (end int64, fault, err error) {
	if err := s.clearIndexes(); err != nil {
		return 0, nil, err
	}
	if err := s.txns.clear(); err != nil {
		return 0, nil, err
	}
	h, err := s.file.acquire()
	if err != nil {
		return 0, nil, err
	}
	defer h.release()
	sc, err := newScanner(h.File)
	if err != nil {
		return 0, nil, err
	}
	defer sc.close()
	c := l.config.Load()
	end = s.base
	for {
		b, pos, err := sc.next()
		if err == nil {
			err = s.checkBatch(b, end)
		}
		if err == io.EOF {
			s.size.Store(pos)
			return end, nil, nil
		}
		if errors.Is(err, kerr.CorruptMessage) {
			return end, err, l.cutTail(s, h, sc, pos, end, hasNext)
		}
		if err != nil {
			return 0, nil, fmt.Errorf("%s at byte %d: %w", s.path(logSuffix), pos, err)
		}
		if err := s.noteBatch(b, len(b), pos, c); err != nil {
			return 0, nil, err
		}
		if b.LeaderEpoch() > l.epochs.latest() {
			l.epochs.assign(b.LeaderEpoch(), b.BaseOffset())
		}
		if aborted, ok := l.producers.apply(b); ok {
			if err := s.txns.add(aborted); err != nil {
				return 0, nil, err
			}
		}
		end = b.LastOffset() + 1
	}
}

// checkBatch tells whether b can follow the batches before offset end.
func (s *segment) checkBatch(b record.Batch, end int64) error {
	if err := b.CheckCRC(); err != nil {
		return err
	}
	if b.BaseOffset() < end || !s.reaches(b.LastOffset()) {
		return fmt.Errorf("batch of offsets %d to %d after %d: %w", b.BaseOffset(), b.LastOffset(), end, kerr.CorruptMessage)
	}
	return nil
}

func (s *segment) clearIndexes() error {
	for _, t := range []*table{&s.offsets.table, &s.times.table} {
		if t.entries() == 0 && !s.needsIndexes {
			continue // it is there and empty
		}
		t.file.drop()
		f, err := s.fs.Create(s.path(t.file.suffix))
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	s.offsets.reset(0)
	s.times.forget()
	s.sinceIndex, s.firstMs, s.needsIndexes = 0, unknownMs, false
	return nil
}

// cutTail cuts the segment off at pos, where offset end was expected. When that may take whole batches along it keeps what is cut in a file beside it:
// a torn write loses nothing that was acknowledged, but damage in the middle of a log does.
func (l *Log) cutTail(s *segment, h *handle, sc *scanner, pos, end int64, hasNext bool) error {
	n := sc.size - pos
	if hasNext || n > int64(l.config.Load().MaxMessageBytes) || sc.batchFollows(pos, n, end) {
		aside := s.path(logSuffix) + fmt.Sprintf(".%d", pos) + corruptSuffix
		l.logger.Error("keeping damaged records aside", zap.String("file", aside), zap.Int64("bytes", n))
		if err := l.copyRange(aside, h, pos, sc.size); err != nil {
			return err
		}
	}
	s.size.Store(pos)
	return l.fs.Truncate(h.File, pos)
}

func (l *Log) copyRange(to string, h *handle, from, upTo int64) error {
	f, err := l.fs.Create(to)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := scanBuffers.Get().(*[scanBufferSize]byte)
	defer scanBuffers.Put(buf)
	for at := from; at < upTo; {
		part := buf[:min(int64(len(buf)), upTo-at)]
		if err := h.readFull(part, at); err != nil {
			return err
		}
		if _, err := l.fs.WriteAt(f, part, at-from); err != nil {
			return err
		}
		at += int64(len(part))
	}
	return l.fs.Sync(f)
}

// setAside takes the segments from number i on out of the log: they follow a hole. Empty ones go for good.
func (l *Log) setAside(i int) error {
	segs := *l.segments.Load()
	for _, s := range slices.Backward(segs[i:]) {
		s.drop()
		path := s.path(logSuffix)
		var err error
		if s.size.Load() > 0 {
			l.logger.Error("keeping a segment aside that follows a fault", zap.String("file", path+corruptSuffix))
			err = l.fs.Rename(path, path+corruptSuffix)
		} else {
			err = l.fs.Remove(path)
		}
		for _, suffix := range []string{indexSuffix, timeSuffix, txnSuffix} {
			err = errors.Join(err, l.fs.Remove(s.path(suffix)))
		}
		if err != nil {
			return err
		}
	}
	l.setSegments(segs[:i:i])
	if i == len(segs) {
		return nil
	}
	return l.fs.SyncDir(l.dir)
}

// rebuildIndexes makes the indexes of a complete segment anew. Records after a fault, if there is one, stay where they are.
func (l *Log) rebuildIndexes(s *segment) error {
	l.logger.Warn("making the indexes anew", zap.String("segment", s.path(logSuffix)))
	if err := s.clearIndexes(); err != nil {
		return err
	}
	size := s.size.Load()
	r, err := s.openHeaders(size)
	if err != nil {
		return err
	}
	defer r.close()
	c := l.config.Load()
	for pos := int64(0); pos < size; {
		b, n, err := r.at(pos)
		if errors.Is(err, kerr.CorruptMessage) {
			l.logger.Error("segment is damaged", zap.String("segment", s.path(logSuffix)), zap.Int64("position", pos), zap.Error(err))
			break
		}
		if err == nil {
			err = s.noteBatch(b, int(n), pos, c)
		}
		if err != nil {
			return err
		}
		pos += n
	}
	s.durable.Store(false) // the new index files are not on the disk
	return s.seal()
}

// collectEpochs takes the leader epochs from a segment's batches.
func (l *Log) collectEpochs(s *segment) error {
	size := s.size.Load()
	r, err := s.openHeaders(size)
	if err != nil {
		return err
	}
	defer r.close()
	for pos := int64(0); pos < size; {
		b, n, err := r.at(pos)
		if err != nil {
			return fmt.Errorf("%s at byte %d: %w", s.path(logSuffix), pos, err)
		}
		if b.LeaderEpoch() > l.epochs.latest() {
			l.epochs.assign(b.LeaderEpoch(), b.BaseOffset())
		}
		pos += n
	}
	return nil
}

// loadProducers takes the producer state from the newest usable snapshot at or below offset upTo and removes those above,
// which the log may outgrow with other records.
func (l *Log) loadProducers(upTo int64) error {
	l.producers = producers{}
	if segs := *l.segments.Load(); len(segs) > 0 {
		l.producers.end = segs[0].base
	}
	for n := len(l.snapshots); n > 0; n = len(l.snapshots) {
		offset := l.snapshots[n-1]
		path := l.snapshotPath(offset)
		if offset <= upTo {
			raw, err := os.ReadFile(path)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			state, err := decodeProducers(raw, offset)
			if err == nil {
				l.producers = *state
				return nil
			}
			l.logger.Warn("ignoring a producer snapshot", zap.String("file", path), zap.Error(err))
		}
		if err := l.fs.Remove(path); err != nil {
			return err
		}
		l.snapshots = l.snapshots[:n-1]
	}
	return nil
}

const (
	recallMs    = 15 * 60_000 // a producer silent for longer has given up sending again (delivery.timeout.ms is 2 minutes)
	recallBytes = 256 << 10
)

// recallBatches completes the state of a snapshot, which holds one batch of each producer, by those that came shortly
// before: a producer whose answers were lost in the restart sends up to five again.
func (l *Log) recallBatches(nowMs int64) error {
	segs := *l.segments.Load()
	end := l.producers.end
	i := floor(segs, end-1)
	recent := func(p *producer) bool { return p.kept > 0 && nowMs-p.lastMs < recallMs }
	if i < 0 || !slices.ContainsFunc(l.producers.byID, recent) {
		return nil
	}
	limit, err := segs[i].position(end)
	if err != nil {
		return err
	}
	if i > 0 && limit < recallBytes {
		if err := l.recallFrom(segs[i-1], segs[i-1].size.Load()); err != nil {
			return err
		}
	}
	return l.recallFrom(segs[i], limit)
}

// recallFrom recalls the batches in the last recallBytes of s before limit.
func (l *Log) recallFrom(s *segment, limit int64) error {
	pos, err := s.offsets.before(limit - recallBytes)
	if err != nil || limit == 0 {
		return err
	}
	r, err := s.openHeaders(limit)
	if err != nil {
		return err
	}
	defer r.close()
	for pos < limit {
		b, n, err := r.at(pos)
		if err != nil {
			return nil // whatever is wrong there, it takes no state away
		}
		if p := l.producers.get(b.ProducerID()); p != nil && !b.IsControl() && p.epoch == b.ProducerEpoch() {
			p.recall(b)
		}
		pos += n
	}
	return nil
}

// rebuildProducers makes the producer state that of the records below offset, which is the log's end.
func (l *Log) rebuildProducers(offset int64) error {
	if err := l.loadProducers(offset); err != nil {
		return err
	}
	return l.replay(offset)
}

// replay applies the batches from the producers' end up to offset upTo, reading their headers only.
func (l *Log) replay(upTo int64) error {
	from := l.producers.end
	segs := *l.segments.Load()
	for _, s := range segs[max(floor(segs, from), 0):] {
		if s.base >= upTo {
			break
		}
		if err := l.replaySegment(s, from, upTo); err != nil {
			return err
		}
	}
	l.producers.end = max(from, upTo)
	return nil
}

func (l *Log) replaySegment(s *segment, from, upTo int64) error {
	size := s.size.Load()
	p, found, err := s.locate(from, size)
	if err != nil || !found {
		return err
	}
	r, err := s.openHeaders(size)
	if err != nil {
		return err
	}
	defer r.close()
	for pos := p.pos; pos < size; {
		b, n, err := r.at(pos)
		if err == nil && b.IsControl() {
			b, err = r.whole(pos, n)
		}
		if err != nil {
			return fmt.Errorf("%s at byte %d: %w", s.path(logSuffix), pos, err)
		}
		if b.BaseOffset() >= upTo {
			return nil
		}
		l.producers.apply(b)
		pos += n
	}
	return nil
}
