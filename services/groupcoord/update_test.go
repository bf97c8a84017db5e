package groupcoord

import (
	"testing"

	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/libs/node"
)

const thisNode = 3

// cluster is images of a cluster with one shard, one after the other.
type cluster struct {
	t     *testing.T
	image *metadata.Image
	topic metadata.TopicID
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, image: metadata.Empty(), topic: metadata.TopicID{1}}
	c.apply(
		&metadatapb.Record{Record: &metadatapb.Record_Topic{Topic: &metadatapb.TopicRecord{Name: metadata.ConsumerOffsetsTopic, TopicId: c.topic[:]}}},
		&metadatapb.Record{Record: &metadatapb.Record_Partition{Partition: (&metadata.Partition{Leader: metadata.NoLeader}).Record(c.topic)}})
	return c
}

func (c *cluster) apply(records ...*metadatapb.Record) *metadata.Delta {
	c.t.Helper()
	next, d, err := c.image.Apply(c.image.Offset()+int64(len(records)), records)
	if err != nil {
		c.t.Fatal(err)
	}
	c.image = next
	return d
}

// show has a service see the newest image.
func (c *cluster) show(s *Service, d *metadata.Delta) { s.update(c.image, d) }

func (c *cluster) registers(epoch int64) *metadatapb.Record {
	n := metadata.Node{ID: thisNode, Epoch: epoch, Incarnation: [16]byte{byte(epoch)}, Roles: []string{metadata.RoleGroupCoord}}
	return &metadatapb.Record{Record: &metadatapb.Record_RegisterBroker{RegisterBroker: n.Record()}}
}

func (c *cluster) gives(owner, epoch int32) *metadatapb.Record {
	s := metadata.Shard{Owner: owner, Epoch: epoch}
	return &metadatapb.Record{Record: &metadatapb.Record_CoordinatorShard{CoordinatorShard: s.Record(c.topic, 0)}}
}

func newService(t *testing.T) *Service {
	t.Helper()
	s, err := New(Config{NodeID: thisNode, Static: environment(t, nil).Values}, Deps{Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	s.node = node.New(node.Config{ID: thisNode, Static: s.cfg.Static}, node.Deps{})
	return s
}

func (s *Service) wantEpoch(t *testing.T, want int32) {
	t.Helper()
	if got, ok := s.runtime.Epoch(0); got != want || ok != (want > 0) {
		t.Errorf("the shard has epoch %d here (%v), want %d", got, ok, want)
	}
}

// A process that has not registered yet sees what belonged to the process before it, or still belongs to it.
func TestShardsOfTheProcessBeforeAreNotTaken(t *testing.T) {
	c, s := newCluster(t), newService(t)
	c.apply(c.registers(10), c.gives(thisNode, 5))
	c.show(s, c.apply(c.gives(thisNode, 6)))
	s.wantEpoch(t, 0)
	s.placement.Own(c.image, 11)
	s.wantEpoch(t, 0)
	s.placement.Own(c.image, 10)
	s.wantEpoch(t, 6)
}

func TestShardsAreGivenUp(t *testing.T) {
	c, s := newCluster(t), newService(t)
	c.apply(c.registers(10), c.gives(thisNode, 5))
	s.placement.Own(c.image, 10)
	s.wantEpoch(t, 5)
	c.show(s, c.apply(c.gives(metadata.NoOwner, 6)))
	s.wantEpoch(t, 0)

	c.show(s, c.apply(c.gives(thisNode, 7)))
	s.placement.Own(c.image, 10)
	s.wantEpoch(t, 7)
	c.show(s, c.apply(&metadatapb.Record{Record: &metadatapb.Record_RemoveTopic{RemoveTopic: &metadatapb.RemoveTopicRecord{TopicId: c.topic[:]}}}))
	s.wantEpoch(t, 0)
}
