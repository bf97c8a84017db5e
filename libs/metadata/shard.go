package metadata

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// Names of the topics that coordinators keep their state in. Their partitions are
// shards.
const (
	ConsumerOffsetsTopic  = "__consumer_offsets"
	TransactionStateTopic = "__transaction_state"
	ShareGroupStateTopic  = "__share_group_state"
)

// InternalTopic says whether a topic belongs to the coordinators.
func InternalTopic(name string) bool {
	return name == ConsumerOffsetsTopic || name == TransactionStateTopic || name == ShareGroupStateTopic
}

// ShardOf is the partition of a coordinators' topic whose shard what key names
// belongs to: a group or a transactional id. As in Kafka it goes by Java's hash
// of the string, so that tools which work it out themselves come to the same.
func (t *Topic) ShardOf(key string) int32 {
	hash := int32(0)
	for _, r := range key {
		if hi, lo := utf16.EncodeRune(r); hi != utf8.RuneError {
			hash = 31*hash + hi
			r = lo
		}
		hash = 31*hash + r
	}
	if hash == math.MinInt32 { // has no positive counterpart
		hash = 0
	}
	return max(hash, -hash) % int32(len(t.Partitions))
}

// NoOwner is the owner of a shard that no node coordinates.
const NoOwner int32 = -1

// Shard is who coordinates what one partition of an internal topic stores.
type Shard struct {
	// Owner is a node id, or NoOwner.
	Owner int32
	// Epoch grows with every change of the owner, to the same node's next process
	// too; 0 before the first owner. Writes of an older epoch are void.
	Epoch int32
}

// ShardChange is the new version of a shard.
type ShardChange struct {
	Topic     string
	Partition int32
	Shard
}

// Shard is the shard of a partition; false when the topic or partition does not
// exist. It does not allocate.
func (im *Image) Shard(topic string, partition int32) (Shard, bool) {
	t, ok := im.Topic(topic)
	if !ok || partition < 0 || int(partition) >= len(t.Partitions) {
		return Shard{}, false
	}
	return im.shard(t.ID, partition), true
}

// Shards are the shards of a topic's partitions, in order; none when the topic
// does not exist.
func (im *Image) Shards(topic string) iter.Seq2[int32, Shard] {
	return func(yield func(int32, Shard) bool) {
		t, ok := im.Topic(topic)
		if !ok {
			return
		}
		for i := range t.Partitions {
			if !yield(int32(i), im.shard(t.ID, int32(i))) {
				return
			}
		}
	}
}

// shard is that of a partition that exists. The list of a topic ends before the
// partitions that were added since a shard of it last changed.
func (im *Image) shard(topic TopicID, partition int32) Shard {
	if list := im.shards[topic]; int(partition) < len(list) {
		return list[partition]
	}
	return Shard{Owner: NoOwner}
}

func (a *applier) coordinatorShard(r *metadatapb.CoordinatorShardRecord) error {
	id, err := topicIDFromBytes(r.GetTopicId())
	if err != nil {
		return err
	}
	t, ok := a.next.TopicByID(id)
	if !ok {
		return fmt.Errorf("no topic has id %s", id)
	}
	p, s := r.GetPartitionId(), Shard{Owner: r.GetOwnerId(), Epoch: r.GetShardEpoch()}
	if p < 0 || int(p) >= len(t.Partitions) {
		return fmt.Errorf("topic %s has no partition %d", t.Name, p)
	}
	if was := a.next.shard(id, p); s.Epoch <= was.Epoch {
		return fmt.Errorf("epoch %d of shard %s-%d follows %d", s.Epoch, t.Name, p, was.Epoch)
	}
	if s.Owner < NoOwner {
		return fmt.Errorf("owner %d of shard %s-%d is no node id", s.Owner, t.Name, p)
	}
	a.ownShards(t)[p] = s
	return nil
}

// ownShards is the batch's own copy of the shards of a topic, one for each
// partition.
func (a *applier) ownShards(t *Topic) []Shard {
	own := a.shards[t.ID]
	if len(own) == len(t.Partitions) {
		return own
	}
	own = slices.Grow(slices.Clone(a.next.shards[t.ID]), len(t.Partitions))
	for len(own) < len(t.Partitions) {
		own = append(own, Shard{Owner: NoOwner})
	}
	a.shards[t.ID] = own
	a.next.shards = maps.Clone(a.next.shards)
	if a.next.shards == nil {
		a.next.shards = map[TopicID][]Shard{}
	}
	a.next.shards[t.ID] = own
	return own
}

func (a *applier) dropShards(id TopicID) {
	delete(a.shards, id)
	if _, ok := a.next.shards[id]; ok {
		a.next.shards = maps.Clone(a.next.shards)
		delete(a.next.shards, id)
	}
}

// changedShards are the shards whose version differs, in order of topic and
// partition.
func changedShards(old, next *Image) []ShardChange {
	var changed []ShardChange
	for id, list := range next.shards {
		if was := old.shards[id]; len(was) == len(list) && &was[0] == &list[0] {
			continue
		}
		t, _ := next.TopicByID(id)
		for i, s := range list {
			if old.shard(id, int32(i)).Epoch != s.Epoch {
				changed = append(changed, ShardChange{t.Name, int32(i), s})
			}
		}
	}
	slices.SortFunc(changed, func(a, b ShardChange) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return changed
}

// Record is the record that gives this version of the shard.
func (s Shard) Record(topic TopicID, partition int32) *metadatapb.CoordinatorShardRecord {
	return &metadatapb.CoordinatorShardRecord{
		TopicId: topic[:], PartitionId: partition, OwnerId: s.Owner, ShardEpoch: s.Epoch,
	}
}

func (im *Image) yieldShards(t *Topic, yield func(*metadatapb.Record) bool) bool {
	for i, s := range im.shards[t.ID] {
		if s.Epoch > 0 && !yield(&metadatapb.Record{Record: &metadatapb.Record_CoordinatorShard{
			CoordinatorShard: s.Record(t.ID, int32(i)),
		}}) {
			return false
		}
	}
	return true
}
