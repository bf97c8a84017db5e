package log

import (
	"encoding/binary"
	"fmt"

	"github.com/cauce-stream/cauce/libs/record"
)

// timeIndex is the .timeindex file: 12-byte entries of the largest timestamp so far (64 bits) and the last offset of the
// batch that brought it, relative to the segment's base (32 bits). Both ascend.
type timeIndex struct {
	table
	// The largest timestamp so far and the last offset of its batch, under table.mu. Before the first use they are
	// those of the last entry, which a sealed index ends with: maxMs is unknownMs until then.
	maxMs, maxOffset int64
}

func (x *timeIndex) init(s *segment, suffix string, width int) {
	x.file = lazyFile{seg: s, suffix: suffix}
	x.width = width
	x.maxMs = unknownMs
}

// forget empties the index.
func (x *timeIndex) forget() {
	x.reset(0)
	x.setMax(record.NoTimestamp, x.file.seg.base)
}

func (x *timeIndex) setMax(ms, offset int64) {
	x.mu.Lock()
	x.maxMs, x.maxOffset = ms, offset
	x.mu.Unlock()
}

// max is the largest timestamp of the segment and the last offset of its batch; NoTimestamp and the base when there is
// none.
func (x *timeIndex) max() (ms, offset int64, err error) {
	x.mu.RLock()
	ms, offset = x.maxMs, x.maxOffset
	x.mu.RUnlock()
	if ms != unknownMs {
		return ms, offset, nil
	}
	if ms, offset, err = x.last(); err != nil {
		return 0, 0, err
	}
	x.mu.Lock()
	if x.maxMs == unknownMs {
		x.maxMs, x.maxOffset = ms, offset
	}
	ms, offset = x.maxMs, x.maxOffset
	x.mu.Unlock()
	return ms, offset, nil
}

// note takes a batch's largest timestamp into account. The index must be loaded, as that of an active segment is.
func (x *timeIndex) note(ms, lastOffset int64) {
	x.mu.Lock()
	if ms > x.maxMs {
		x.maxMs, x.maxOffset = ms, lastOffset
	}
	x.mu.Unlock()
}

// addMax enters the largest timestamp so far, unless the index has it.
func (x *timeIndex) addMax() error {
	ms, offset, err := x.max()
	if err != nil {
		return err
	}
	last, _, err := x.last()
	if err != nil || ms <= last {
		return err
	}
	var e [12]byte
	binary.BigEndian.PutUint64(e[:], uint64(ms))
	binary.BigEndian.PutUint32(e[8:], uint32(offset-x.file.seg.base))
	return x.append(e[:])
}

// last is the newest entry; NoTimestamp and the base when there is none.
func (x *timeIndex) last() (ms, offset int64, err error) {
	n := x.entries()
	if n == 0 {
		return record.NoTimestamp, x.file.seg.base, nil
	}
	e, err := x.at(n - 1)
	ms, offset = x.decode(e)
	return ms, offset, err
}

func (x *timeIndex) decode(e entry) (ms, offset int64) {
	return int64(binary.BigEndian.Uint64(e[:])), x.file.seg.base + int64(int32(binary.BigEndian.Uint32(e[8:])))
}

// lookup is an offset before which the segment holds no timestamp of ms or later.
func (x *timeIndex) lookup(ms int64) (offset int64, err error) {
	// Entries bear the first batch that reached their timestamp, so the last one below ms is a safe place to begin.
	n, e, err := x.search(ms-1, 0, 8)
	if n < 0 || err != nil {
		return x.file.seg.base, err
	}
	_, offset = x.decode(e)
	return offset, nil
}

// cutFrom removes the entries of offset and above.
func (x *timeIndex) cutFrom(offset int64) error {
	n, _, err := x.search(offset-x.file.seg.base-1, 8, 4)
	if err != nil {
		return err
	}
	return x.truncate(n + 1)
}

// OffsetForTime finds the first record (by offset) at or after the log start whose timestamp is ms or later, and the
// leader epoch it was written under. It looks at the whole log: what lies above the high watermark is the caller's to
// refuse. Errors wrap kerr.KafkaStorageError.
func (l *Log) OffsetForTime(ms int64) (offset, timestampMs int64, leaderEpoch int32, found bool, err error) {
	return l.search(func(segs []*segment, start int64) (timed, error) { return findTime(segs, ms, start) })
}

// MaxTimestamp finds the first record that bears the largest timestamp (ListOffsets -3).
func (l *Log) MaxTimestamp() (offset, timestampMs int64, leaderEpoch int32, found bool, err error) {
	return l.search(func(segs []*segment, start int64) (timed, error) {
		largest := int64(record.NoTimestamp)
		for _, s := range segs {
			ms, err := s.maxTimeFrom(start)
			if err != nil {
				return timed{}, err
			}
			largest = max(largest, ms)
		}
		if largest < 0 {
			return timed{}, nil
		}
		return findTime(segs, largest, start)
	})
}

// search runs find over the segments that reach the log start, again if one of them goes away meanwhile.
func (l *Log) search(find func(segs []*segment, start int64) (timed, error)) (int64, int64, int32, bool, error) {
	for attempt := 0; ; attempt++ {
		f, err := timed{}, l.Err()
		if err == nil {
			start := l.start.Load()
			segs := *l.segments.Load()
			f, err = find(segs[max(floor(segs, start), 0):], start)
		}
		if err == nil && f.found {
			return f.offset, f.ms, f.epoch, true, nil
		}
		if err == nil {
			return -1, -1, -1, false, nil
		}
		if again, err := l.readFailed(err, attempt); !again {
			return -1, -1, -1, false, err
		}
	}
}

func findTime(segs []*segment, ms, start int64) (timed, error) {
	for _, s := range segs {
		if f, err := s.findTime(ms, start); f.found || err != nil {
			return f, err
		}
	}
	return timed{}, nil
}

// timed is a record found by its timestamp.
type timed struct {
	offset, ms int64
	epoch      int32
	found      bool
}

// findTime finds the first record at or after offset start whose timestamp is ms or later.
func (s *segment) findTime(ms, start int64) (timed, error) {
	largest, _, err := s.times.max()
	if err != nil || largest < ms {
		return timed{}, err
	}
	from, err := s.times.lookup(ms)
	if err != nil {
		return timed{}, err
	}
	limit := s.size.Load()
	p, found, err := s.locate(max(from, start), limit)
	if err != nil || !found {
		return timed{}, err
	}
	r, err := s.openHeaders(limit)
	if err != nil {
		return timed{}, err
	}
	defer r.close()
	for pos := p.pos; pos < limit; {
		b, size, err := r.at(pos)
		if err != nil {
			return timed{}, fmt.Errorf("%s at byte %d: %w", s.path(logSuffix), pos, err)
		}
		if b.MaxTimestamp() >= ms {
			if f, err := r.recordAtTime(pos, size, ms, start); f.found || err != nil {
				return f, err
			}
		}
		pos += size
	}
	return timed{}, nil
}

// recordAtTime looks for the record inside the batch at pos.
func (r *headers) recordAtTime(pos, size, ms, start int64) (timed, error) {
	b, err := r.whole(pos, size)
	if err != nil {
		return timed{}, err
	}
	offset, t, found, err := b.OffsetForTime(ms, start)
	return timed{offset, t, b.LeaderEpoch(), found}, err
}

// whole reads the batch of that size at pos.
func (r *headers) whole(pos, size int64) (record.Batch, error) {
	b := make(record.Batch, size)
	return b, r.h.readFull(b, pos)
}

// maxTimeFrom is the largest timestamp of the records at or after offset start.
func (s *segment) maxTimeFrom(start int64) (int64, error) {
	limit := s.size.Load()
	ms, last, err := s.times.max()
	if err != nil || ms < 0 {
		return ms, err
	}
	if last >= start {
		p, found, err := s.locate(last, limit)
		if err != nil || found && p.base >= start {
			return ms, err
		}
	}
	// The record that bears it may have been deleted: look at what is left.
	p, found, err := s.locate(start, limit)
	if err != nil || !found {
		return record.NoTimestamp, err
	}
	r, err := s.openHeaders(limit)
	if err != nil {
		return 0, err
	}
	defer r.close()
	ms = record.NoTimestamp
	for pos := p.pos; pos < limit; {
		b, size, err := r.at(pos)
		if err != nil {
			return 0, fmt.Errorf("%s at byte %d: %w", s.path(logSuffix), pos, err)
		}
		if b.BaseOffset() >= start {
			ms = max(ms, largestMsOf(b))
		} else if ms, err = r.maxTimeWithin(pos, size, start); err != nil {
			return 0, err
		}
		pos += size
	}
	return ms, nil
}

// maxTimeWithin is the largest timestamp of the batch's records at or after offset start.
func (r *headers) maxTimeWithin(pos, size, start int64) (int64, error) {
	ms := int64(record.NoTimestamp)
	b, err := r.whole(pos, size)
	if err != nil {
		return ms, err
	}
	for rec, err := range b.Records(0) {
		if err != nil {
			return ms, err
		}
		if b.Offset(rec) >= start {
			ms = max(ms, b.Timestamp(rec))
		}
	}
	return ms, nil
}
