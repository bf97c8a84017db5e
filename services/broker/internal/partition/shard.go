package partition

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/coordinator/fence"
	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/libs/metadata"
)

// shard is what the leader of a partition of a coordinators' topic knows of the shard that is stored there.
type shard struct {
	// epoch is that of the metadata; it changes with leadership held for writing, so that no append of an older epoch follows
	// the change.
	epoch atomic.Int32
	mu    sync.Mutex // of the fields below; taken while leadership is held for reading, before the log's
	last  fence.Token
	info  log.AppendInfo // of the batch that came with last
}

// ShardEpoch is the epoch of the partition's shard in the metadata, 0 before the first owner.
func (p *Partition) ShardEpoch() int32 { return p.shard.epoch.Load() }

// AppendAsCoordinator writes a batch of the shard's owner, as package fence says. Errors beside those of the log wrap
//   - kerr.NotCoordinator: the shard has a newer epoch than the token;
//   - kerr.CoordinatorNotAvailable: the metadata here does not know the token's epoch yet;
//   - kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch: it was not sent to the present leader;
//   - kerr.OutOfOrderSequenceNumber: a batch that was sent after this one is in the log.
func (p *Partition) AppendAsCoordinator(batch []byte, token fence.Token, nowMs int64, done *Done) (log.AppendInfo, error) {
	if token.LeaderEpoch < 0 {
		return log.AppendInfo{}, fmt.Errorf("coordinator's token for leader epoch %d: %w", token.LeaderEpoch, kerr.InvalidRequest)
	}
	p.leadership.RLock()
	defer p.leadership.RUnlock()
	l, err := p.Leading(token.LeaderEpoch)
	if err != nil {
		return log.AppendInfo{}, err
	}
	if err := p.enoughReplicas(true); err != nil {
		return log.AppendInfo{}, err
	}
	switch epoch := p.shard.epoch.Load(); {
	case token.Epoch < epoch:
		return log.AppendInfo{}, fmt.Errorf("%s has shard epoch %d, after %d: %w", p, epoch, token.Epoch, kerr.NotCoordinator)
	case token.Epoch > epoch:
		return log.AppendInfo{}, fmt.Errorf("%s has shard epoch %d here, %d is not known yet: %w", p, epoch, token.Epoch, kerr.CoordinatorNotAvailable)
	}
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	switch last := p.shard.last; {
	case token == last:
		info := p.shard.info
		info.Duplicate = true
		return info, nil
	case token.Epoch == last.Epoch && token.LeaderEpoch == last.LeaderEpoch && token.Sequence < last.Sequence:
		return log.AppendInfo{}, fmt.Errorf("%s: batch %d of shard epoch %d came after batch %d: %w", p, token.Sequence, token.Epoch, last.Sequence, kerr.OutOfOrderSequenceNumber)
	}
	info, err := l.AppendAsCoordinator(batch, p.state.Load().LeaderEpoch, nowMs)
	if err = p.appended(l, info, len(batch), err, done); err == nil {
		p.shard.last, p.shard.info = token, info
	}
	return info, err
}

// setShardEpoch follows the metadata.
func (p *Partition) setShardEpoch(epoch int32) {
	p.leadership.Lock()
	p.shard.epoch.Store(epoch)
	p.leadership.Unlock()
}

// applyShards takes the new epochs of shards that are stored here, and wakes the appends that wait for them.
func (s *Set) applyShards(changed []metadata.ShardChange) {
	if len(changed) == 0 {
		return
	}
	for _, c := range changed {
		if t := s.Find(c.Topic, metadata.TopicID{}); t != nil {
			if p, _ := t.Partition(c.Partition); p != nil {
				p.setShardEpoch(c.Epoch)
			}
		}
	}
	s.mu.Lock()
	close(s.moved)
	s.moved = make(chan struct{})
	s.mu.Unlock()
}

// AwaitShard returns once the partition's shard has reached the epoch, or ctx ends.
func (s *Set) AwaitShard(ctx context.Context, p *Partition, epoch int32) {
	for {
		s.mu.RLock()
		moved := s.moved
		s.mu.RUnlock()
		if p.ShardEpoch() >= epoch {
			return
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return
		}
	}
}
