package metadata

import (
	"fmt"
	"strings"
	"sync"
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

func shardRecord(id TopicID, partition int32, s Shard) *metadatapb.Record {
	return &metadatapb.Record{Record: &metadatapb.Record_CoordinatorShard{CoordinatorShard: s.Record(id, partition)}}
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

func TestApplyRefusesWhatCannotBe(t *testing.T) {
	id := TopicID{1}
	node := &Node{ID: 1, Epoch: 5}
	im, _ := mustApply(t, Empty(), 7, topicRecord("a", id), partitionRecord(id, &Partition{}),
		&metadatapb.Record{Record: &metadatapb.Record_RegisterBroker{RegisterBroker: node.Record()}},
		shardRecord(id, 0, Shard{1, 3}))
	partition := func(topic TopicID, p int32) *metadatapb.Record {
		return &metadatapb.Record{Record: &metadatapb.Record_PartitionChange{
			PartitionChange: &metadatapb.PartitionChangeRecord{TopicId: topic[:], PartitionId: p}}}
	}
	for name, c := range map[string]struct {
		offset int64
		rec    *metadatapb.Record
		says   string
	}{
		"an offset that is not new":     {7, partition(id, 0), "at offset 7 applied to an image at offset 7"},
		"a second topic of that name":   {8, topicRecord("a", TopicID{2}), `topic "a" exists already`},
		"a second topic of that id":     {8, topicRecord("b", id), "exists already"},
		"a topic id of the wrong size":  {8, &metadatapb.Record{Record: &metadatapb.Record_Topic{Topic: &metadatapb.TopicRecord{Name: "b", TopicId: []byte{1}}}}, "1 bytes"},
		"a partition of no topic":       {8, partitionRecord(TopicID{2}, &Partition{}), "no topic has id"},
		"a partition after a gap":       {8, partitionRecord(id, &Partition{ID: 2}), "partition a-2 follows partition 0"},
		"a partition that exists":       {8, partitionRecord(id, &Partition{ID: 0}), "partition a-0 follows partition 0"},
		"a change of no topic":          {8, partition(TopicID{2}, 0), "no topic has id"},
		"a change of no partition":      {8, partition(id, 1), "no partition 1"},
		"a change of partition -1":      {8, partition(id, -1), "no partition -1"},
		"a removal of no topic":         {8, &metadatapb.Record{Record: &metadatapb.Record_RemoveTopic{RemoveTopic: &metadatapb.RemoveTopicRecord{TopicId: make([]byte, 16)}}}, "no topic has id"},
		"a node without an incarnation": {8, &metadatapb.Record{Record: &metadatapb.Record_RegisterBroker{RegisterBroker: &metadatapb.RegisterBrokerRecord{BrokerId: 2}}}, "incarnation of node 2"},
		"a shard of no topic":           {8, shardRecord(TopicID{2}, 0, Shard{1, 1}), "no topic has id"},
		"a shard of no partition":       {8, shardRecord(id, 1, Shard{1, 1}), "topic a has no partition 1"},
		"a shard of partition -1":       {8, shardRecord(id, -1, Shard{1, 1}), "topic a has no partition -1"},
		"a shard at its old epoch":      {8, shardRecord(id, 0, Shard{1, 3}), "epoch 3 of shard a-0 follows 3"},
		"a shard of node -2":            {8, shardRecord(id, 0, Shard{-2, 4}), "owner -2 of shard a-0"},
		"a change of no node":           {8, &metadatapb.Record{Record: &metadatapb.Record_BrokerRegistrationChange{BrokerRegistrationChange: &metadatapb.BrokerRegistrationChangeRecord{BrokerId: 2}}}, "no node has id 2"},
		"a change at an old epoch":      {8, &metadatapb.Record{Record: &metadatapb.Record_UnregisterBroker{UnregisterBroker: &metadatapb.UnregisterBrokerRecord{BrokerId: 1, BrokerEpoch: 4}}}, "epoch 5 instead of 4"},
		"a record of a kind unknown":    {8, &metadatapb.Record{}, "does not know"},
	} {
		before := dump(im)
		_, _, err := im.Apply(c.offset, []*metadatapb.Record{topicRecord("first", TopicID{9}), c.rec})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want one that says %q", name, err, c.says)
		}
		equal(t, name+": the image", dump(im), before)
	}
}

// Two controllers' worth of futures may be tried on one image at once.
func TestApplyConcurrently(t *testing.T) {
	im := Empty()
	for i := range 200 {
		im, _ = mustApply(t, im, int64(i), topicRecord(fmt.Sprint("t", i), TopicID{byte(i), 1}))
	}
	before := dump(im)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			mine := im
			for i := range 50 {
				next, _, err := mine.Apply(mine.Offset()+1, []*metadatapb.Record{topicRecord(fmt.Sprint("g", g, i), TopicID{byte(i), 2, byte(g)})})
				if err != nil || next.TopicCount() != mine.TopicCount()+1 {
					t.Errorf("%d topics, error %v", next.TopicCount(), err)
					return
				}
				mine = next
			}
		})
	}
	wg.Wait()
	equal(t, "the shared image", dump(im), before)
}

func TestCollidingTopic(t *testing.T) {
	im, _ := mustApply(t, Empty(), 1, topicRecord("a.b_c", TopicID{1}), topicRecord("plain", TopicID{2}), topicRecord("a_bb", TopicID{3}))
	for name, want := range map[string]string{
		"a_b_c": "a.b_c", "a.b.c": "a.b_c", "a.b_c": "", "a.b": "", "a_b": "", "a.bb": "a_bb", "plain": "", "a-b-c": "", "": "",
	} {
		got := ""
		if other, ok := im.CollidingTopic(name); ok {
			got = other.Name
		}
		if got != want {
			t.Errorf("%q collides with %q, want %q", name, got, want)
		}
	}
}

func TestTopicIDText(t *testing.T) {
	id := TopicID{0xfb, 0xff, 15: 0xfe}
	if id.String() != "-_8AAAAAAAAAAAAAAAAA_g" {
		t.Errorf("%s", id)
	}
	if back, err := ParseTopicID(id.String()); err != nil || back != id {
		t.Errorf("%v %v", back, err)
	}
	for _, bad := range []string{"", "AAAA", "-_8AAAAAAAAAAAAAAAAA_g==", "+/8AAAAAAAAAAAAAAAAA/g"} {
		if _, err := ParseTopicID(bad); err == nil {
			t.Errorf("%q is taken for a topic id", bad)
		}
	}
}

func TestLookupsDoNotAllocate(t *testing.T) {
	im, _ := mustApply(t, Empty(), 1, topicRecord("a", TopicID{1}), partitionRecord(TopicID{1}, &Partition{}))
	if n := testing.AllocsPerRun(100, func() {
		im.Topic("a")
		im.TopicByID(TopicID{1})
		im.Partition(TopicID{1}, 0)
		im.Config(Resource{TopicConfig, "a"})
		im.Node(1)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// many is an image with that many topics of one partition.
func many(tb testing.TB, topics int) *Image {
	recs := make([]*metadatapb.Record, 0, 2*topics)
	for i := range topics {
		id := TopicID{byte(i), byte(i >> 8), byte(i >> 16)}
		recs = append(recs, topicRecord(fmt.Sprint("topic-", i), id),
			partitionRecord(id, &Partition{Replicas: []int32{1}, ISR: []int32{1}, Leader: 1}))
	}
	im, _, err := Empty().Apply(1, recs)
	if err != nil {
		tb.Fatal(err)
	}
	return im
}

// Adding one topic must cost the same whatever there is already.
func BenchmarkApplyOneTopic(b *testing.B) {
	for _, topics := range []int{10, 10_000} {
		b.Run(fmt.Sprint(topics), func(b *testing.B) {
			im := many(b, topics)
			id := TopicID{15: 1}
			recs := []*metadatapb.Record{topicRecord("new", id), partitionRecord(id, &Partition{})}
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := im.Apply(2, recs); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkTopicByID(b *testing.B) {
	im := many(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := im.TopicByID(TopicID{7, 7}); !ok {
			b.Fatal("not found")
		}
	}
}
