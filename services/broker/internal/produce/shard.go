package produce

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator/fence"
	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/record"
	"github.com/cauce-stream/cauce/services/broker/internal/partition"
)

// shardWait bounds how long an append waits for the metadata that makes its sender the owner of a shard.
const shardWait = 2 * time.Second

// refusalOfShard says why a batch for a coordinators' topic is not to be appended, or nil. What follows from the token is for
// the partition to judge.
func refusalOfShard(q *kmsg.ProduceRequest, topic string, part *kmsg.ProduceRequestTopicPartition) error {
	_, ok, err := fence.Get(&part.UnknownTags)
	switch {
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("%s is written by coordinators only: %w", topic, kerr.InvalidTopicException)
	case q.Acks != acksAll:
		return fmt.Errorf("acks %d of a coordinator: %w", q.Acks, kerr.InvalidRequiredAcks)
	}
	_, err = record.FromProduce(part.Records, q.Version)
	return err
}

// appendShard appends a batch that refusalOfShard has let pass. Transactions are the coordinator's affair, and not verified.
func appendShard(p *partition.Partition, part *kmsg.ProduceRequestTopicPartition, nowMs int64, done *partition.Done) (log.AppendInfo, error) {
	token, _, err := fence.Get(&part.UnknownTags)
	if err != nil {
		return log.AppendInfo{}, err
	}
	return p.AppendAsCoordinator(part.Records, token, nowMs, done)
}

// isAhead says whether the request has a batch of an owner of whom the metadata here does not know yet.
func (s *Service) isAhead(p *produce) bool {
	for i := range p.request.Topics {
		t := &p.request.Topics[i]
		for j := range t.Partitions {
			if hosted, epoch := s.claimed(t, &t.Partitions[j]); hosted != nil && hosted.ShardEpoch() < epoch {
				return true
			}
		}
	}
	return false
}

// awaitShards waits, within bounds, until the metadata knows the owners who sent the request.
func (s *Service) awaitShards(ctx context.Context, p *produce) {
	ctx, cancel := context.WithTimeout(ctx, shardWait)
	defer cancel()
	for i := range p.request.Topics {
		t := &p.request.Topics[i]
		for j := range t.Partitions {
			if hosted, epoch := s.claimed(t, &t.Partitions[j]); hosted != nil {
				s.parts.AwaitShard(ctx, hosted, epoch)
			}
		}
	}
}

// claimed is the partition of a shard and the epoch that its sender claims; nil for what is none, as all that clients send.
func (s *Service) claimed(t *kmsg.ProduceRequestTopic, part *kmsg.ProduceRequestTopicPartition) (*partition.Partition, int32) {
	if part.UnknownTags.Len() == 0 {
		return nil, 0
	}
	hosted, err := s.parts.Lookup(t.Topic, t.TopicID, part.Partition)
	if err != nil || !metadata.InternalTopic(hosted.Topic.Name) {
		return nil, 0
	}
	token, ok, err := fence.Get(&part.UnknownTags)
	if err != nil || !ok {
		return nil, 0
	}
	return hosted, token.Epoch
}
