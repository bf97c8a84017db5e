package coordinator

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.opentelemetry.io/otel/trace"

	"github.com/cauce-stream/cauce/libs/record"
)

// memLog is the brokers: one partition for each shard, with their rules of who may append, and faults on order.
type memLog struct {
	mu    sync.Mutex
	parts map[int32]*memPart
	// plan says what happens to an append or a read; nil for nothing.
	plan    func(c memCall) fault
	calls   []memCall
	trace   trace.SpanContext
	landing sync.WaitGroup // appends that their callers have given up
}

type memCall struct {
	shard, epoch int32
	sequence     int64
	batch        string // empty for a read
	leader       int    // epoch of the leader that it was sent to
}

// fault is what happens to one call. The zero fault is none.
type fault struct {
	wait   time.Duration // before anything happens
	err    error         // the call fails with it, before it has an effect …
	landed bool          // … or after that
	late   time.Duration // it has its effect so long after it failed
}

type memPart struct {
	epoch      int32 // in the brokers' image
	leader     int   // epoch of the leader, which knows the last append under it
	start, end int64
	batches    []memBatch

	lastEpoch  int32
	lastSeq    int64
	lastOffset int64
}

type memBatch struct {
	epoch int32
	record.Batch
}

func newMemLog() *memLog { return &memLog{parts: map[int32]*memPart{}} }

func (l *memLog) part(shard int32) *memPart {
	p := l.parts[shard]
	if p == nil {
		p = &memPart{}
		l.parts[shard] = p
	}
	return p
}

// move is the controller giving the shard a new owner, as the brokers see it.
func (l *memLog) move(shard int32) (epoch int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.part(shard)
	p.epoch++
	return p.epoch
}

// elect has another leader take over, which has the whole log.
func (l *memLog) elect(shard int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.part(shard)
	p.leader++
	p.lastEpoch, p.lastSeq = 0, 0
}

func (l *memLog) Append(ctx context.Context, shard, epoch int32, sequence int64, batch record.Batch) (int64, error) {
	c := memCall{shard: shard, epoch: epoch, sequence: sequence, batch: string(batch)}
	f := l.fault(c)
	l.mu.Lock()
	c.leader, l.trace = l.part(shard).leader, trace.SpanContextFromContext(ctx)
	l.mu.Unlock()
	if err := sleep(ctx, f.wait); err != nil {
		return 0, err
	}
	land := func() (int64, error) { return l.land(c) }
	switch {
	case f.err == nil:
		return land()
	case f.landed:
		if _, err := land(); err != nil {
			return 0, err
		}
	case f.late > 0:
		l.landing.Go(func() {
			_ = sleep(context.Background(), f.late)
			_, _ = land()
		})
	}
	return 0, f.err
}

// lastTrace is that of the newest append.
func (l *memLog) lastTrace() trace.SpanContext {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trace
}

func (l *memLog) fault(c memCall) fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, c)
	if l.plan == nil {
		return fault{}
	}
	return l.plan(c)
}

// land is the leader's part.
func (l *memLog) land(c memCall) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.part(c.shard)
	switch {
	case c.leader != p.leader:
		return 0, kerr.FencedLeaderEpoch
	case c.epoch < p.epoch:
		return 0, kerr.NotCoordinator
	case c.epoch > p.epoch:
		return 0, kerr.CoordinatorNotAvailable
	case c.epoch == p.lastEpoch && c.sequence == p.lastSeq:
		return p.lastOffset, nil
	case c.epoch == p.lastEpoch && c.sequence < p.lastSeq:
		return 0, kerr.OutOfOrderSequenceNumber
	}
	p.lastEpoch, p.lastSeq, p.lastOffset = c.epoch, c.sequence, p.end
	p.add(c.epoch, record.Batch(c.batch))
	return p.lastOffset, nil
}

// add stores a batch at the end.
func (p *memPart) add(epoch int32, b record.Batch) {
	b = slices.Clone(b)
	b.SetBaseOffset(p.end)
	p.batches = append(p.batches, memBatch{epoch, b})
	p.end = b.LastOffset() + 1
}

func (l *memLog) Start(ctx context.Context, shard int32) (int64, error) {
	f := l.fault(memCall{shard: shard})
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.part(shard).start, f.err
}

func (l *memLog) Read(ctx context.Context, shard int32, offset int64, maxBytes int) ([]byte, error) {
	f := l.fault(memCall{shard: shard})
	if err := sleep(ctx, f.wait); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.part(shard)
	if offset < p.start || offset > p.end {
		return nil, fmt.Errorf("offset %d of [%d, %d]: %w", offset, p.start, p.end, kerr.OffsetOutOfRange)
	}
	var out []byte
	for _, b := range p.batches {
		if b.LastOffset() < offset {
			continue
		}
		if len(out) > 0 && len(out)+len(b.Batch) > maxBytes {
			return append(out, b.Batch[:maxBytes-len(out)]...), f.err // cut short
		}
		out = append(out, b.Batch...)
	}
	return out, f.err
}

func sleep(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// batches are those of a shard that hold records for the machine.
func (l *memLog) batches(shard int32) (all []memBatch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.part(shard).batches {
		if !b.IsControl() {
			all = append(all, b)
		}
	}
	return all
}

// fences are those of a shard.
func (l *memLog) fences(shard int32) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.part(shard).batches {
		if b.IsControl() {
			n++
		}
	}
	return n
}

func (l *memLog) setPlan(plan func(memCall) fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plan = plan
}

// appends are the appends of records asked for so far, without fences.
func (l *memLog) appends() (all []memCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		if c.batch != "" && !record.Batch(c.batch).IsControl() {
			all = append(all, c)
		}
	}
	return all
}
