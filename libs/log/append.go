package log

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/record"
)

// AppendInfo tells where an append landed.
type AppendInfo struct {
	FirstOffset     int64
	LastOffset      int64
	LogAppendTimeMs int64 // -1 for CreateTime topics
	LogStartOffset  int64
	EndOffset       int64 // LastOffset+1: acks=all waits for the high watermark to reach it
	Duplicate       bool  // the batch was already there; the offsets are the original ones
}

// RecordError is the record-level part of a refused append (errors.As), as record_errors in a Produce response.
type RecordError = record.RecordError

// ErrUnexpectedOffset is wrapped by AppendAsFollower when the leader's batches do not continue the log.
var ErrUnexpectedOffset = errors.New("batches do not continue the log")

// Append stores one batch of a client as the partition's leader. The batch is validated, given its offsets, leader epoch
// and (where the topic's config demands) timestamps in place, and is not retained. Errors wrap a *kerr.Error
// (CorruptMessage, InvalidRecord, InvalidTimestamp, MessageTooLarge, RecordListTooLarge, UnsupportedCompressionType,
// OutOfOrderSequenceNumber, InvalidProducerEpoch, InvalidTxnState, KafkaStorageError) and may carry a *RecordError.
func (l *Log) Append(batch []byte, leaderEpoch int32, nowMs int64) (AppendInfo, error) {
	return l.appendLeader(batch, nil, leaderEpoch, nowMs, writer{origin: fromClient})
}

// AppendReceived is Append for a batch whose checksum from record.AttributesAt on was taken as it was received.
func (l *Log) AppendReceived(batch []byte, checksum uint32, leaderEpoch int32, nowMs int64) (AppendInfo, error) {
	return l.appendLeader(batch, &checksum, leaderEpoch, nowMs, writer{origin: fromClient})
}

// AppendAsCoordinator is Append for batches written on behalf of a coordinator: control batches (transaction markers)
// are allowed and sequence numbers are not checked. It adds TransactionCoordinatorFenced to the errors.
func (l *Log) AppendAsCoordinator(batch []byte, leaderEpoch int32, nowMs int64) (AppendInfo, error) {
	return l.appendLeader(batch, nil, leaderEpoch, nowMs, writer{origin: fromCoordinator})
}

func (l *Log) appendLeader(raw []byte, checksum *uint32, leaderEpoch int32, nowMs int64, w writer) (AppendInfo, error) {
	if err := l.Err(); err != nil {
		return AppendInfo{}, err
	}
	b, rest, err := record.Next(raw)
	switch {
	case err == io.EOF:
		return AppendInfo{}, fmt.Errorf("there is no batch: %w", kerr.InvalidRecord)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return AppendInfo{}, fmt.Errorf("%w: %w", err, kerr.CorruptMessage)
	case err != nil:
		return AppendInfo{}, err
	case len(rest) > 0:
		return AppendInfo{}, fmt.Errorf("%d bytes follow the batch: %w", len(rest), kerr.InvalidRecord)
	}
	c := l.config.Load()
	if b, err = prepare(b, checksum, c, nowMs, w); err != nil {
		return AppendInfo{}, err
	}
	if l.nameless.Load() {
		if err := l.syncMetadata(); err != nil {
			return AppendInfo{}, err
		}
	}
	info, err := l.appendOne(b, c, leaderEpoch, nowMs, w)
	if err != nil {
		return AppendInfo{}, err
	}
	if c.LogAppendTime {
		if !info.Duplicate {
			info.LogAppendTimeMs = nowMs
		}
	} else {
		info.LogAppendTimeMs = record.NoTimestamp
	}
	return info, l.flushIfDue(c, info.EndOffset)
}

// prepare does all that needs no lock: it validates the batch and gives it the codec and timestamps that the topic
// wants, in place unless its codec changes.
func prepare(b record.Batch, checksum *uint32, c *Config, nowMs int64, w writer) (record.Batch, error) {
	o := record.ValidateOptions{
		MaxBytes:     c.MaxMessageBytes,
		Checksum:     checksum,
		Strict:       c.StrictValidation,
		AllowControl: !w.isClient(),
		RequireKeys:  c.Compact && !b.IsControl(),

		MaxRecordBytes: c.MaxDecompressedMessageBytes,
	}
	if !c.LogAppendTime {
		o.MinTimestampMs, o.MaxTimestampMs = timestampLimits(c, nowMs)
	}
	sum, err := record.Validate(b, o)
	if err != nil {
		return nil, err
	}
	if b, err = convert(b, c); err != nil {
		return nil, err
	}
	if c.LogAppendTime {
		b.SetMaxTimestamp(record.LogAppendTime, nowMs)
	} else if sum.MaxTimestampMs != b.MaxTimestamp() {
		// Some clients leave the header's maximum empty; lookups by time and retention rely on it.
		b.SetMaxTimestamp(record.CreateTime, sum.MaxTimestampMs)
	}
	return b, nil
}

// timestampLimits are the oldest and newest timestamps accepted at nowMs.
func timestampLimits(c *Config, nowMs int64) (minMs, maxMs int64) {
	minMs, maxMs = math.MinInt64, math.MaxInt64
	if c.TimestampBeforeMaxMs <= nowMs {
		minMs = nowMs - c.TimestampBeforeMaxMs
	}
	if c.TimestampAfterMaxMs <= math.MaxInt64-nowMs {
		maxMs = nowMs + c.TimestampAfterMaxMs
	}
	return minMs, maxMs
}

// appendOne is the part of an append under the mutex.
func (l *Log) appendOne(b record.Batch, c *Config, leaderEpoch int32, nowMs int64, w writer) (AppendInfo, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.Err(); err != nil {
		return AppendInfo{}, err
	}
	if b.ProducerID() >= 0 {
		duplicate, err := l.producers.check(b, w)
		if err != nil {
			return AppendInfo{}, err
		}
		if duplicate != nil {
			return AppendInfo{
				FirstOffset: duplicate.firstOffset(), LastOffset: duplicate.lastOffset, EndOffset: duplicate.lastOffset + 1,
				LogAppendTimeMs: duplicate.timestampMs, LogStartOffset: l.start.Load(), Duplicate: true,
			}, nil
		}
	}
	if len(b) > c.SegmentBytes {
		return AppendInfo{}, fmt.Errorf("batch of %d bytes exceeds a segment of %d: %w", len(b), c.SegmentBytes, kerr.RecordListTooLarge)
	}
	b.SetBaseOffset(l.end.Load())
	b.SetLeaderEpoch(leaderEpoch)
	l.lastMs = nowMs
	if err := l.rollIfFull(c, b.BaseOffset(), b.LastOffset(), b.MaxTimestamp(), len(b), nowMs); err != nil {
		return AppendInfo{}, err
	}
	if err := l.write(b, c); err != nil {
		return AppendInfo{}, err
	}
	if p := l.producers.get(b.ProducerID()); p != nil {
		p.seenMs = nowMs
	}
	return AppendInfo{
		FirstOffset: b.BaseOffset(), LastOffset: b.LastOffset(), EndOffset: b.LastOffset() + 1, LogStartOffset: l.start.Load(),
	}, nil
}

// write appends whole batches that fit the active segment with one pwrite, enters them in the indexes and the producer
// state, and publishes them. mu is held.
func (l *Log) write(batches []byte, c *Config) error {
	s := l.active()
	h, err := s.file.acquire()
	if err != nil {
		return l.fail("open segment", err)
	}
	defer h.release()
	if s.durable.Load() {
		s.durable.Store(false)
	}
	pos := s.size.Load()
	s.reserveAhead(h, pos+int64(len(batches)), c)
	if _, err := l.fs.WriteAt(h.File, batches, pos); err != nil {
		// What was written is cut off again, so that a later reader of the folder finds whole batches only; if that fails
		// too, recovery does it.
		return l.fail("append", errors.Join(err, l.fs.Truncate(h.File, pos)))
	}
	end, size := int64(0), pos
	for rest := batches; len(rest) > 0; {
		var b record.Batch
		if b, rest, err = record.Next(rest); err != nil {
			return l.fail("append", err) // unreachable: the caller has split them
		}
		if err := s.noteBatch(b, len(b), size, c); err != nil {
			return l.fail("index", err)
		}
		l.epochs.assign(b.LeaderEpoch(), b.BaseOffset())
		if aborted, ok := l.producers.apply(b); ok {
			if err := s.txns.add(aborted); err != nil {
				return l.fail("transaction index", err)
			}
		}
		size += int64(len(b))
		end = b.LastOffset() + 1
	}
	if len(l.producers.open)+len(l.producers.unreplicated) > 0 {
		l.settle()
	}
	// Readers take the end first, then the place, then the size: it is published the other way round.
	s.size.Store(size)
	l.tail.push(mark{end, s, size})
	l.end.Store(end)
	return nil
}

// rollIfFull starts a new segment when the active one cannot take a batch of size bytes with these offsets and largest
// timestamp. mu is held.
func (l *Log) rollIfFull(c *Config, first, last, maxMs int64, size int, nowMs int64) error {
	s := l.active()
	if l.fits(s, c, last, size) {
		if s.size.Load() == 0 {
			return nil
		}
		waited, err := s.waitedMs(maxMs, nowMs)
		if err != nil {
			return l.fail("read segment", err)
		}
		if waited <= c.SegmentMs-jitter(s, c) {
			return nil
		}
	}
	// Segments follow each other without a gap, so that recovery sees when one has lost its end. Only offsets too far
	// apart for the indexes begin a segment elsewhere.
	base := l.end.Load()
	if last-base > math.MaxInt32 {
		base = first
	}
	return l.roll(base, nowMs)
}

func (l *Log) fits(s *segment, c *Config, last int64, size int) bool {
	if !s.reaches(last) {
		return false
	}
	have := s.size.Load()
	return have == 0 || have+int64(size) <= int64(c.SegmentBytes) &&
		s.offsets.entries() < c.SegmentIndexBytes/s.offsets.width &&
		s.times.entries() < c.SegmentIndexBytes/s.times.width-1 // the last one is for the roll
}

// jitter spreads the rolls of segments that began together. It need not be random, only spread.
func jitter(s *segment, c *Config) int64 {
	limit := min(c.SegmentJitterMs, c.SegmentMs)
	if limit <= 0 {
		return 0
	}
	h := uint64(14695981039346656037) // FNV-1a
	for _, b := range []byte(s.dir) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	h = (h ^ uint64(s.base)) * 1099511628211
	return int64(h % uint64(limit))
}

// roll seals the active segment and begins one at base, with a snapshot of the producers so that recovery can begin
// there. An active segment that is empty and begins at base already stays. mu is held.
func (l *Log) roll(base, nowMs int64) error {
	old := l.active()
	if old.base == base {
		return nil // it is empty
	}
	if err := old.seal(); err != nil {
		return l.fail("seal segment", err)
	}
	l.producers.end = base
	if err := l.takeSnapshot(); err != nil {
		return l.fail("producer snapshot", err)
	}
	s := newSegment(l.fs, l.dir, base, nowMs)
	if err := s.create(l.config.Load()); err != nil {
		return l.fail("new segment", err)
	}
	s.times.forget()
	segs := *l.segments.Load()
	l.setSegments(append(segs[:len(segs):len(segs)], s))
	l.rolled = true
	if l.onRoll != nil {
		l.onRoll(l)
	}
	return nil
}

// AppendAsFollower stores whole batches fetched from the leader, with the offsets and epochs they carry. Their CRCs are
// checked. Bytes after the last whole batch are ignored. Errors wrap kerr.CorruptMessage, kerr.KafkaStorageError or
// [ErrUnexpectedOffset].
func (l *Log) AppendAsFollower(batches []byte) (AppendInfo, error) {
	whole, first, last, err := checkReplicated(batches)
	if err != nil {
		return AppendInfo{}, err
	}
	if l.nameless.Load() {
		if err := l.syncMetadata(); err != nil {
			return AppendInfo{}, err
		}
	}
	info, err := l.appendReplicated(whole, first, last)
	if err == errBeginsBelow {
		if err = l.restartBelow(first); err == nil {
			info, err = l.appendReplicated(whole, first, last)
		}
	}
	if err != nil {
		return AppendInfo{}, err
	}
	return info, l.flushIfDue(l.config.Load(), info.EndOffset)
}

// errBeginsBelow says that an empty log has to begin below its start offset: after DeleteRecords in the middle of a batch
// that is where the leader's first batch begins.
var errBeginsBelow = fmt.Errorf("%w: the first begins below the start offset", ErrUnexpectedOffset)

// appendReplicated is the part of AppendAsFollower under the mutex.
func (l *Log) appendReplicated(whole []byte, first, last int64) (AppendInfo, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.Err(); err != nil {
		return AppendInfo{}, err
	}
	info := AppendInfo{FirstOffset: first, LastOffset: last, LogAppendTimeMs: record.NoTimestamp, LogStartOffset: l.start.Load(), EndOffset: last + 1}
	if len(whole) == 0 {
		info.EndOffset = l.end.Load()
		return info, nil
	}
	if end := l.end.Load(); first < end {
		if l.start.Load() != end || record.Batch(whole).LastOffset() < end {
			return AppendInfo{}, fmt.Errorf("batch at offset %d after %d: %w", first, end, ErrUnexpectedOffset)
		}
		if s := l.active(); s.base != first || s.size.Load() > 0 {
			return AppendInfo{}, errBeginsBelow
		}
	}
	c := l.config.Load()
	for len(whole) > 0 {
		n, err := l.makeRoom(whole, c)
		if err != nil {
			return AppendInfo{}, err
		}
		if err := l.write(whole[:n], c); err != nil {
			return AppendInfo{}, err
		}
		whole = whole[n:]
	}
	return info, nil
}

// checkReplicated finds the whole batches in b, with their first and last offset, and checks CRCs and order.
func checkReplicated(b []byte) (whole []byte, first, last int64, err error) {
	first, last = -1, -1
	rest := b
	for len(rest) > 0 {
		batch, next, err := record.Next(rest)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err == nil {
			err = batch.CheckCRC()
		}
		if err != nil {
			return nil, -1, -1, err
		}
		if first < 0 {
			first = batch.BaseOffset()
		}
		if batch.BaseOffset() <= last || batch.LastOffsetDelta() < 0 {
			return nil, -1, -1, fmt.Errorf("batch at offset %d after %d: %w", batch.BaseOffset(), last, ErrUnexpectedOffset)
		}
		last, rest = batch.LastOffset(), next
	}
	return b[:len(b)-len(rest)], first, last, nil
}

// makeRoom rolls if the first batch does not fit the active segment, and returns the length of as many as then do.
func (l *Log) makeRoom(batches []byte, c *Config) (n int, err error) {
	for rest := batches; len(rest) > 0; {
		b, next, err := record.Next(rest)
		if err != nil {
			return 0, l.fail("append", err) // unreachable: checkReplicated has split them
		}
		if n == 0 {
			if err := l.rollIfFull(c, b.BaseOffset(), b.LastOffset(), b.MaxTimestamp(), len(b), l.lastMs); err != nil {
				return 0, err
			}
		} else if s := l.active(); !l.fits(s, c, b.LastOffset(), n+len(b)) || s.size.Load() == 0 && n+len(b) > c.SegmentBytes {
			return n, nil
		}
		n += len(b)
		rest = next
	}
	return n, nil
}
