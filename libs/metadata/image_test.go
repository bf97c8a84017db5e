package metadata

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

func topicRecord(name string, id TopicID) *metadatapb.Record {
	return &metadatapb.Record{Record: &metadatapb.Record_Topic{
		Topic: &metadatapb.TopicRecord{Name: name, TopicId: id[:]},
	}}
}

func partitionRecord(id TopicID, p *Partition) *metadatapb.Record {
	return &metadatapb.Record{Record: &metadatapb.Record_Partition{Partition: p.Record(id)}}
}

func configRecord(r Resource, key string, value *string) *metadatapb.Record {
	return &metadatapb.Record{Record: &metadatapb.Record_Config{Config: &metadatapb.ConfigRecord{
		ResourceType: int32(r.Type), ResourceName: r.Name, Name: key, Value: value,
	}}}
}

func mustApply(t *testing.T, im *Image, offset int64, recs ...*metadatapb.Record) (*Image, *Delta) {
	t.Helper()
	next, d, err := im.Apply(offset, recs)
	if err != nil {
		t.Fatal(err)
	}
	return next, d
}

func TestApplyLeavesTheOldImageAlone(t *testing.T) {
	id := TopicID{1}
	one, _ := mustApply(t, Empty(), 1,
		topicRecord("a", id),
		partitionRecord(id, &Partition{Leader: 1, Replicas: []int32{1}, ISR: []int32{1}}),
		configRecord(Resource{TopicConfig, "a"}, "retention.ms", proto.String("1")))
	two, d := mustApply(t, one, 2,
		&metadatapb.Record{Record: &metadatapb.Record_PartitionChange{
			PartitionChange: &metadatapb.PartitionChangeRecord{TopicId: id[:], Leader: proto.Int32(NoLeader)},
		}},
		configRecord(Resource{TopicConfig, "a"}, "retention.ms", proto.String("2")))

	for _, c := range []struct {
		im        *Image
		leader    int32
		epoch     int32
		retention string
	}{{one, 1, 0, "1"}, {two, NoLeader, 1, "2"}} {
		p, ok := c.im.Partition(id, 0)
		if !ok || p.Leader != c.leader || p.LeaderEpoch != c.epoch || p.PartitionEpoch != c.epoch {
			t.Errorf("offset %d: partition %+v, want leader %d epoch %d", c.im.Offset(), p, c.leader, c.epoch)
		}
		if got := c.im.Config(Resource{TopicConfig, "a"})["retention.ms"]; got != c.retention {
			t.Errorf("offset %d: retention.ms %q, want %q", c.im.Offset(), got, c.retention)
		}
	}
	if len(d.ChangedTopics) != 1 || d.ChangedTopics[0].Partitions[0].Leader != NoLeader {
		t.Errorf("delta %+v", d)
	}
}
