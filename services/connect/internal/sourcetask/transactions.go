package sourcetask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
	"github.com/cauce-stream/cauce/services/connect/internal/offsets"
	"github.com/cauce-stream/cauce/services/connect/internal/pipeline"
)

// transactions guarantee exactly once: records and the offsets after them are written by one transaction. All is done by the task's own goroutine but
// lost and what Produce calls.
type transactions struct {
	*run
	ExactlyOnce
	open bool
	// written is Metrics.Written as it was when the transaction began.
	written int64
	last    time.Time // the last commit, for the boundary interval
	waiting bool      // something has come since
	// aborting has records that cannot be produced left out.
	aborting atomic.Bool
}

func newTransactions(r *run) *transactions {
	return &transactions{run: r, ExactlyOnce: *r.deps.ExactlyOnce}
}

// initTransactions fences off earlier producers with the task's transactional id and aborts what they have left open. A task that was stopped by then
// leaves them alone: they may be later ones.
func (r *run) initTransactions(ctx context.Context) error {
	for backoff := minBackoff; ; {
		if r.live.Err() != nil {
			return cmp.Or(ctx.Err(), errEnding)
		}
		_, _, err := r.client.ProducerID(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil || !transient(err):
			return fmt.Errorf("taking over transactional id %q: %w", r.settings.transactionalID, explained(err))
		}
		r.deps.Log.Warn("the transactional id cannot be taken over; it is tried again", zap.String("id", r.settings.transactionalID), zap.Error(err))
		pause(r.live, &backoff)
	}
}

// explained adds what can be the matter with a producer whose epoch counts no more.
func explained(err error) error {
	switch {
	case errors.Is(err, kerr.ProducerFenced):
		return fmt.Errorf("another task with the same transactional id has taken over: %w", err)
	case errors.Is(err, kerr.InvalidProducerEpoch), errors.Is(err, kerr.InvalidTxnState), errors.Is(err, kerr.InvalidProducerIDMapping):
		return fmt.Errorf("another task with the same transactional id has taken over, or a transaction was open for longer than "+
			"transaction.timeout.ms, which a larger one, a smaller transaction.boundary.interval.ms or transaction.boundary=poll helps against: %w", err)
	}
	return err
}

func (t *transactions) begin(context.Context) { t.last = time.Now() }

// before begins a transaction. Records for the offsets' topic would keep the task itself from reading its offsets until they are committed.
func (t *transactions) before(topic string) error {
	if topic == t.OffsetsTopic {
		return fmt.Errorf("the connector has a record for %q, where its offsets are stored: that is not possible with exactly-once support", topic)
	}
	return t.ensure()
}

func (t *transactions) ensure() error {
	if t.open {
		return nil
	}
	if err := t.client.BeginTransaction(); err != nil {
		return fmt.Errorf("beginning a transaction: %w", explained(err))
	}
	t.open, t.written = true, t.deps.Metrics.Written.Load()
	return nil
}

func (t *transactions) lost(f *flight, err error) error {
	if t.aborting.Load() {
		return nil
	}
	return pipeline.Produced(&f.batch.Records[f.place], explained(err))
}

func (t *transactions) due() time.Time {
	if t.settings.boundary != boundaryInterval || !t.waiting {
		return time.Time{}
	}
	return t.last.Add(t.settings.interval)
}

func (t *transactions) sent(ctx context.Context, b remote.Boundary) error {
	switch t.settings.boundary {
	case boundaryPoll:
		return t.commitAll(ctx)
	case boundaryInterval:
		t.waiting = true
		if time.Since(t.last) >= t.settings.interval {
			return t.commitAll(ctx)
		}
	case boundaryConnector:
		switch b {
		case remote.Abort:
			if err := t.abort(ctx); err != nil {
				return err
			}
			return t.commitAll(ctx)
		case remote.Commit:
			return t.commitAll(ctx)
		}
	}
	return nil
}

func (t *transactions) pause(ctx context.Context) error {
	if t.settings.boundary == boundaryConnector {
		return nil // only the connector knows what belongs together
	}
	return t.commitAll(ctx)
}

func (t *transactions) abandon() {}

func (t *transactions) finish(ctx context.Context, failure error) error {
	if err := t.source.StopPolling(ctx); err != nil && failure == nil {
		failure = fmt.Errorf("the connector's task: %w", err)
	}
	if failure == nil && t.settings.boundary != boundaryConnector {
		if failure = t.commitAll(ctx); failure == nil {
			return nil
		}
	}
	if t.open {
		ending, cancel := context.WithTimeout(ctx, t.settings.flushTimeout)
		defer cancel()
		if err := t.abort(ending); err != nil {
			t.deps.Log.Warn("the open transaction is left to the brokers to abort", zap.Error(err))
		}
	}
	return failure
}

// abort drops the records of the open transaction. Their offsets are stored by the next commit.
func (t *transactions) abort(ctx context.Context) error {
	if !t.open {
		return nil
	}
	t.aborting.Store(true)
	defer t.aborting.Store(false)
	if err := t.client.AbortBufferedRecords(ctx); err != nil {
		return fmt.Errorf("aborting a transaction: %w", err)
	}
	if err := t.client.EndTransaction(ctx, kgo.TryAbort); err != nil {
		return fmt.Errorf("aborting a transaction: %w", explained(err))
	}
	t.open = false
	t.tracker.unstored()
	return nil
}

// commitAll ends the transaction after what was produced so far, with the offsets after it.
func (t *transactions) commitAll(ctx context.Context) error {
	began, idle := time.Now(), !t.open
	entries, acks, err := t.end(ctx)
	t.last, t.waiting = time.Now(), false
	if err != nil {
		t.deps.Metrics.committed(time.Since(began), err)
		return err
	}
	if idle && len(entries)+len(acks) == 0 {
		return nil
	}
	t.deps.Metrics.committed(time.Since(began), nil)
	if err := t.source.Acknowledge(ctx, acks); err != nil {
		return fmt.Errorf("the connector's task: %w", err)
	}
	t.commit(ctx)
	if t.deps.WriteOffsets == nil || len(entries) == 0 {
		return nil
	}
	copying, cancel := context.WithTimeout(ctx, t.settings.flushTimeout)
	defer cancel()
	if err := t.deps.WriteOffsets(copying, entries); err != nil {
		t.deps.Log.Warn("the copy of stored offsets could not be written", zap.Error(err))
	}
	return nil
}

// end waits for all records, writes the offsets after them and commits.
func (t *transactions) end(ctx context.Context) ([]offsets.Entry, []remote.Ack, error) {
	if err := t.client.Flush(ctx); err != nil {
		return nil, nil, fmt.Errorf("waiting for the records of a transaction: %w", err)
	}
	if err := t.control.state().failure; err != nil {
		return nil, nil, err
	}
	entries, acks, err := t.tracker.take()
	if err != nil || !t.open && len(entries) == 0 {
		return entries, acks, err
	}
	if err := t.ensure(); err != nil {
		return nil, nil, err
	}
	written := t.deps.Metrics.Written.Load()
	if err := t.writeOffsets(ctx, entries); err != nil {
		return nil, nil, fmt.Errorf("writing offsets to %q: %w", t.OffsetsTopic, explained(err))
	}
	if err := t.client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return nil, nil, fmt.Errorf("committing a transaction: %w", explained(err))
	}
	t.open = false
	t.deps.Metrics.transaction(written - t.written)
	return entries, acks, nil
}

// writeOffsets produces the records of offsets, and waits for them.
func (t *transactions) writeOffsets(ctx context.Context, entries []offsets.Entry) error {
	var mu sync.Mutex
	var failure error
	for _, e := range entries {
		for _, r := range t.RecordsFor(e) {
			record := &kgo.Record{Topic: t.OffsetsTopic, Partition: data.NoPartition, Key: r.Key, Value: r.Value}
			t.client.Produce(context.WithoutCancel(ctx), record, func(_ *kgo.Record, err error) {
				mu.Lock()
				defer mu.Unlock()
				if failure == nil {
					failure = err
				}
			})
		}
	}
	if err := t.client.Flush(ctx); err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	return failure
}
