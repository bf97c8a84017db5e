package metadata

import (
	"reflect"
	"testing"

	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

func TestShards(t *testing.T) {
	id := TopicID{1}
	one, d := mustApply(t, Empty(), 1, topicRecord("s", id), partitionRecord(id, &Partition{}), partitionRecord(id, &Partition{ID: 1}))
	if len(d.ChangedShards) != 0 {
		t.Errorf("shards changed: %+v", d.ChangedShards)
	}
	two, d := mustApply(t, one, 2, shardRecord(id, 1, Shard{7, 1}))
	if want := []ShardChange{{"s", 1, Shard{7, 1}}}; !reflect.DeepEqual(d.ChangedShards, want) {
		t.Errorf("changed %+v, want %+v", d.ChangedShards, want)
	}
	if len(d.ChangedTopics) != 0 {
		t.Error("a shard's owner is no change of the topic")
	}
	three, d := mustApply(t, two, 3, shardRecord(id, 1, Shard{NoOwner, 2}), shardRecord(id, 1, Shard{7, 3}),
		partitionRecord(id, &Partition{ID: 2}), shardRecord(id, 2, Shard{8, 1}))
	if want := []ShardChange{{"s", 1, Shard{7, 3}}, {"s", 2, Shard{8, 1}}}; !reflect.DeepEqual(d.ChangedShards, want) {
		t.Errorf("changed %+v, want %+v", d.ChangedShards, want)
	}
	none := Shard{Owner: NoOwner}
	for _, c := range []struct {
		im   *Image
		want []Shard
	}{{one, []Shard{none, none}}, {two, []Shard{none, {7, 1}}}, {three, []Shard{none, {7, 3}, {8, 1}}}} {
		var got []Shard
		for _, s := range c.im.Shards("s") {
			got = append(got, s)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("offset %d: shards %+v, want %+v", c.im.Offset(), got, c.want)
		}
		for i, want := range c.want {
			if s, ok := c.im.Shard("s", int32(i)); !ok || s != want {
				t.Errorf("offset %d: shard %d is %+v, %v", c.im.Offset(), i, s, ok)
			}
		}
		for _, p := range []int32{-1, int32(len(c.want))} {
			if _, ok := c.im.Shard("s", p); ok {
				t.Errorf("offset %d: there is a shard %d", c.im.Offset(), p)
			}
		}
	}
	if _, ok := three.Shard("t", 0); ok {
		t.Error("a topic that does not exist has a shard")
	}
}

// A topic that is created again starts without owners.
func TestShardsGoWithTheTopic(t *testing.T) {
	id, again := TopicID{1}, TopicID{2}
	one, _ := mustApply(t, Empty(), 1, topicRecord("s", id), partitionRecord(id, &Partition{}), shardRecord(id, 0, Shard{7, 1}))
	two, d := mustApply(t, one, 2,
		&metadatapb.Record{Record: &metadatapb.Record_RemoveTopic{RemoveTopic: &metadatapb.RemoveTopicRecord{TopicId: id[:]}}},
		topicRecord("s", again), partitionRecord(again, &Partition{}))
	if s, ok := two.Shard("s", 0); !ok || s != (Shard{Owner: NoOwner}) || len(d.ChangedShards) != 0 {
		t.Errorf("the new topic's shard is %+v, %v, changed %+v", s, ok, d.ChangedShards)
	}
	if s, _ := one.Shard("s", 0); s != (Shard{7, 1}) {
		t.Errorf("the older image's shard is %+v", s)
	}
}

// The hashes are those of Java's String.hashCode, the partitions those that Apache
// Kafka gives groups of these names.
func TestShardOf(t *testing.T) {
	topic := &Topic{Partitions: make([]*Partition, 50)}
	for key, want := range map[string]int32{
		"": 0, "g": 3, "my-group": 12, "console-consumer-12345": 6, "grüße": 23, "日本語": 43, "😀-emoji": 38, "AaAaAa": 46,
		// Their hash has no positive counterpart.
		"polygenelubricants": 0, "DESIGNING WORKHOUSES": 0,
	} {
		if got := topic.ShardOf(key); got != want {
			t.Errorf("%q belongs to shard %d, want %d", key, got, want)
		}
	}
}
