package log

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"os"
	"slices"

	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/log/internal/compact"
	"github.com/cauce-stream/cauce/libs/record"
)

// Cleanable is what there is to compact in a log. Offsets are those of segments' beginnings, but for FirstDirty.
type Cleanable struct {
	FirstDirty       int64 // everything below was compacted before
	FirstUncleanable int64 // what lies from here on may not be compacted yet
	CleanBytes       int64
	DirtyBytes       int64 // from FirstDirty up to FirstUncleanable
	OverdueMs        int64 // by how long max.compaction.lag.ms is exceeded; 0 when it is not
	HorizonDue       bool  // marks of deleted keys have outlived delete.retention.ms
	HorizonUnknown   bool  // since the log was opened: FindHorizon tells
}

// DirtyRatio is the share of what may be compacted that was not yet, from 0 to 1 (min.cleanable.dirty.ratio).
func (c Cleanable) DirtyRatio() float64 {
	if c.DirtyBytes == 0 {
		return 0
	}
	return float64(c.DirtyBytes) / float64(c.CleanBytes+c.DirtyBytes)
}

// CompactOptions rule one compaction.
type CompactOptions struct {
	NowMs int64
	// DedupeBytes bounds the memory for keys, 24 bytes each, of which LoadFactor, from 0 to 1, is filled
	// (log.cleaner.dedupe.buffer.size, log.cleaner.io.buffer.load.factor).
	DedupeBytes int64
	LoadFactor  float64
	// BufferBytes is how much is written at a time (log.cleaner.io.buffer.size).
	BufferBytes int
	// Spend is told of bytes before they are read or written. It may wait, and ends the compaction by an error.
	Spend func(bytes int) error
}

// Compacted says what a compaction did.
type Compacted struct {
	Cleanable
	EndOffset    int64 // everything below is compacted now
	BytesRead    int64 // of the log, which is read once more where it was dirty
	BytesWritten int64
	RecordsRead  int64
	RecordsKept  int64
	KeyFill      float64 // share of the memory for keys that was taken
}

// ErrTooManyKeys says that the keys of one batch do not fit the memory for keys.
var ErrTooManyKeys = errors.New("the memory for keys is too small for one batch: log.cleaner.dedupe.buffer.size divided by log.cleaner.threads")

// errOvertaken says that the segments being compacted were truncated or removed meanwhile.
var errOvertaken = errors.New("the log changed while it was compacted")

// CleanedTo is the offset below which everything was compacted (cleaner-offset-checkpoint).
func (l *Log) CleanedTo() int64 { return l.cleanedTo.Load() }

// RollIdle completes an active segment that has been there for segment.ms or max.compaction.lag.ms, although nothing is
// appended that would: the records of a topic that nobody writes to any more are to be compacted too.
func (l *Log) RollIdle(nowMs int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, s := l.config.Load(), l.active()
	if l.Err() != nil || s.size.Load() == 0 || nowMs-s.createdMs <= c.SegmentMs {
		return l.Err()
	}
	return l.roll(l.end.Load(), nowMs)
}

// Cleanable tells what there is to compact at nowMs. The active segment may not be, nor what is not committed and decided,
// nor what is younger than min.compaction.lag.ms.
func (l *Log) Cleanable(nowMs int64) (Cleanable, error) {
	if err := l.Err(); err != nil {
		return Cleanable{}, err
	}
	found, _, err := l.cleanable(nowMs)
	if err != nil && l.Err() == nil {
		err = fmt.Errorf("%s-%d: %w", l.topic, l.partition, err)
	}
	return found, err
}

// cleanable is Cleanable with the segments below FirstUncleanable and, as the last, the one that begins there.
func (l *Log) cleanable(nowMs int64) (found Cleanable, segs []*segment, err error) {
	c := l.config.Load()
	bound := l.StableOffset() // before the segments, so that they reach it
	segs = *l.segments.Load()
	found.FirstDirty = max(l.cleanedTo.Load(), segs[0].base)
	n := 0
	for ; n+1 < len(segs) && segs[n+1].base <= bound; n++ {
		s, size := segs[n], segs[n].size.Load()
		if segs[n+1].base <= found.FirstDirty {
			found.CleanBytes += size
			continue
		}
		if c.MinCompactionLagMs > 0 {
			ms, err := s.largestMs()
			if err != nil {
				return found, nil, err
			}
			if ms > nowMs-c.MinCompactionLagMs {
				break
			}
		}
		if found.OverdueMs, err = s.overdue(found.OverdueMs, c, nowMs); err != nil {
			return found, nil, err
		}
		found.DirtyBytes += size
	}
	found.FirstUncleanable = segs[n].base
	found.FirstDirty = min(found.FirstDirty, found.FirstUncleanable)
	horizon := l.horizonMs.Load()
	found.HorizonUnknown = horizon == unknownMs && found.CleanBytes > 0
	found.HorizonDue = horizon != unknownMs && horizon <= nowMs && found.CleanBytes > 0
	return found, segs[:n+1], nil
}

// overdue is how long max.compaction.lag.ms is exceeded by the first batch of s, or by ms if that is longer.
func (s *segment) overdue(ms int64, c *Config, nowMs int64) (int64, error) {
	if c.MaxCompactionLagMs == math.MaxInt64 {
		return ms, nil
	}
	b, err := s.first()
	if err != nil || b == nil {
		return ms, err
	}
	first := b.MaxTimestamp()
	if first < 0 {
		if first, err = s.largestMs(); err != nil {
			return ms, err
		}
	}
	return max(ms, nowMs-c.MaxCompactionLagMs-first), nil
}

// Compact compacts the log, as far as that may be and as its keys fit the memory for them. Readers go on meanwhile: a range
// that they hold stays as it is. One compaction of a log runs at a time. An error other than kerr.KafkaStorageError leaves
// the log as it was, or compacted in parts; it wraps kerr.CorruptMessage or kerr.InvalidRecord when the log is broken.
func (l *Log) Compact(o CompactOptions) (Compacted, error) {
	l.compacting.Lock()
	defer l.compacting.Unlock()
	if err := l.Err(); err != nil {
		return Compacted{}, err
	}
	p := pass{l: l, o: o, c: l.config.Load(), truncations: l.truncations.Load()}
	err := p.run()
	if failed := l.Err(); failed != nil {
		return p.did, failed
	}
	if err != nil {
		return p.did, fmt.Errorf("compact %s-%d: %w", l.topic, l.partition, err)
	}
	return p.did, nil
}

// pass is one compaction.
type pass struct {
	l           *Log
	o           CompactOptions
	c           *Config
	truncations int64
	segs        []*segment // those that may be compacted and the one behind them
	filter      *compact.Filter
	did         Compacted
	out         []byte
	same        bool // what is kept of the group is what was there
}

func (p *pass) run() (err error) {
	if p.did.Cleanable, p.segs, err = p.l.cleanable(p.o.NowMs); err != nil {
		return err
	}
	p.did.EndOffset = p.did.FirstDirty
	if p.did.DirtyBytes == 0 && !p.did.HorizonDue {
		return nil
	}
	aborted, err := p.aborted()
	if err != nil {
		return err
	}
	seeds := [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	keys := compact.NewOffsetMap(p.did.FirstDirty, p.o.DedupeBytes, p.o.LoadFactor, func(key []byte) (hi, lo uint64) {
		return maphash.Bytes(seeds[0], key), maphash.Bytes(seeds[1], key)
	})
	if err := p.mapKeys(keys, slices.Clone(aborted)); err != nil {
		return err
	}
	p.did.KeyFill = keys.Fill()
	p.filter = compact.NewFilter(keys, compact.NewTransactions(aborted))
	p.filter.NowMs, p.filter.DeleteRetentionMs, p.filter.Level = p.o.NowMs, p.c.DeleteRetentionMs, p.level
	p.filter.Producers = p.l.lastBatches()
	err = p.rewriteAll()
	p.did.RecordsRead, p.did.RecordsKept = p.filter.RecordsRead, p.filter.RecordsKept
	if err != nil {
		return err
	}
	return p.l.noteCleaned(p.did.EndOffset, p.filter.NextHorizonMs, p.truncations)
}

// level is the compression level for a codec: the topic's if that is its codec, else the codec's own.
func (p *pass) level(codec record.Codec) int {
	if c := p.c.compression; !c.asSent && c.codec == codec {
		return c.level
	}
	return 0
}

// aborted is the transactions of the log that were aborted. The markers of some may lie behind the segments of the pass.
func (p *pass) aborted() ([]compact.Aborted, error) {
	var all []compact.Aborted
	for _, s := range *p.l.segments.Load() {
		txns, err := s.txns.read()
		if err != nil {
			return nil, err
		}
		for _, t := range txns {
			if t.first < p.did.FirstUncleanable {
				all = append(all, compact.Aborted{ProducerID: t.producerID, First: t.first, Last: t.last, Stable: t.stable})
			}
		}
	}
	return all, nil
}

// lastBatches is the last batch of each producer that is remembered.
func (l *Log) lastBatches() map[int64]compact.LastBatch {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := make(map[int64]compact.LastBatch, len(l.producers.byID))
	for _, p := range l.producers.byID {
		x := compact.LastBatch{Offset: -1, Epoch: p.epoch}
		if m := p.last(); m != nil {
			x.Offset = m.lastOffset
		}
		last[p.id] = x
	}
	return last
}

// mapKeys enters the keys of the dirty segments until there is no room, and says where to end.
func (p *pass) mapKeys(keys *compact.OffsetMap, aborted []compact.Aborted) error {
	txns := compact.NewTransactions(aborted)
	for i, s := range p.segs[:len(p.segs)-1] {
		if p.segs[i+1].base <= p.did.FirstDirty {
			continue
		}
		full := false
		err := p.scan(s, func(b record.Batch, _ bool) (err error) {
			if b.LastOffset() >= p.did.FirstDirty {
				if full, err = keys.Note(b, txns, p.did.FirstDirty); err == nil && full {
					err = io.EOF
				}
			}
			return err
		})
		if err != nil {
			return err
		}
		if full {
			p.did.EndOffset = keys.Latest() + 1
			if p.did.EndOffset == p.did.FirstDirty {
				return ErrTooManyKeys
			}
			return nil
		}
	}
	p.did.EndOffset = p.did.FirstUncleanable
	return nil
}

// scan calls do for each batch of s, whose checksum is right, in order; the last one is told so. io.EOF from do ends the
// scan.
func (p *pass) scan(s *segment, do func(b record.Batch, last bool) error) error {
	h, err := s.file.acquire()
	if err != nil {
		return err
	}
	defer h.release()
	sc := scannerOf(h.File, s.size.Load())
	defer sc.close()
	for spent := int64(0); ; {
		b, pos, err := sc.next()
		if err == nil {
			err = b.CheckCRC()
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s at byte %d: %w", s.path(logSuffix), pos, err)
		}
		// Spending by pieces keeps the bookkeeping away from small batches.
		if last := sc.pos == sc.size; last || sc.pos-spent >= spendBytes {
			p.did.BytesRead += sc.pos - spent
			if err := errors.Join(p.o.Spend(int(sc.pos-spent)), p.l.Err()); err != nil {
				return err
			}
			spent = sc.pos
		}
		if err := do(b, sc.pos == sc.size); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s at byte %d: %w", s.path(logSuffix), pos, err)
		}
	}
}

const spendBytes = 64 << 10

// rewriteAll rewrites the segments below EndOffset, group by group.
func (p *pass) rewriteAll() error {
	n := 0
	for n+1 < len(p.segs) && p.segs[n].base < p.did.EndOffset {
		n++
	}
	for i := 0; i < n; {
		size := p.groupAt(i, n)
		if err := p.rewrite(p.segs[i : i+size]); err != nil {
			return err
		}
		i += size
	}
	return nil
}

// groupAt is how many segments from number i on, of those before n, one segment can take the place of.
func (p *pass) groupAt(i, n int) int {
	const room = math.MaxInt32 - 64<<20 // what is kept may become longer: the times are told otherwise, the codec's level differs
	first := p.segs[i]
	bytes, offsets, times := first.size.Load(), first.offsets.entries(), first.times.entries()
	k := i + 1
	for ; k < n; k++ {
		s := p.segs[k]
		bytes += s.size.Load()
		offsets += s.offsets.entries()
		times += s.times.entries()
		if bytes > int64(min(p.c.SegmentBytes, room)) || !first.reaches(p.segs[k+1].base-1) ||
			offsets*first.offsets.width > p.c.SegmentIndexBytes || times*first.times.width > p.c.SegmentIndexBytes {
			break
		}
	}
	return k - i
}

// rewrite puts one segment in the place of the group, unless it would be the same.
func (p *pass) rewrite(group []*segment) error {
	to := newSegment(p.l.fs, p.l.dir, group[0].base, p.o.NowMs)
	to.stage.Store(int32(cleaned))
	err := p.fill(to, group)
	if err == nil && len(group) == 1 && p.same {
		return to.remove()
	}
	if err == nil {
		err = p.finish(to, group)
	}
	if err == nil {
		err = p.l.replace(group, to, p.truncations, p.o.NowMs)
	}
	if err != nil && p.l.Err() == nil {
		err = errors.Join(err, to.remove())
	}
	return err
}

// fill writes into to what is kept of the group.
func (p *pass) fill(to *segment, group []*segment) error {
	if err := to.create(&Config{}); err != nil {
		return err
	}
	to.times.forget()
	p.out, p.same = p.out[:0], true
	for i, s := range group {
		err := p.scan(s, func(b record.Batch, last bool) error { return p.keep(to, b, last && i == len(group)-1) })
		if err != nil {
			return err
		}
	}
	return p.flush(to)
}

// keep writes what stays of a batch.
func (p *pass) keep(to *segment, b record.Batch, last bool) error {
	before := len(p.out)
	out, aborted, err := p.filter.Append(p.out, b, last)
	if err != nil {
		return err
	}
	if aborted != nil {
		if err := to.txns.add(abortedTxn{aborted.ProducerID, aborted.First, aborted.Last, aborted.Stable}); err != nil {
			return err
		}
	}
	p.out = out
	kept := record.Batch(out[before:])
	p.same = p.same && bytes.Equal(kept, b)
	if len(kept) == 0 {
		return nil
	}
	pos := to.size.Load() + int64(before)
	if pos+int64(len(kept)) > math.MaxInt32 {
		return fmt.Errorf("what is kept exceeds a segment's %d bytes", math.MaxInt32)
	}
	if err := to.noteBatch(kept, len(kept), pos, p.c); err != nil {
		return err
	}
	if len(out) < p.o.BufferBytes {
		return nil
	}
	return p.flush(to)
}

// flush writes the buffer out.
func (p *pass) flush(to *segment) error {
	if len(p.out) == 0 {
		return nil
	}
	if err := p.o.Spend(len(p.out)); err != nil {
		return err
	}
	h, err := to.file.acquire()
	if err != nil {
		return err
	}
	defer h.release()
	size := to.size.Load()
	if _, err := p.l.fs.WriteAt(h.File, p.out, size); err != nil {
		return err
	}
	p.did.BytesWritten += int64(len(p.out))
	to.size.Store(size + int64(len(p.out)))
	if cap(p.out) > 4*p.o.BufferBytes {
		p.out = nil // a huge batch made it grow
	}
	p.out = p.out[:0]
	return nil
}

// finish completes the segment and brings it to the disk. Retention by time goes by when the last of the group changed, where
// records have no timestamps.
func (p *pass) finish(to *segment, group []*segment) error {
	if err := to.seal(); err != nil {
		return err
	}
	if err := to.sync(true); err != nil {
		return err
	}
	to.durable.Store(true)
	info, err := os.Stat(group[len(group)-1].path(logSuffix))
	if err != nil {
		return err
	}
	to.createdMs = info.ModTime().UnixMilli()
	return p.l.fs.SetModified(to.path(logSuffix), info.ModTime())
}

// remove takes the files of a segment away that is no part of the log.
func (s *segment) remove() error {
	s.drop()
	var failed error
	for _, suffix := range []string{logSuffix, indexSuffix, timeSuffix, txnSuffix} {
		failed = errors.Join(failed, s.fs.Remove(s.path(suffix)))
	}
	return failed
}

// rename gives the files of a segment the names of another stage, the .log first: where there is one, finishSwaps takes
// what else is in place for old.
func (s *segment) rename(next stage) error {
	from := map[string]string{}
	for _, suffix := range []string{logSuffix, indexSuffix, timeSuffix, txnSuffix} {
		from[suffix] = s.path(suffix)
	}
	s.stage.Store(int32(next))
	for _, suffix := range []string{logSuffix, indexSuffix, timeSuffix, txnSuffix} {
		if suffix == txnSuffix && !s.txns.exists.Load() {
			continue
		}
		if err := s.fs.Rename(from[suffix], s.path(suffix)); err != nil {
			return err
		}
	}
	return nil
}

// replace puts to, whose .cleaned files are on the disk, in the place of the group. Whenever the process ends, the next
// start finds the one or the other: a segment counts from when all its files are called .swap, and that is on the disk
// before any of the group goes (finishSwaps). Readers find either. It waits for the disk without the lock of appends.
func (l *Log) replace(group []*segment, to *segment, truncations, nowMs int64) error {
	l.flushMu.Lock() // keeps truncation away
	defer l.flushMu.Unlock()
	if err := l.stillThere(group, truncations); err != nil {
		return err
	}
	if err := errors.Join(to.rename(swapping), l.fs.SyncDir(l.dir)); err != nil {
		return l.fail("compact", err)
	}
	if err := l.swap(group, to, truncations, nowMs); err != nil {
		return err
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return l.fail("compact", err)
	}
	return nil
}

// stillThere tells by an error when the group is no longer part of the log.
func (l *Log) stillThere(group []*segment, truncations int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.placeOf(group, truncations)
	return err
}

// swap is the part of replace from when a restart would find the new segment.
func (l *Log) swap(group []*segment, to *segment, truncations, nowMs int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, err := l.placeOf(group, truncations)
	if err != nil {
		return err // retention was quicker
	}
	segs := *l.segments.Load()
	to.linked = true
	l.setSegments(slices.Concat(segs[:i], []*segment{to}, segs[i+len(group):]))
	dueMs := nowMs + l.config.Load().FileDeleteDelayMs
	for _, s := range group {
		s.stage.Store(int32(replaced))
		if err := l.throwAwayFiles(s, dueMs, logSuffix, indexSuffix, timeSuffix, txnSuffix); err != nil {
			return l.fail("compact", err)
		}
	}
	for _, s := range group[1:] {
		if err := l.dropSnapshot(s.base); err != nil {
			return l.fail("compact", err)
		}
	}
	if err := to.rename(inPlace); err != nil {
		return l.fail("compact", err)
	}
	l.logger.Debug("segments compacted", zap.String("dir", l.dir), zap.Int64("base", to.base), zap.Int("segments", len(group)),
		zap.Int64("bytes", to.size.Load()))
	return nil
}

// dropSnapshot removes the producer snapshot of a segment's beginning that there is no more. mu is held.
func (l *Log) dropSnapshot(base int64) error {
	i, ok := slices.BinarySearch(l.snapshots, base)
	if !ok {
		return nil
	}
	l.snapshots = slices.Delete(l.snapshots, i, i+1)
	return l.fs.Remove(l.snapshotPath(base))
}

// placeOf is where the group is among the segments. mu is held.
func (l *Log) placeOf(group []*segment, truncations int64) (at int, err error) {
	if err := l.Err(); err != nil {
		return 0, err
	}
	segs := *l.segments.Load()
	at = slices.Index(segs, group[0])
	if at < 0 || at+len(group) >= len(segs) || l.truncations.Load() != truncations || !slices.Equal(segs[at:at+len(group)], group) {
		return 0, errOvertaken
	}
	return at, nil
}

// noteCleaned notes that everything below end was compacted.
func (l *Log) noteCleaned(end, horizonMs, truncations int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.truncations.Load() != truncations {
		return errOvertaken
	}
	l.cleanedTo.Store(max(l.cleanedTo.Load(), end))
	l.horizonMs.Store(horizonMs)
	return nil
}
