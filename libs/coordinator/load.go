package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/record"
)

// load fences earlier owners, replays the log and activates the shard.
func (s *shard[M]) load(ctx context.Context) error {
	began := time.Now()
	s.mu.Lock()
	s.stalls = s.r.stalls.count(began)
	s.mu.Unlock()
	s.setState(stateLoading)
	ctx, span := s.span(ctx, "load")
	m, records, err := s.replay(ctx)
	end(span, err)
	if err != nil {
		s.setState(stateFailed)
		return err
	}
	took := time.Since(began)
	s.r.metrics.load.Observe(took.Seconds())
	s.log.Info("shard loaded", zap.Int64("records", records), zap.Duration("took", took))
	s.activate(m)
	return nil
}

// setState moves the shard on unless it is lost.
func (s *shard[M]) setState(next state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != stateLost {
		s.state = next
	}
}

// replay makes the machine that the log describes. Once the fence is in the log, nothing that an earlier owner sent can
// come after it, and nothing that this one sent before: what lies below it is the whole state.
func (s *shard[M]) replay(ctx context.Context) (m M, records int64, err error) {
	fence, err := s.send(ctx, s.fence(), &origins{})
	if err != nil {
		return m, 0, fmt.Errorf("fence: %w", err)
	}
	next, err := s.r.deps.Log.Start(ctx, s.id)
	if err != nil {
		return m, 0, fmt.Errorf("find the start of the log: %w", err)
	}
	m = s.r.make(s.id)
	for next < fence {
		from := next
		var n int64
		if next, n, err = s.replayChunk(ctx, m, from, fence); err != nil {
			return m, records, fmt.Errorf("load from offset %d: %w", from, err)
		}
		if next <= from {
			return m, records, fmt.Errorf("the log ends at offset %d, before the fence at %d", from, fence)
		}
		records += n
	}
	return m, records, nil
}

// fence is the batch that begins an ownership, and confirms it later on.
func (s *shard[M]) fence() record.Batch {
	return record.LeaderChange(s.r.cfg.NodeID, time.Now().UnixMilli())
}

// replayChunk replays what one read returns, and says where to go on.
func (s *shard[M]) replayChunk(ctx context.Context, m M, from, fence int64) (next, records int64, err error) {
	select {
	case s.r.reading <- struct{}{}:
		defer func() { <-s.r.reading }()
	case <-ctx.Done():
		return from, 0, ctx.Err()
	}
	chunk, err := s.r.deps.Log.Read(ctx, s.id, from, s.r.cfg.LoadBytes)
	if err != nil {
		return from, 0, err
	}
	for next = from; next < fence; {
		b, rest, err := record.Next(chunk)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return next, records, nil
		}
		if err == nil {
			err = b.CheckCRC()
		}
		if err != nil {
			return next, records, err
		}
		if b.BaseOffset() >= fence {
			return fence, records, nil // compaction has left nothing between
		}
		n, err := replayBatch(m, b, from)
		if err != nil {
			return next, records, fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err)
		}
		records += n
		next, chunk = b.LastOffset()+1, rest
	}
	return next, records, nil
}

// replayBatch replays the records of a batch from the offset on.
func replayBatch[M Machine](m M, b record.Batch, from int64) (records int64, err error) {
	p := NoProducer
	if b.IsTransactional() {
		p = Producer{ID: b.ProducerID(), Epoch: b.ProducerEpoch()}
	}
	if b.IsControl() {
		marker, ok, err := b.Marker()
		if err != nil || !ok {
			return 0, err
		}
		return 1, m.ReplayMarker(p, marker)
	}
	for r, err := range b.Records(0) {
		if err != nil {
			return records, err
		}
		if b.Offset(r) < from {
			continue // the log starts within the batch
		}
		if err := m.Replay(p, own(r)); err != nil {
			return records, fmt.Errorf("record %d: %w", b.Offset(r), err)
		}
		records++
	}
	return records, nil
}

// own is a record in memory of its own: the machine may keep parts of it, and what was read is to be freed.
func own(r record.Record) Record {
	both := slices.Concat(r.Key, r.Value)
	var out Record
	if n := len(r.Key); r.Key != nil {
		out.Key = both[:n:n]
	}
	if r.Value != nil {
		out.Value = both[len(r.Key):]
	}
	return out
}

// activate begins to serve.
func (s *shard[M]) activate(m M) {
	var room [4]completion
	s.mu.Lock()
	if s.state == stateLost {
		s.mu.Unlock()
		return
	}
	now := time.Now()
	s.machine, s.state = m, stateActive
	s.step(now, M.Loaded)
	if missed := s.missed; missed != nil && s.fault == nil {
		s.missed = nil
		s.step(now, missed)
	}
	ready := s.ready(room[:0], now)
	s.arm(now)
	s.mu.Unlock()
	complete(ready)
}
