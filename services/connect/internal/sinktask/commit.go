package sinktask

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
)

// preCommit asks the connector which offsets may be committed, those of what is written safely and not committed yet. Until then everything that was
// reported is in the dead letter queue.
func (r *run) preCommit(ctx context.Context, partitions []plugin.TopicPartition) (map[plugin.TopicPartition]end, error) {
	asked := map[plugin.TopicPartition]int64{}
	for _, p := range partitions {
		if at := r.positions[p]; at != nil && at.consumed != unknown {
			asked[p] = at.consumed
		}
	}
	var answered map[plugin.TopicPartition]int64
	var fault error
	if len(asked) > 0 {
		var wishes remote.Wishes
		answered, wishes, fault = r.sink.PreCommit(ctx, maps.Clone(asked))
		if err := r.heed(wishes); err != nil {
			return nil, errors.Join(err, r.flushQueue(ctx))
		}
	}
	if err := r.flushQueue(ctx); err != nil {
		return nil, err
	}
	if fault != nil {
		return nil, fmt.Errorf("before a commit: %w", fault)
	}
	commit, ignored := committable(r.positions, asked, answered)
	for p, offset := range ignored {
		r.deps.Log.Warn("the connector would have an offset committed that was not put to it", zap.String("topic", p.Topic), zap.Int32("partition", p.Partition), zap.Int64("offset", offset))
	}
	for p, offset := range answered {
		if _, not := ignored[p]; !not {
			r.held.below(p, offset)
		}
	}
	return commit, nil
}

func (r *run) flushQueue(ctx context.Context) error {
	if r.queue == nil {
		return nil
	}
	return r.queue.Flush(ctx)
}

// commit commits while the task goes on. After a fault of the connector it goes on from what is committed.
func (r *run) commit() error {
	if r.settle(); r.committing {
		r.commitAsked = true // once it is settled
		return nil
	}
	offsets, err := r.preCommit(r.ctx, slices.Collect(maps.Keys(r.positions)))
	var fault *remote.Fault
	if errors.As(err, &fault) {
		r.deps.Metrics.CommitFailures.Add(1)
		r.deps.Log.Error("the connector could not make what was put safe: it is put again from what is committed", zap.Error(err))
		r.rewind()
		return nil
	}
	if err != nil {
		return err
	}
	r.seek()
	if len(offsets) == 0 {
		return nil
	}
	r.committing = true
	ctx, cancel := context.WithTimeout(r.ctx, r.flushTimeout)
	r.client.CommitOffsets(ctx, byTopic(offsets, epochOffset), func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		cancel()
		r.committed <- outcome{offsets, commitError(resp, err)}
		r.signals.look()
	})
	return nil
}

func epochOffset(_ plugin.TopicPartition, e end) kgo.EpochOffset {
	return kgo.EpochOffset{Epoch: e.epoch, Offset: e.offset}
}

// commitError is the first error of a commit.
func commitError(resp *kmsg.OffsetCommitResponse, err error) error {
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("%s-%d: %w", t.Topic, p.Partition, err)
			}
		}
	}
	return nil
}

// settle takes the outcome of the commit that is under way, if there is one by now.
func (r *run) settle() {
	select {
	case o := <-r.committed:
		r.committing = false
		r.note(o)
	default:
	}
}

func (r *run) note(o outcome) {
	if o.err != nil {
		r.deps.Metrics.CommitFailures.Add(1)
		r.deps.Log.Error("offsets could not be committed", zap.Stringer("offsets", shown(o.offsets)), zap.Error(o.err))
		return
	}
	r.deps.Metrics.Commits.Add(1)
	for p, e := range o.offsets {
		if at := r.positions[p]; at != nil {
			at.committed = e.offset
		}
	}
	r.countActive()
}

// shown are offsets in a log.
type shown map[plugin.TopicPartition]end

// String lists them.
func (s shown) String() string {
	var list []string
	for p, e := range s {
		list = append(list, fmt.Sprintf("%s-%d@%d", p.Topic, p.Partition, e.offset))
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// rewind goes back to what is committed.
func (r *run) rewind() {
	r.settle()
	clear(r.seeks)
	for p, at := range r.positions {
		if at.committed != unknown {
			r.seeks[p] = at.committed
		}
	}
	r.seek()
}

// seek goes to where the connector wants to go on.
func (r *run) seek() {
	to := map[plugin.TopicPartition]end{}
	for p, offset := range r.seeks {
		at := r.positions[p]
		if at == nil || offset < 0 {
			r.deps.Log.Warn("the connector wishes to go to where it cannot", zap.String("topic", p.Topic), zap.Int32("partition", p.Partition), zap.Int64("offset", offset))
			continue
		}
		at.consumed, at.committed, at.epoch = offset, offset, unknown
		r.batch.without(p)
		r.held.from(p, offset)
		to[p] = end{offset, unknown}
	}
	clear(r.seeks)
	if len(to) > 0 {
		r.client.SetOffsets(byTopic(to, epochOffset))
	}
}

// closePartitions ends the task's work with partitions that it has to give up: flushes, closes, and commits before anyone else reads them.
func (r *run) closePartitions(ctx context.Context, partitions []plugin.TopicPartition) error {
	defer r.forget(partitions)
	offsets, err := r.preCommit(ctx, partitions)
	var fault *remote.Fault
	if errors.As(err, &fault) {
		r.deps.Metrics.CommitFailures.Add(1)
		r.deps.Log.Error("the connector could not make what was put safe: it will be put again", zap.Error(err))
		err = nil
	}
	if r.ended() {
		return err
	}
	wishes, closing := r.sink.Close(ctx, partitions)
	if closing != nil {
		closing = fmt.Errorf("close partitions: %w", closing)
	}
	if err = errors.Join(err, r.heed(wishes)); len(wishes.Errant) > 0 {
		err = errors.Join(err, r.flushQueue(ctx))
	}
	if err == nil && len(offsets) > 0 {
		r.commitNow(ctx, offsets)
	}
	return errors.Join(err, closing)
}

// commitNow commits while nobody else may have the partitions. If it fails, their records will be read again.
func (r *run) commitNow(ctx context.Context, offsets map[plugin.TopicPartition]end) {
	ctx, cancel := context.WithTimeout(ctx, lastCommitTimeout)
	defer cancel()
	r.client.CommitOffsetsSync(ctx, byTopic(offsets, epochOffset), func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		r.settle() // of a commit before the outcome is there by now
		r.note(outcome{offsets, commitError(resp, err)})
	})
}

// ended says that the connector's task is over.
func (r *run) ended() bool {
	select {
	case <-r.sink.Done():
		return true
	default:
		return false
	}
}

// forget drops all that has to do with partitions that the task has no longer.
func (r *run) forget(partitions []plugin.TopicPartition) {
	for _, p := range partitions {
		delete(r.positions, p)
		delete(r.seeks, p)
		r.batch.without(p)
		r.held.from(p, 0)
	}
	r.client.ResumeFetchPartitions(lists(partitions))
	r.deps.Metrics.Partitions.Store(int64(len(r.positions)))
	r.countActive()
}

// leave gives up all partitions. The error is why, of a task that has failed, or what has failed now.
func (r *run) leave(why error) error {
	defer func() { r.over = true }()
	if r.ctx.Err() != nil {
		return why
	}
	ctx := r.ctx
	if why != nil {
		bounded, cancel := context.WithTimeout(ctx, lastCommitTimeout)
		defer cancel()
		ctx = bounded
	}
	var err error
	if len(r.positions) > 0 {
		err = r.closePartitions(ctx, slices.Collect(maps.Keys(r.positions)))
	}
	if flushed := r.flushQueue(ctx); flushed != nil && err == nil {
		err = flushed
	}
	if why != nil && err != nil {
		r.deps.Log.Warn("a task that has failed could not end in good order", zap.Error(err))
	}
	if why != nil {
		return why
	}
	return err
}
