package sinktask

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/plugin"
)

// onAssigned opens partitions before the first record of them is read.
func (r *run) onAssigned(_ context.Context, _ *kgo.Client, assigned map[string][]int32) {
	<-r.ready
	defer r.signals.look() // at what has changed, and is wished for
	if r.over || r.fault != nil {
		return
	}
	var partitions []plugin.TopicPartition
	for topic, list := range assigned {
		for _, p := range list {
			one := plugin.TopicPartition{Topic: topic, Partition: p}
			if r.positions[one] == nil {
				r.positions[one] = &position{consumed: unknown, epoch: unknown, committed: unknown}
				partitions = append(partitions, one)
			}
		}
	}
	r.deps.Metrics.Partitions.Store(int64(len(r.positions)))
	if len(partitions) == 0 {
		return
	}
	wishes, err := r.sink.Open(r.ctx, partitions)
	if err != nil {
		err = fmt.Errorf("open partitions: %w", err)
	}
	r.fail(errors.Join(err, r.heed(wishes)))
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range partitions {
		if offset, ok := r.seeks[p]; ok && offset >= 0 {
			delete(r.seeks, p)
			r.begin[p] = offset
			at := r.positions[p]
			at.consumed, at.committed = offset, offset
		}
	}
}

// adjust has partitions begin where the connector wanted it when they were opened. It is called after onAssigned, beside the task.
func (r *run) adjust(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p, offset := range r.begin {
		if _, ok := offsets[p.Topic][p.Partition]; ok {
			offsets[p.Topic][p.Partition] = kgo.NewOffset().At(offset).WithEpoch(-1)
			delete(r.begin, p)
		}
	}
	return offsets, nil
}

// onRevoked gives up partitions that another task is to have.
func (r *run) onRevoked(_ context.Context, _ *kgo.Client, revoked map[string][]int32) {
	<-r.ready
	defer r.signals.look()
	if partitions := r.had(revoked); len(partitions) > 0 {
		r.fail(r.closePartitions(r.ctx, partitions))
	}
}

// onLost gives up partitions that another task may have already: there is nothing to commit any more.
func (r *run) onLost(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	<-r.ready
	defer r.signals.look()
	partitions := r.had(lost)
	if len(partitions) == 0 {
		return
	}
	r.deps.Log.Warn("the task has lost partitions, what it has put of them will be put again", zap.Any("partitions", lost))
	wishes, err := r.sink.Close(r.ctx, partitions)
	if err != nil {
		err = fmt.Errorf("close partitions that are lost: %w", err)
	}
	r.fail(errors.Join(err, r.heed(wishes)))
	r.forget(partitions)
}

// had are those partitions that the task has until now.
func (r *run) had(gone map[string][]int32) []plugin.TopicPartition {
	var partitions []plugin.TopicPartition
	if r.over {
		return nil
	}
	for topic, list := range gone {
		for _, p := range list {
			if one := (plugin.TopicPartition{Topic: topic, Partition: p}); r.positions[one] != nil {
				partitions = append(partitions, one)
			}
		}
	}
	return partitions
}

// fail has the task end of what has failed in a callback.
func (r *run) fail(err error) {
	if err != nil && r.fault == nil {
		r.fault = err
	}
}
