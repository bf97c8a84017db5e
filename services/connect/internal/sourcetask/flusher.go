package sourcetask

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/plugin/remote"
	"github.com/cauce-stream/cauce/services/connect/internal/pipeline"
)

// flusher guarantees at least once: offsets are stored after their records, from time to time.
type flusher struct {
	*run
	ends    context.CancelFunc // of the goroutine that stores offsets and passes acks on
	ended   chan struct{}
	storing sync.Mutex // one at a time tells the connector's task what is stored
}

func newFlusher(r *run) *flusher { return &flusher{run: r, ended: make(chan struct{})} }

func (f *flusher) begin(ctx context.Context) {
	ctx, f.ends = context.WithCancel(ctx)
	go func() {
		defer close(f.ended)
		ticker := time.NewTicker(max(f.settings.flushInterval, time.Millisecond))
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-f.tracker.acked:
				f.acknowledge(ctx)
			case <-ticker.C:
				f.flush(ctx)
			}
		}
	}()
}

// halt ends the goroutine.
func (f *flusher) halt() {
	f.ends()
	<-f.ended
}

func (f *flusher) before(string) error { return nil }

func (f *flusher) lost(record *flight, err error) error {
	return f.deps.Pipeline.Fail(f.live, pipeline.Produced(&record.batch.Records[record.place], err))
}

func (f *flusher) due() time.Time { return time.Time{} }

func (f *flusher) sent(context.Context, remote.Boundary) error { return nil }

func (f *flusher) pause(ctx context.Context) error {
	f.settle(ctx)
	f.flush(ctx)
	return nil
}

func (f *flusher) abandon() { f.halt() }

func (f *flusher) finish(ctx context.Context, failure error) error {
	f.halt()
	if err := f.source.StopPolling(ctx); err != nil && failure == nil {
		failure = fmt.Errorf("the connector's task: %w", err)
	}
	f.settle(ctx)
	f.flush(ctx)
	if failure == nil {
		failure = f.control.state().failure
	}
	return failure
}

// settle waits for what is being produced, as long as storing offsets may take.
func (f *flusher) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, f.settings.flushTimeout)
	defer cancel()
	if err := f.tracker.settle(ctx); err != nil {
		f.deps.Log.Warn("offsets are stored without those of the last records", zap.Error(err))
	}
}

// acknowledge tells the connector's task of records that are stored or left out.
func (f *flusher) acknowledge(ctx context.Context) {
	f.storing.Lock()
	defer f.storing.Unlock()
	f.pass(ctx, f.tracker.takeAcks())
}

func (f *flusher) pass(ctx context.Context, acks []remote.Ack) {
	if err := f.source.Acknowledge(ctx, acks); err != nil {
		f.control.fail(fmt.Errorf("the connector's task: %w", err))
	}
}

// flush stores the offsets that may be, and tells the connector's task. What could not be stored in time is for the next time.
func (f *flusher) flush(ctx context.Context) {
	f.storing.Lock()
	defer f.storing.Unlock()
	began := time.Now()
	entries, acks, err := f.tracker.take()
	if err != nil {
		f.control.fail(err)
	}
	f.pass(ctx, acks)
	storing, cancel := context.WithTimeout(ctx, f.settings.flushTimeout)
	defer cancel()
	if len(entries) > 0 {
		if err := f.deps.WriteOffsets(storing, entries); err != nil {
			f.tracker.giveBack(entries)
			f.deps.Metrics.committed(time.Since(began), err)
			f.deps.Log.Error("offsets could not be stored; that is tried again later", zap.Int("partitions", len(entries)), zap.Error(err))
			return
		}
	}
	f.deps.Metrics.committed(time.Since(began), nil)
	f.commit(ctx)
}

// commit tells the connector's task that the offsets of what was acknowledged are stored. What goes wrong there is the connector's affair.
func (r *run) commit(ctx context.Context) {
	waiting, cancel := context.WithTimeout(ctx, r.settings.flushTimeout)
	defer cancel()
	if err := r.source.Commit(waiting); err != nil && ctx.Err() == nil {
		r.deps.Log.Error("the connector's task has not taken note of stored offsets", zap.Error(err))
	}
}
