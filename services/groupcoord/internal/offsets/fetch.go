package offsets

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/kafka/groupapi"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
)

// fetchesByID is the first version of OffsetFetch that names topics by their ids.
const fetchesByID = 10

// code is the Kafka code of an error; 0 for none.
func code(err error) int16 {
	if err == nil {
		return 0
	}
	return groupapi.Code(err).Code
}

// Fetch answers for one group. Without topics it answers for all that the group has offsets of. With stable an offset that an open
// transaction may replace is not given.
func (s *Store) Fetch(o *op.Op, g *kmsg.OffsetFetchRequestGroup, version int16, stable bool) kmsg.OffsetFetchResponseGroup {
	out := kmsg.NewOffsetFetchResponseGroup()
	out.Group = g.Group
	if g.Topics == nil {
		out.Topics = s.fetchAll(o, g.Group, stable)
		return out
	}
	for i := range g.Topics {
		t := &g.Topics[i]
		r := kmsg.NewOffsetFetchResponseGroupTopic()
		r.Topic, r.TopicID = t.Topic, t.TopicID
		name, err := t.Topic, error(nil)
		if version >= fetchesByID {
			var topic *metadata.Topic
			if topic, err = find(o, "", t.TopicID, true); err == nil {
				name = topic.Name
			}
		}
		for _, index := range t.Partitions {
			p := nothing(index)
			if p.ErrorCode = code(err); err == nil {
				p = s.fetch(o, g.Group, partition{name, index}, stable)
			}
			r.Partitions = append(r.Partitions, p)
		}
		out.Topics = append(out.Topics, r)
	}
	return out
}

func (s *Store) fetchAll(o *op.Op, group string, stable bool) []kmsg.OffsetFetchResponseGroupTopic {
	topics := []kmsg.OffsetFetchResponseGroupTopic{}
	for _, at := range s.committed[group].ordered() {
		t, ok := o.Image.Topic(at.topic)
		if !ok {
			continue // about to be deleted
		}
		if n := len(topics); n == 0 || topics[n-1].Topic != at.topic {
			r := kmsg.NewOffsetFetchResponseGroupTopic()
			r.Topic, r.TopicID = at.topic, t.ID
			topics = append(topics, r)
		}
		last := &topics[len(topics)-1]
		last.Partitions = append(last.Partitions, s.fetch(o, group, at, stable))
	}
	return topics
}

// nothing is what is answered where there is no offset.
func nothing(index int32) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	text := ""
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = index, -1, -1, &text
	return p
}

func (s *Store) fetch(o *op.Op, group string, at partition, stable bool) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := nothing(at.index)
	if stable && s.unstable(group, at) {
		p.ErrorCode = kerr.UnstableOffsetCommit.Code
		return p
	}
	if e, ok := s.committed[group][at]; ok && !(life{at.topic, e.TopicID}).over(o.Image) {
		p.Offset, p.LeaderEpoch, p.Metadata = e.Offset, e.LeaderEpoch, &e.Metadata
	}
	return p
}

// Delete deletes offsets of a group that allows it, except those of topics that its members subscribe to.
func (s *Store) Delete(o *op.Op, req *kmsg.OffsetDeleteRequest, subscribed func(topic string) bool) *kmsg.OffsetDeleteResponse {
	resp := kmsg.NewPtrOffsetDeleteResponse()
	for i := range req.Topics {
		t := &req.Topics[i]
		out := kmsg.NewOffsetDeleteResponseTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			r := kmsg.NewOffsetDeleteResponseTopicPartition()
			r.Partition = p.Partition
			at := partition{t.Topic, p.Partition}
			_, exists := s.committed[req.Group][at]
			switch {
			case subscribed(t.Topic):
				r.ErrorCode = kerr.GroupSubscribedToTopic.Code
			case (exists || s.unstable(req.Group, at)) && !forget(o, req.Group, at):
				r.ErrorCode = kerr.CoordinatorNotAvailable.Code // the rest goes with the next request
			}
			out.Partitions = append(out.Partitions, r)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}
