package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/cauce-stream/cauce/libs/record"
)

// maxSpares bounds the batches that a shard keeps to use again, and maxSpareBytes how large they may be.
const (
	maxSpares     = 2
	maxSpareBytes = 1 << 20
)

// smallFor is how long batches stay small after the log refused a large one: each time that it does, the shard is loaded again.
const smallFor = 10 * time.Minute

// recordOverhead is the most that a record takes beside its key and value.
const recordOverhead = 32

// batch is steps that are appended together, the end of a transaction, or a fence.
type batch struct {
	builder  *record.Builder // nil for a control batch
	marker   *record.Marker  // that ends the producer's transaction, nil for none
	producer Producer
	steps    int
	position int64 // of its last step
	origins
}

func (b *batch) isFence() bool { return b.builder == nil && b.marker == nil }

// enqueue adds a step's records to the last batch that waits, if they may share it. mu is held.
func (s *shard[M]) enqueue(step *Step, now time.Time) {
	if step.Marker != nil {
		b := &batch{marker: step.Marker, producer: step.Producer, steps: 1, position: s.position}
		b.Add(s.origin)
		s.queue.push(b)
		s.signal()
		return
	}
	size := 0
	for _, rec := range step.Records {
		size += recordOverhead + len(rec.Key) + len(rec.Value)
	}
	if s.maxBytes < s.r.cfg.MaxBatchBytes && now.Sub(s.shrunk) > smallFor {
		s.maxBytes = s.r.cfg.MaxBatchBytes
	}
	var b *batch
	if s.queue.len() > 0 {
		b = *s.queue.back()
	}
	if b == nil || b.builder == nil || b.producer != NoProducer || step.Producer != NoProducer || b.builder.Size()+size > s.maxBytes {
		b = s.newBatch(step.Producer)
		s.queue.push(b)
	}
	before := b.builder.Size()
	for _, rec := range step.Records {
		b.builder.Append(now.UnixMilli(), rec.Key, rec.Value)
	}
	s.pendingBytes += b.builder.Size() - before
	b.steps++
	b.position = s.position
	b.Add(s.origin)
	s.signal()
}

func (s *shard[M]) newBatch(p Producer) *batch {
	b := &batch{builder: record.NewBuilder()}
	if n := len(s.spare); n > 0 {
		b, s.spare = s.spare[n-1], s.spare[:n-1]
	}
	b.producer = p
	if p != NoProducer {
		b.builder.SetProducer(p.ID, p.Epoch, record.NoSequence)
		b.builder.SetTransactional()
	}
	return b
}

// run is the shard's goroutine: it loads the shard and appends what its operations make, and begins again when that fails.
func (s *shard[M]) run() {
	var first time.Time // of the failures
	for failures := 0; ; failures++ {
		err := s.load(s.ctx)
		if err == nil {
			failures = 0
			err = s.serve(s.ctx)
		}
		switch {
		case s.ctx.Err() != nil:
			return // whoever gave the shard up has told those who wait
		case judge(err) == lost:
			s.log.Info("shard has a new owner", zap.Error(err))
			s.unload(stateLost, nil)
			return
		}
		if failures == 0 {
			first = time.Now()
		}
		s.complain(zap.ErrorLevel, "shard is loaded again", failures, first, err)
		s.r.metrics.reloads.Inc()
		if !s.pause(s.ctx, failures) {
			return
		}
	}
}

// hostingTime is for how long it is nothing to worry about that a partition is not there, or not led by whom it was looked for at: a broker hosts a new
// partition, or one that has moved to it, a moment after the cluster knows.
const hostingTime = 5 * time.Second

// complain logs the 1st, 2nd, 4th, 8th … failure in a row.
func (s *shard[M]) complain(level zapcore.Level, text string, failures int, first time.Time, err error) {
	if failures&(failures-1) != 0 {
		return
	}
	notYet := errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.NotLeaderForPartition) || errors.Is(err, kerr.LeaderNotAvailable)
	if notYet && time.Since(first) < hostingTime {
		level = zap.DebugLevel
	}
	s.log.Log(level, text, zap.Int("failures", failures+1), zap.Error(err))
}

// pause waits after a failure; false when ctx has ended.
func (s *shard[M]) pause(ctx context.Context, failures int) bool {
	timer := time.NewTimer(min(s.r.cfg.RetryMin<<min(failures, 20), s.r.cfg.RetryMax))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// serve appends until that is impossible; the shard is unloaded then.
func (s *shard[M]) serve(ctx context.Context) error {
	for {
		b, err := s.next()
		if err == nil && b == nil {
			select {
			case <-s.wake:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err == nil {
			err = s.append(ctx, b)
		}
		if err != nil {
			s.giveUp(b, err)
			return err
		}
		s.commit(b)
	}
}

// next takes the batch that is appended next, if there is one, or the reason to stop.
func (s *shard[M]) next() (*batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil || s.queue.len() == 0 {
		return nil, s.fault
	}
	s.inFlight, s.since = s.queue.pop(), time.Now()
	return s.inFlight, nil
}

// append has the log take the batch, however often it takes.
func (s *shard[M]) append(ctx context.Context, b *batch) error {
	var built record.Batch
	var err error
	switch {
	case b.marker != nil:
		built = record.EndTransaction(*b.marker, b.producer.ID, b.producer.Epoch, time.Now().UnixMilli())
	case b.builder == nil:
		built = s.fence()
	default:
		if built, err = b.builder.AppendTo(s.buffer[:0], record.None, 0); err != nil {
			return err
		}
		if cap(built) <= maxSpareBytes {
			s.buffer = built
		}
	}
	s.r.metrics.batchBytes.Observe(float64(len(built)))
	began := time.Now()
	_, err = s.send(ctx, built, &b.origins)
	s.r.metrics.append.Observe(time.Since(began).Seconds())
	return err
}

// send appends one batch under a sequence of its own, again and again as long as that may help.
func (s *shard[M]) send(ctx context.Context, built record.Batch, from *origins) (offset int64, err error) {
	s.sequence++
	first := time.Now()
	for failures := 0; ; failures++ {
		offset, err = s.attempt(ctx, built, from)
		if err == nil || ctx.Err() != nil || judge(err) != again {
			return offset, err
		}
		s.r.metrics.appendFailures.Inc()
		s.complain(zap.WarnLevel, "append failed and is tried again", failures, first, err)
		if !s.pause(ctx, failures) {
			return 0, ctx.Err()
		}
	}
}

func (s *shard[M]) attempt(ctx context.Context, built record.Batch, from *origins) (int64, error) {
	ctx, span := s.appendSpan(ctx, from)
	offset, err := s.r.deps.Log.Append(ctx, s.id, s.epoch, s.sequence, built)
	end(span, err)
	return offset, err
}

// commit gives the answers that waited for b.
func (s *shard[M]) commit(b *batch) {
	var room [4]completion
	s.mu.Lock()
	if s.inFlight != b {
		s.mu.Unlock()
		return // unloaded meanwhile
	}
	now := time.Now()
	if late := now.Sub(s.since) - s.r.cfg.UnwritableAfter; late > 0 {
		// Clients were refused as long as that: they may have as long to come back before their time is over.
		s.ticksAt = now.Add(min(late, maxGrace))
	}
	s.inFlight = nil
	s.committed, s.carrier = b.position, b.carrier
	s.recycle(b)
	ready := s.ready(room[:0], now)
	s.arm(now)
	s.mu.Unlock()
	complete(ready)
}

// recycle takes the memory of a batch that is committed. mu is held.
func (s *shard[M]) recycle(b *batch) {
	if b.builder == nil {
		return
	}
	s.pendingBytes -= b.builder.Size() - record.HeaderSize
	if len(s.spare) < maxSpares && b.builder.Size() <= maxSpareBytes {
		b.builder.Reset()
		b.steps = 0
		b.Reset()
		b.carrier = trace.SpanContext{}
		s.spare = append(s.spare, b)
	}
}

// giveUp unloads the shard because of err; b is the batch that was to be appended, nil for none.
func (s *shard[M]) giveUp(b *batch, err error) {
	if s.ctx.Err() != nil {
		return
	}
	var told error
	next := stateFailed
	switch {
	case judge(err) == lost:
		next = stateLost
	case b == nil || b.isFence():
	case isTooLarge(err) && b.steps > 1:
		// The topic takes less than expected: whoever asked for the steps asks again, and gets a smaller batch.
		s.refuse(b, err)
		s.mu.Lock()
		s.maxBytes, s.shrunk = b.builder.Size()/2, time.Now()
		s.mu.Unlock()
	case b.producer != NoProducer && !isTooLarge(err):
		told = err // something is wrong with the transaction, which is the client's
		s.refuse(b, err)
	default:
		// The batch is not one that the client knows of, so that a code for it would mislead: UNSUPPORTED_FOR_MESSAGE_FORMAT, say.
		told = fmt.Errorf("%w: %v", kerr.UnknownServerError, err)
		s.refuse(b, err)
	}
	s.unload(next, told)
}

func (s *shard[M]) refuse(b *batch, err error) {
	bytes := 0
	if b.builder != nil {
		bytes = b.builder.Size()
	}
	s.log.Error("the log refuses a batch", zap.Int("bytes", bytes), zap.Int("steps", b.steps), zap.Error(err))
	s.r.metrics.refusedBatches.Inc()
}
