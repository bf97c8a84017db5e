package placement

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

const thisNode = 3

type calls []string

func (c *calls) Own(shard, epoch int32) { *c = append(*c, fmt.Sprintf("own %d/%d", shard, epoch)) }
func (c *calls) Release(shard, epoch int32) {
	*c = append(*c, fmt.Sprintf("release %d/%d", shard, epoch))
}

// world is a placement and images of a cluster with two shards, one after the other.
type world struct {
	t      *testing.T
	p      Placement
	made   calls
	before *metadata.Image
	image  *metadata.Image
	topic  metadata.TopicID
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, image: metadata.Empty(), topic: metadata.TopicID{1}}
	w.p = Placement{Topic: metadata.TransactionStateTopic, NodeID: thisNode, Shards: &w.made}
	w.apply(&metadatapb.Record{Record: &metadatapb.Record_Topic{Topic: &metadatapb.TopicRecord{Name: metadata.TransactionStateTopic, TopicId: w.topic[:]}}},
		&metadatapb.Record{Record: &metadatapb.Record_Partition{Partition: (&metadata.Partition{Leader: metadata.NoLeader}).Record(w.topic)}},
		&metadatapb.Record{Record: &metadatapb.Record_Partition{Partition: (&metadata.Partition{ID: 1, Leader: metadata.NoLeader}).Record(w.topic)}})
	return w
}

func (w *world) apply(records ...*metadatapb.Record) *metadata.Delta {
	w.t.Helper()
	next, d, err := w.image.Apply(w.image.Offset()+int64(len(records)), records)
	if err != nil {
		w.t.Fatal(err)
	}
	w.before, w.image = w.image, next
	return d
}

func (w *world) registers(epoch int64) *metadatapb.Record {
	n := metadata.Node{ID: thisNode, Epoch: epoch, Incarnation: [16]byte{byte(epoch)}, Roles: []string{metadata.RoleTxnCoord}}
	return &metadatapb.Record{Record: &metadatapb.Record_RegisterBroker{RegisterBroker: n.Record()}}
}

func (w *world) gives(shard, owner, epoch int32) *metadatapb.Record {
	s := metadata.Shard{Owner: owner, Epoch: epoch}
	return &metadatapb.Record{Record: &metadatapb.Record_CoordinatorShard{CoordinatorShard: s.Record(w.topic, shard)}}
}

func (w *world) expect(want ...string) {
	w.t.Helper()
	if !slices.Equal(w.made, want) {
		w.t.Errorf("%q, want %q", w.made, want)
	}
	w.made = nil
}

// A process that has not registered yet sees what belonged to the process before it, or still belongs to it.
func TestShardsOfTheProcessBeforeAreNotTaken(t *testing.T) {
	w := newWorld(t)
	w.apply(w.registers(10), w.gives(0, thisNode, 5), w.gives(1, 4, 5))
	w.p.Own(w.image, 11)
	w.expect()
	w.p.Own(w.image, 10)
	w.expect("own 0/5")
}

func TestShardsAreGivenUp(t *testing.T) {
	w := newWorld(t)
	w.apply(w.registers(10), w.gives(0, thisNode, 5), w.gives(1, thisNode, 5))
	w.p.Release(w.before, w.apply(w.gives(0, 4, 6), w.gives(1, thisNode, 6)))
	w.expect("release 0/6")
	w.p.Release(w.before, w.apply(w.registers(12)))
	w.expect()
	d := w.apply(&metadatapb.Record{Record: &metadatapb.Record_RemoveTopic{RemoveTopic: &metadatapb.RemoveTopicRecord{TopicId: w.topic[:]}}})
	w.p.Release(w.before, d)
	w.expect("release 0/6", "release 1/6")
}
